"""`multilane load` against a gateway that breaks a promise."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.load.calls import numbers, run
from tests.load.planted import FAULTS

if TYPE_CHECKING:
    from collections.abc import Callable

    from gateway.tools.load.response_checks import Rule
    from tests.load.script import Events
    from tests.load.stub import Stub


@pytest.mark.parametrize(("spoil", "rule"), FAULTS.values(), ids=FAULTS.keys())
async def test_a_planted_fault_makes_the_exit_code_1(
    stub: Stub, spoil: Callable[[Events], None], rule: Rule
) -> None:
    stub.spoil = spoil
    code, found = await numbers(stub)
    assert code == 1
    assert rule in found["violations"]["rules"]
    assert found["responses"]["completed"] == 18


def _on_another_lane(events: Events) -> None:
    events[8]["stream_id"] = "lane-0" if events[8]["stream_id"] != "lane-0" else "lane-1"


def _on_no_lane(events: Events) -> None:
    del events[8]["stream_id"]


def _no_terminal(events: Events) -> None:
    events.pop()


@pytest.mark.parametrize(
    ("spoil", "rules"),
    [
        (_on_another_lane, {"number", "text"}),
        (_on_no_lane, {"lane", "number"}),
        (_no_terminal, {"unanswered"}),
        (list.clear, {"unanswered"}),
        (lambda events: events[8].update(type=None), {"shape", "number"}),
    ],
    ids=["another lane", "no lane", "no terminal", "no answer", "no type"],
)
async def test_faults_between_lanes(
    stub: Stub, spoil: Callable[[Events], None], rules: set[str]
) -> None:
    stub.spoil = spoil
    code, found = await numbers(stub, "--timeout", "0.3")
    assert code == 1
    assert rules <= set(found["violations"]["rules"])


async def test_the_first_violations_are_printed_with_their_event(stub: Stub) -> None:
    stub.spoil = FAULTS["a delta lost"][0]
    result = await run(stub)
    assert result.exit_code == 1
    assert "violations by rule" in result.output
    assert "expected" in result.output
    assert '"sequence_number"' in result.output.replace("\n", "")


async def test_a_lost_connection_leaves_its_lanes_unanswered(stub: Stub) -> None:
    stub.hang_up = True
    code, found = await numbers(stub)
    assert code == 1
    assert found["errors"] == {"closed with 1011 (on purpose)": 1}
    assert set(found["violations"]["rules"]) == {"unanswered"}
