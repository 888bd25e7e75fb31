"""What is lost is in the log once for each reason, and counted."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import pytest

from steering.loss_log import QUIET, LossLog

if TYPE_CHECKING:
    from collections.abc import Iterator

log = logging.getLogger("tests.loss_log")


class Lines(logging.Handler):
    """What was written."""

    def __init__(self) -> None:
        super().__init__()
        self.said: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.said.append(record.getMessage())


@pytest.fixture
def lines() -> Iterator[Lines]:
    handler = Lines()
    log.addHandler(handler)
    yield handler
    log.removeHandler(handler)


class Clock:
    """A clock that the test moves."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_a_spell_ends_with_what_is_kept_a_while_after_it(lines: Lines) -> None:
    clock = Clock()
    losses = LossLog(log, "things were lost", clock)
    losses.kept()
    for number in range(3):
        losses.lost("away", f"lost {number}")
        losses.lost("full", f"full {number}")
        losses.kept()
    clock.now += QUIET
    losses.lost("away", "lost 3")
    clock.now += QUIET - 1
    losses.kept()
    assert lines.said == ["lost 0", "full 0"]
    clock.now += 1
    losses.kept()
    losses.kept()
    assert lines.said[2:] == ["7 things were lost: 4 away, 3 full"]
    losses.lost("away", "lost again")
    losses.end()
    assert lines.said[3:] == ["lost again"]
