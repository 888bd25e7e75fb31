"""`multilane load --steer-share` against a gateway that steers, rightly and wrongly."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from gateway.tools.load.plan import MAX_TURNS
from tests.load.calls import numbers, run
from tests.load.turns import CALL, SteerStub, Turn

if TYPE_CHECKING:
    from collections.abc import Callable

ALL = ["--steer-share", "1"]
FEW = [*ALL, "--connections", "1", "--lanes", "2", "--responses", "1"]


def _completes_first(turn: Turn) -> None:
    turn.ended_first = True
    turn.end("completed")


def _fails(turn: Turn) -> None:
    turn.follow.clear()
    turn.late = [turn.failed("successor_creation_failed", turn.steer["input"])]


def _is_too_late(turn: Turn) -> None:
    _completes_first(turn)
    turn.follow.clear()
    turn.told = [turn.failed("response_already_completed", turn.steer["input"])]
    del turn.told[0]["steer"]["id"]


def _waits(turn: Turn) -> None:
    _completes_first(turn)
    turn.end("completed", None, CALL)
    turn.follow.clear()
    turn.told.append(turn.event("pending"))


@pytest.fixture
def steered() -> SteerStub:
    return SteerStub()


async def test_every_steer_is_followed_to_its_successor(steered: SteerStub) -> None:
    code, found = await numbers(steered, *ALL, "--ahead")
    assert (code, found["violations"]["count"], found["errors"]) == (0, 0, {})
    steers, responses = found["steers"], found["responses"]
    assert steers["sent"] == steers["committed"] == responses["successors"] > 18
    assert steers["accepted"] == steers["cut"] == responses["incomplete"] == steers["sent"]
    assert 0 < steers["shown"] <= responses["completed"]
    assert (steers["failed"], steers["pending"], steers["unsettled"]) == ({}, 0, 0)
    assert responses["unfinished"] == 0
    accepted, successor = found["steer_to_accepted_ms"], found["steer_to_successor_ms"]
    assert list(accepted) == ["p50", "p90", "p99", "max"]
    assert 0 < accepted["p50"] <= successor["p50"] <= successor["max"]


async def test_a_chain_is_steered_to_its_end(steered: SteerStub) -> None:
    _, found = await numbers(steered, *ALL, "--fork-share", "0")
    assert found["responses"]["successors"] == 18 * (MAX_TURNS - 1)
    assert found["responses"]["completed"] == found["steers"]["shown"] == 18


@pytest.mark.parametrize(
    ("plant", "counts"),
    [
        (_completes_first, {"committed": 14, "cut": 13}),
        (_fails, {"accepted": 4, "failed": {"successor_creation_failed": 1}}),
        (_is_too_late, {"accepted": 3, "failed": {"response_already_completed": 1}}),
    ],
)
async def test_what_may_become_of_a_steer(
    steered: SteerStub, plant: Callable[[Turn], None], counts: dict[str, Any]
) -> None:
    steered.plant = plant
    lanes = 2 if "committed" in counts else 1
    code, found = await numbers(steered, *FEW, "--lanes", str(lanes))
    assert (code, found["violations"]["count"]) == (0, 0)
    assert counts.items() <= found["steers"].items()
    assert found["steers"]["unsettled"] == 0


async def test_the_next_create_commits_what_is_pending(steered: SteerStub) -> None:
    steered.at, steered.plant = 0, _waits
    options = ["--lanes", "1", "--responses", "3", "--fork-share", "0"]
    code, found = await numbers(steered, *FEW, *options)
    assert (code, found["violations"]["count"]) == (0, 0)
    assert found["responses"]["successors"] == 0
    expected = {"sent": 3, "accepted": 3, "pending": 3, "committed": 2, "unsettled": 1}
    assert expected.items() <= found["steers"].items()


def _never_follows(turn: Turn) -> None:
    turn.follow.clear()


def _is_never_answered(turn: Turn) -> None:
    _is_too_late(turn)
    turn.told.clear()


def _follows_twice(turn: Turn) -> None:
    turn.follow *= 2


def _fails_with_another_input(turn: Turn) -> None:
    _fails(turn)
    turn.late = [turn.failed("successor_creation_failed", "something else")]


def _fails_as_another(turn: Turn) -> None:
    _fails(turn)
    turn.late[0]["steer"]["id"] = "steer_of_another"


def _fails_and_follows(turn: Turn) -> None:
    turn.late = [turn.failed("successor_creation_failed", turn.steer["input"])]


def _follows_after_it_failed(turn: Turn) -> None:
    turn.told.append(turn.failed("successor_creation_failed", turn.steer["input"]))


def _follows_a_failed_one(turn: Turn) -> None:
    turn.end("failed")


def _follows_what_waits(turn: Turn) -> None:
    following = list(turn.follow)
    _waits(turn)
    turn.follow = following


def _is_misnumbered(turn: Turn) -> None:
    turn.told[0]["sequence_number"] = 99


def _is_misnumbered_at_the_end(turn: Turn) -> None:
    _completes_first(turn)
    turn.told[0]["sequence_number"] = 0


def _other(lane: str) -> str:
    return "lane-0" if lane != "lane-0" else "lane-1"


def _follows_elsewhere(turn: Turn) -> None:
    turn.follow[0]["stream_id"] = _other(turn.follow[0]["stream_id"])


def _is_told_elsewhere(turn: Turn) -> None:
    turn.told[0]["stream_id"] = _other(turn.follow[0]["stream_id"])


def _is_accepted_twice(turn: Turn) -> None:
    turn.told *= 2


def _has_no_id(turn: Turn) -> None:
    del turn.told[0]["steer"]["id"]


def _has_an_id_again(turn: Turn) -> None:
    turn.told[0]["steer"]["id"] = f"steer_{1:032x}"


def _is_of_no_response(turn: Turn) -> None:
    turn.told.append(turn.event("accepted", steer={"previous_response_id": "resp_x"}))


def _waits_too_soon(turn: Turn) -> None:
    turn.told.append(turn.event("pending"))


def _stops_unasked(turn: Turn) -> None:
    turn.ended_first = True


def _stops_behind_a_call(turn: Turn) -> None:
    turn.end("incomplete", "steered", CALL)


def _is_forgotten(turn: Turn) -> None:
    """Of any but the first one: its create's whole answer shows that this gateway repeats."""
    if turn.others:
        turn.follow[0]["input"] = "nothing"
    else:
        _is_too_late(turn)


def _is_said_twice(turn: Turn) -> None:
    if turn.others:
        turn.follow[0]["input"] += turn.follow[0]["input"]
    else:
        _is_too_late(turn)


def _is_mixed(turn: Turn) -> None:
    if turn.others:
        turn.follow[0]["input"] += f" {turn.others[0]}"


FAULTS: dict[str, tuple[Callable[[Turn], None], str]] = {
    "never committed": (_never_follows, "steer"),
    "never answered": (_is_never_answered, "steer"),
    "committed twice": (_follows_twice, "steer"),
    "failed with another input": (_fails_with_another_input, "steer"),
    "failed with another id": (_fails_as_another, "steer"),
    "failed after it was committed": (_fails_and_follows, "steer"),
    "committed after it failed": (_follows_after_it_failed, "steer"),
    "the successor of a failed response": (_follows_a_failed_one, "steer"),
    "committed without the tool's output": (_follows_what_waits, "steer"),
    "a wrong number": (_is_misnumbered, "number"),
    "a wrong number after the terminal": (_is_misnumbered_at_the_end, "number"),
    "the successor on another lane": (_follows_elsewhere, "lane"),
    "accepted on another lane": (_is_told_elsewhere, "lane"),
    "accepted twice": (_is_accepted_twice, "steer"),
    "accepted without an id": (_has_no_id, "steer"),
    "an id twice": (_has_an_id_again, "steer"),
    "a steer of no response": (_is_of_no_response, "steer"),
    "pending before the terminal": (_waits_too_soon, "steer"),
    "stopped without a steer": (_stops_unasked, "steer"),
    "stopped behind a call": (_stops_behind_a_call, "steer"),
}
#: The same, of what the successors say.
ECHOES: dict[str, Callable[[Turn], None]] = {
    "not in the successor's text": _is_forgotten,
    "twice in the successor's text": _is_said_twice,
    "in another lane's text": _is_mixed,
}


@pytest.mark.parametrize(("plant", "rule"), FAULTS.values(), ids=FAULTS.keys())
async def test_a_planted_fault_makes_the_exit_code_1(
    steered: SteerStub, plant: Callable[[Turn], None], rule: str
) -> None:
    steered.plant = plant
    code, found = await numbers(steered, *FEW, "--responses", "2", "--timeout", "1")
    assert code == 1
    assert rule in found["violations"]["rules"]


@pytest.mark.parametrize("plant", ECHOES.values(), ids=ECHOES.keys())
async def test_a_steer_shows_in_its_successor_once_and_nowhere_else(
    steered: SteerStub, plant: Callable[[Turn], None]
) -> None:
    steered.at, steered.plant = 0, plant
    code, found = await numbers(steered, *FEW)
    assert code == 1
    assert found["violations"]["rules"].keys() == {"steer"}


async def test_a_backend_that_repeats_nothing_is_not_asked_to(steered: SteerStub) -> None:
    steered.repeats = False
    code, found = await numbers(steered, *ALL)
    assert (code, found["steers"]["shown"]) == (0, 0)


async def test_the_tables(steered: SteerStub) -> None:
    steered.plant = _fails
    result = await run(steered, *FEW, "--lanes", "1")
    assert result.exit_code == 0
    for words in ("4 sent", "1 failed", "steer to accepted", "failed steers by code"):
        assert words in result.output
