"""The rules hold, and no row of a transition table is there for nothing."""

from __future__ import annotations

import pytest

from lanes.board import TRANSITIONS
from tests.machines import rules

#: Bounded by the number of plays; how long they take is the machine's affair.
pytestmark = pytest.mark.timeout(300)


def test_the_rules_hold_and_visit_every_row() -> None:
    rules.visited.clear()
    rules.play(120, shrink=True)
    assert rules.visited >= set(TRANSITIONS), set(TRANSITIONS) - rules.visited
