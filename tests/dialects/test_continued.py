"""Whatever a backend sent, and wherever a steer stopped it: the next request is one that is taken.

By the backend itself, and by every other one: a history outlives the backend that it began with.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from gateway.upstream.dialect import find
from lanes.codec import encode
from lanes.stream.run_states import RunState
from tests.dialects import chat_judge
from tests.dialects.strict import JUDGES, refuses
from tests.dialects.test_tapes import ENDS, reads
from tests.machines.drive import REQUEST, Played, start
from tests.support.dialect_reading import check, profile, read, received

if TYPE_CHECKING:
    from lanes.ports import Event
    from lanes.stream.run import Run

    Item = dict[str, Any]

FIRST: Item = {"role": "user", "content": "hi"}
NEXT: Item = {"role": "user", "content": "shorter, please"}
DONE = "what the tool had to say"
PARENTS = (RunState.COMPLETED, RunState.INCOMPLETE, RunState.STEERED)


def answers(run: Run) -> list[Item]:
    """What the client gives back for the calls it was left with."""
    stubs = [{k: v for k, v in stub.items() if k != "name"} for stub in run.required_input()]
    return [{**stub, "output": DONE} for stub in stubs]


def history(run: Run) -> list[bytes]:
    """As the gateway has it: the input, the output, the steers, and then what was owed."""
    after = [NEXT, *answers(run)]
    return [encode(FIRST), *(e.data for e in run.entries()), *(encode(item) for item in after)]


def taken(run: Run, dialect: str) -> list[Item]:
    """The input of the next request, which that backend takes, and which has all texts in it."""
    request = json.loads(find(dialect).request({"model": "m", "input": [NEXT]}, history(run)))
    assert refuses(dialect, request) is None
    given: list[Item] = request["input"]
    assert given[0]["content"] == FIRST["content"]
    users = [item["content"] for item in given if item.get("role") == "user"]
    assert NEXT["content"] in users[1:]
    return given


def texts(items: Any) -> str:
    """All texts of the messages among these items."""
    lines = []
    for item in items:
        content = item["content"] if item.get("type", "message") == "message" else []
        parts = [{"text": content}] if isinstance(content, str) else content
        lines += [part.get("text", part.get("refusal", "")) for part in parts]
    return "\n".join(lines)


@pytest.mark.parametrize("name", ENDS)
def test_every_dialect_takes_the_history_of_every_backend(name: str) -> None:
    played = read(reads(name), profile(name))
    if played.run.state not in PARENTS:
        return
    replies = [item for item in played.output if item["type"] == "message"]
    for dialect in JUDGES:
        given = taken(played.run, dialect)
        assert texts(replies) in texts(given)
        assert str(given).count(DONE) == len(answers(played.run))


def steered(name: str, events: list[Event], at: int) -> Played:
    """The body with a steer after so many events, and played to the end where it goes on."""
    run, sent = start(REQUEST, profile(name))
    for number, (event, data) in enumerate(events):
        if number == at:
            run.cut()
        run.receive(event, data)
    run.end()
    return Played(run, sent)


@pytest.mark.parametrize("name", ENDS)
def test_a_steer_at_any_event_leaves_what_every_dialect_takes(name: str) -> None:
    events, cuts, inputs = received(reads(name)), 0, set()
    for at in range(1, len(events) + 1):
        played = steered(name, events, at)
        terminal = check(played)
        cuts += terminal["incomplete_details"] == {"reason": "steered"}
        sent = texts(item for item in terminal["output"] if item["type"] == "message")
        entries = tuple(entry.data for entry in played.run.entries())
        if entries not in inputs and played.run.state in PARENTS:
            inputs.add(entries)
            for dialect in JUDGES:
                assert sent in texts(taken(played.run, dialect))
    assert cuts > 0


@pytest.mark.parametrize("name", ENDS)
def test_a_server_of_chat_takes_the_history_of_every_backend(name: str) -> None:
    played = read(reads(name), profile(name))
    if played.run.state in PARENTS:
        made = find("chat").request({"model": "m", "input": [NEXT]}, history(played.run))
        assert chat_judge.refuses(json.loads(made)) is None
        assert made.count(DONE.encode()) == len(answers(played.run))
