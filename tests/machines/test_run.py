"""The table of a run, and every way to its one end."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Any

import pytest

from lanes.codec import encode
from lanes.errors import Fault, IllegalTransition, UpstreamFault
from lanes.stream.profile import Profile
from lanes.stream.run_states import LIVE, TRANSITIONS, RunState, RunStep
from tests.machines.backend import (
    added,
    args,
    call,
    completed,
    created,
    delta,
    done,
    ended,
    message,
    reasoning,
)
from tests.machines.drive import NOW, Event, Played, play, start
from tests.support.judge import judge

if TYPE_CHECKING:
    from collections.abc import Callable

    from lanes.stream.run import Run

BROKEN = UpstreamFault("gone", code="server_error", status=502, type="server_error")

SEALED = {"type": "reasoning", "id": "rs", "summary": [], "encrypted_content": "e"}


def cut(run: Run) -> None:
    """Ask it to stop where it cannot: within encrypted reasoning."""
    run.receive(None, encode(added(SEALED)))
    run.cut()


STEPS: dict[RunStep, Callable[[Run], object]] = {
    RunStep.QUEUE: lambda run: run.queue(),
    RunStep.BEGIN: lambda run: run.begin({}),
    RunStep.COMPLETE: lambda run: run.receive(None, b'{"type":"response.completed"}'),
    RunStep.STOP: lambda run: run.receive(None, b'{"type":"response.incomplete"}'),
    RunStep.FAIL: lambda run: run.fail(BROKEN),
    RunStep.ABANDON: lambda run: run.abandon(),
    RunStep.CUT: cut,
    RunStep.STEER: lambda run: run.receive(None, encode(done(SEALED))),
    RunStep.CANCEL: lambda run: run.cancel(),
}


ENDED = {
    RunState.COMPLETED: "completed",
    RunState.INCOMPLETE: "incomplete",
    RunState.FAILED: "failed",
    RunState.STEERED: "incomplete",
    RunState.CANCELLED: "incomplete",
}


def reach(state: RunState) -> tuple[Run, list[Event]]:
    """A run in that state, the short way."""
    run, sent = start()
    if state is RunState.QUEUED:
        STEPS[RunStep.QUEUE](run)
    elif state not in (RunState.STARTING, RunState.REFUSED, RunState.ABANDONED):
        STEPS[RunStep.BEGIN](run)
    if state in (RunState.CUTTING, RunState.STEERED):
        STEPS[RunStep.CUT](run)
    steps = {
        RunState.COMPLETED: RunStep.COMPLETE,
        RunState.INCOMPLETE: RunStep.STOP,
        RunState.FAILED: RunStep.FAIL,
        RunState.REFUSED: RunStep.FAIL,
        RunState.ABANDONED: RunStep.ABANDON,
        RunState.STEERED: RunStep.STEER,
        RunState.CANCELLED: RunStep.CANCEL,
    }
    if state in steps:
        STEPS[steps[state]](run)
    assert run.state is state
    return run, sent


@pytest.mark.parametrize(("row", "target"), TRANSITIONS.items())
def test_each_row_is_taken(row: tuple[RunState, RunStep], target: RunState) -> None:
    state, step = row
    run, sent = reach(state)
    STEPS[step](run)
    assert run.state is target
    assert run.over is (target not in LIVE)
    begun = ("response.created", "response.queued", "response.in_progress")
    snapshots = [event for event in sent if "status" in event.get("response", {})]
    terminals = [event for event in snapshots if event["type"] not in begun]
    assert len(terminals) == (target in ENDED)
    if target in ENDED:
        assert sent[-1]["response"]["status"] == ENDED[target]
        if target is not RunState.STEERED:  # the judge wants to see the steers, too
            judge(sent)
    never = target in (RunState.REFUSED, RunState.ABANDONED)
    assert (state is RunState.STARTING and never) == (not sent)


@pytest.mark.parametrize("row", sorted(set(product(RunState, RunStep)) - set(TRANSITIONS)))
def test_a_missing_row_is_our_own_fault(row: tuple[RunState, RunStep]) -> None:
    state, step = row
    run, _ = reach(state)
    with pytest.raises(IllegalTransition, match=f"{state}: {step}"):
        run._step(step)


@pytest.mark.parametrize("state", [state for state in RunState if state not in LIVE])
def test_nothing_gets_out_of_an_end(state: RunState) -> None:
    run, sent = reach(state)
    before = len(sent)
    for step, take in STEPS.items():
        if step is not RunStep.QUEUE:  # only ever the first
            take(run)
    run.receive(None, b"not json")
    run.end()
    assert run.state is state
    assert len(sent) == before


def test_a_warm_up_is_a_whole_response() -> None:
    run, sent = start({"model": "m", "generate": False})
    run.complete_empty()
    terminal = Played(run, sent).terminal
    assert terminal["status"] == "completed"
    assert terminal["output"] == []
    assert terminal["usage"]["total_tokens"] == 0
    assert run.entries() == []


def test_our_own_fault_keeps_what_was_finished() -> None:
    fault = Fault("ours", code="server_error", status=500, type="server_error")
    run, sent = start()
    assert run.give_up(fault) is False
    for event in (created(), added(message()), delta("ab")):
        run.receive(None, encode(event))
    assert run.give_up(fault) is True
    assert run.state is RunState.FAILED
    assert sent[-1]["response"]["output"] == []
    assert sent[-1]["response"]["error"] == {"code": "server_error", "message": "ours"}
    assert run.give_up(fault) is True
    assert sent[-1]["type"] == "response.failed"


ERRORS: dict[str, Event] = {
    "flat": {"type": "error", "code": None, "message": "overloaded", "param": None},
    "nested": {"type": "error", "error": {"type": "server_error", "message": "overloaded"}},
    "bare": {"error": {"message": "overloaded", "code": 500}},
    "string": {"error": "overloaded"},
    "typed": {"error_type": "provider", "message": "overloaded"},
    "in a response event": {"type": "response.zebra", "error": {"message": "overloaded"}},
}


@pytest.mark.parametrize("error", ERRORS.values(), ids=list(ERRORS))
def test_an_error_before_created_is_a_refusal(error: Event) -> None:
    played = play([error, created(), completed()])
    assert played.events == []
    assert played.run.state is RunState.REFUSED
    assert played.run.fault is not None
    assert (played.run.fault.message, played.run.fault.status) == ("overloaded", 500)


@pytest.mark.parametrize("error", ERRORS.values(), ids=list(ERRORS))
def test_an_error_after_created_is_a_failed_response(error: Event) -> None:
    last = ended("failed", error={"code": "server_error", "message": "again"})
    played = play([created(), added(message()), delta("par"), error, last])
    expected = {"code": "server_error", "message": "overloaded"}
    assert expected.items() <= played.terminal["error"].items()
    (item,) = played.output
    assert (item["status"], item["content"][0]["text"]) == ("incomplete", "par")


def test_an_error_type_of_null_is_no_error() -> None:
    played = play([created(), delta("a", error_type=None, error=None), completed()])
    assert played.terminal["status"] == "completed"


def test_a_cut_keeps_what_was_sent() -> None:
    played = play([created(), delta("par")])
    assert played.terminal["status"] == "failed"
    assert played.terminal["error"]["code"] == "server_error"
    assert "cut off" in played.terminal["error"]["message"]
    assert played.output[0]["content"][0]["text"] == "par"


@pytest.mark.parametrize("data", [b"[DONE]", b" [DONE]\n", b"{", b'{"type":"respon', b'x{"a":1}'])
def test_what_is_no_event_ends_a_response(data: bytes) -> None:
    run, sent = start()
    run.receive(None, data)
    assert run.state is RunState.REFUSED
    run, sent = reach(RunState.STREAMING)
    run.receive(None, data)
    assert run.state is RunState.FAILED
    assert judge(sent)


def test_only_the_first_terminal_counts() -> None:
    played = play([created(), completed(), ended("failed"), completed(), ERRORS["flat"]])
    assert played.types() == ["created", "in_progress", "completed"]
    assert played.terminal["error"] is None


LIMITED = {"model": "m", "max_output_tokens": 5}
SPENT = {"input_tokens": 1, "output_tokens": 5}
OVER = {"reason": "max_output_tokens"}
ENDS: list[tuple[Event, str, dict[str, Any] | None]] = [
    (completed(), "completed", None),
    (completed(status="in_progress"), "completed", None),
    (completed(incomplete_details={"reason": None}), "completed", None),
    (completed(incomplete_details=OVER), "incomplete", OVER),
    (completed(incomplete_details={"reason": "content_filter"}), "incomplete", None),
    (completed(status="incomplete"), "incomplete", OVER),
    (completed(usage=SPENT), "incomplete", OVER),
    (completed(usage=SPENT | {"output_tokens": 4}), "completed", None),
    (completed(status="failed"), "failed", None),
    (completed(status="cancelled"), "failed", None),
    (completed(status="queued"), "failed", None),
    (completed(error={"message": "x"}), "failed", None),
    (ended("incomplete"), "incomplete", OVER),
    (ended("incomplete", incomplete_details={"reason": "zebra"}), "incomplete", {"reason": None}),
    (ended("incomplete", incomplete_details={"reason": ["x"]}), "incomplete", {"reason": None}),
    (ended("incomplete", incomplete_details="x"), "incomplete", OVER),
    (ended("failed"), "failed", None),
    (ended("cancelled"), "failed", None),
    ({"type": "response.completed", "response": None}, "completed", None),
]


@pytest.mark.parametrize(("event", "status", "details"), ENDS)
def test_what_an_end_really_is(event: Event, status: str, details: dict[str, Any] | None) -> None:
    for events in ([event], [created(), event]):
        terminal = play(events, LIMITED, Profile(counts_limit=True)).terminal
        assert terminal["status"] == status
        if details is not None:
            assert terminal["incomplete_details"] == details


def test_the_token_limit_is_left_to_backends_that_tell_it() -> None:
    assert play([completed(usage=SPENT)], LIMITED).terminal["status"] == "completed"


def test_a_stop_leaves_its_mark_on_the_open_message_only() -> None:
    first = message("a", id="m0")
    played = play([created(), delta("a", "m0"), _done(first), delta("b"), ended("incomplete")])
    assert [item["status"] for item in played.output] == ["completed", "incomplete"]


def _done(item: dict[str, Any]) -> Event:
    return {"type": "response.output_item.done", "item": item}


def test_a_call_that_was_cut_is_relayed_as_it_is() -> None:
    cut = call('{"city":"Par', status="incomplete")
    for events in (
        [added(call()), args('{"city":"Par'), ended("incomplete", output=[cut])],
        [ended("incomplete", output=[cut])],
        [_done(cut), ended("incomplete", output=[cut])],
    ):
        played = play([created(), *events])
        (item,) = played.output
        assert (item["arguments"], item["status"]) == ('{"city":"Par', "incomplete")
        assert played.run.entries() == []


@pytest.mark.parametrize(("status", "kept"), [("incomplete", 0), ("completed", 2)])
def test_reasoning_before_a_call_that_is_left_out_is_left_out_too(status: str, kept: int) -> None:
    output = [reasoning("x"), call('{"city":"Par', status=status)]
    played = play([created(), *map(_done, output), completed(output)])
    assert (played.terminal["status"], len(played.output)) == ("completed", 2)
    assert len(played.run.entries()) == kept


def test_a_run_that_is_queued_waits_for_the_first_word() -> None:
    run, sent = start({"model": "m", "input": "hi", "background": True})
    run.queue()
    assert [event["response"]["status"] for event in sent] == ["queued", "queued"]
    run.receive(None, encode(created(model="gpt", created_at=5)))
    assert [event["type"] for event in sent[2:]] == ["response.in_progress"]
    run.receive(None, encode(completed()))
    judge(sent)
    assert {event["response"]["created_at"] for event in sent} == {NOW}
    assert sent[-1]["response"]["background"] is True


def test_a_run_fails_in_the_queue() -> None:
    run, sent = start({"model": "m", "input": "hi", "background": True})
    run.queue()
    run.fail(BROKEN)
    assert [event["type"] for event in sent] == [
        "response.created",
        "response.queued",
        "response.failed",
    ]
    judge(sent)
