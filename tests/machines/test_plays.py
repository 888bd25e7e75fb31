"""The same plays each time, whatever else is in the run."""

from __future__ import annotations

import importlib.util
import sys
from typing import TYPE_CHECKING

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

from tests.machines.plays import play

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

drawn: list[int] = []


class Dice(RuleBasedStateMachine):
    """Tells what it was given."""

    @rule(number=st.integers(0, 999), some=st.lists(st.sampled_from(range(500)), max_size=3))
    def roll(self, number: int, some: list[int]) -> None:
        drawn.extend([number, *some])


def _plays() -> list[int]:
    drawn.clear()
    play(Dice, 30, steps=10)
    return list(drawn)


def test_what_is_loaded_changes_no_play(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    alone = _plays()
    for count in range(2):
        path = tmp_path / f"company_{count}.py"
        path.write_text(f"NUMBERS = {list(range(200 + 20 * count, 220 + 20 * count))}\n")
        spec = importlib.util.spec_from_file_location(path.stem, path)
        assert spec is not None
        monkeypatch.setitem(sys.modules, path.stem, importlib.util.module_from_spec(spec))
        assert _plays() == alone


def test_another_seed_makes_other_plays() -> None:
    alone = _plays()
    play(Dice, 30, steps=10, chosen=1)
    assert drawn[len(alone) :] != alone
