"""What stays alive without a reason is named."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lanes.frames import Cancel
from tests.support.alive import MARK, twice

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

KEPT: list[object] = []


class _Cycle:
    """Dies with the collector alone."""

    def __init__(self, held: object) -> None:
        self.held = held
        self.itself = self


async def nothing() -> None:
    Cancel("a", None)


async def kept() -> None:
    KEPT.append(Cancel("a", None))


async def held_by_a_cycle() -> None:
    _Cycle(Cancel("a", None))


async def a_body() -> None:
    KEPT.append({"user": MARK, "tools": []})


async def test_what_dies_with_its_last_reference_is_gone() -> None:
    await twice(nothing)


@pytest.mark.parametrize("play", [kept, held_by_a_cycle, a_body])
async def test_what_stays_is_found(
    play: Callable[[], Awaitable[None]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.support.alive.HANG", 0)
    with pytest.raises(AssertionError, match=r"Cancel|the body of a create"):
        await twice(play)
