"""The rules hold, and no row of the tables is there for nothing."""

from __future__ import annotations

import pytest

from lanes.stream.run_states import TRANSITIONS as RUN
from lanes.stream.run_states import RunState as RunState
from lanes.stream.run_states import RunStep as RunStep
from steering.states import TRANSITIONS
from tests.steering import rules, watch
from tests.steering.native import NativeRules
from tests.steering.plays import PLAYS

#: Bounded by the number of plays; how long they take is the machine's affair.
pytestmark = pytest.mark.timeout(300)


def test_the_rules_hold_and_visit_every_row() -> None:
    watch.visited.clear()
    watch.cut.clear()
    rules.play(600, shrink=True)
    assert watch.visited >= set(TRANSITIONS), set(TRANSITIONS) - watch.visited
    steps = (RunStep.CUT, RunStep.CANCEL)
    about = {row for row in RUN if row[0] is RunState.CUTTING or row[1] in steps}
    assert watch.cut >= about, about - watch.cut


def test_the_rules_hold_when_the_backend_steers() -> None:
    rules.play(600, shrink=True, rules=NativeRules)
    assert NativeRules.followed > 20


@pytest.mark.parametrize("machine", [rules.Rules, NativeRules])
@pytest.mark.parametrize("name", PLAYS)
def test_what_went_wrong_once(name: str, machine: type[rules.Rules]) -> None:
    with watch.watched():
        rules.replay(PLAYS[name], machine)
