"""What passes through a run as it is, what is taken out, and what only a run may say."""

from __future__ import annotations

from typing import Any

import pytest

from tests.machines.backend import added, completed, created, delta, done, message
from tests.machines.drive import REQUEST, Event, feed, play, start
from tests.support.judge import judge

ZEBRA: Event = {"type": "response.zebra.delta", "k": {"deep": [1, None]}, "sequence_number": 2}


def test_unknown_events_and_fields_pass() -> None:
    opening = {**created(created_at=1735722153.5, x_vendor={"a": 1}), "x_event": 0}
    ending = {**completed(x_vendor={"a": 2}, x_late=None), "x_end": ""}
    played = play([opening, ZEBRA, ending])
    first, second, zebra, last = played.events
    assert zebra == ZEBRA
    assert (first["x_event"], second["x_event"], last["x_end"]) == (0, 0, "")
    for event in (first, second, last):
        assert event["response"]["created_at"] == 1735722153.5
        assert event["response"]["x_vendor"] == {"a": 1}
    assert last["response"]["x_late"] is None


def test_unknown_events_name_only_what_the_client_knows() -> None:
    about = ZEBRA | {"item_id": "m1", "output_index": 4}
    played = play([created(), about, added(message(), 4), about, done(message(), 4), completed()])
    early, within = played.of("zebra.delta")
    assert "item_id" not in early
    assert "output_index" not in early
    assert (within["item_id"], within["output_index"]) == (played.output[0]["id"], 0)


NOISE: list[Event] = [
    {"type": "keepalive", "sequence_number": 3},
    {"type": "ping"},
    {"type": "response.keep_alive"},
    {"type": "codex.rate_limits"},
    {},
    {"type": None},
    {"type": 5},
    {"object": "chat.completion.chunk", "choices": []},
]


@pytest.mark.parametrize("noise", NOISE)
def test_noise_is_dropped(noise: Event) -> None:
    assert play([noise]).events == []
    quiet = play([created(), delta("a"), delta("b"), completed()])
    assert play([created(), delta("a"), noise, delta("b"), completed()]).events == quiet.events


def test_the_event_line_helps_out() -> None:
    played = feed([("response.completed", b'{"response":{}}'), ("response.failed", b"{}")])
    assert played.terminal["status"] == "completed"
    assert feed([("ping", b"{}"), (None, b'{"type":"response.completed"}')]).types()[-1] == (
        "completed"
    )


@pytest.mark.parametrize("number", [None, 0, 1, -5, "x"])
def test_the_numbers_are_ours(number: Any) -> None:
    events = [created(), delta("a"), delta("b"), done(message("ab")), completed()]
    for event in events:
        event["sequence_number"] = number
        event["stream_id"] = "theirs"
        event["event_id"] = "e"
    played = play(events)
    assert played.terminal["status"] == "completed"
    assert [event["sequence_number"] for event in played.events] == list(range(10))
    assert not any({"stream_id", "event_id"} & event.keys() for event in played.events)


@pytest.mark.parametrize(
    ("numbers", "warned"),
    [([0, 1, 2, 3], 0), ([1, 2, 2, 9], 0), ([5, 4, 3, 2], 1), ([3, 0, 9, 1], 1), ([None, "x"], 0)],
)
def test_numbers_that_go_back_are_worth_one_warning(
    numbers: list[Any], warned: int, caplog: pytest.LogCaptureFixture
) -> None:
    events = [created(), added(message()), delta("a"), done(message("a")), completed()]
    plain = play(events).events
    numbered = [event | {"sequence_number": n} for event, n in zip(events, numbers, strict=False)]
    assert play([*numbered, *events[len(numbered) :]]).events == plain
    assert sum("go back" in record.getMessage() for record in caplog.records) == warned


def test_a_lane_is_on_every_event() -> None:
    run, sent = start(lane="a.b-c_1")
    for data in (b'{"type":"response.created"}', b'{"type":"response.zebra"}'):
        run.receive(None, data)
    run.end()
    judge(sent)
    assert {event["stream_id"] for event in sent} == {"a.b-c_1"}


PRIVATE: dict[str, Any] = {
    "timings": {},
    "kv_transfer_params": {},
    "cost": 1,
    "__verbose": {},
}


def test_what_only_a_backend_needs_is_taken_out() -> None:
    events = [created(**PRIVATE) | PRIVATE, added(message(phase=None, **PRIVATE)) | PRIVATE]
    events += [delta("a", **PRIVATE), ZEBRA | PRIVATE, done(message("a", **PRIVATE)) | PRIVATE]
    played = play([*events, completed(**PRIVATE) | PRIVATE])
    assert played.terminal["status"] == "completed"
    for name in PRIVATE:
        assert f'"{name}"' not in str(played.events).replace("'", '"')
    assert "phase" not in played.output[0]


def test_padding_that_nobody_asked_for_is_taken_out() -> None:
    padding = {"obfuscation": "xx"}
    texts = [delta("a", **padding), delta("b", **padding), delta("c", x_field=1, **padding)]
    played = play([created(), *texts, ZEBRA | padding, completed()])
    assert not any("obfuscation" in event for event in played.events)
    assert {**ZEBRA, "sequence_number": 7} in played.events


def test_no_id_of_the_backend_gets_out() -> None:
    played = play([created(), delta("a"), done(message("a")), completed([message("a")])])
    text = str(played.events)
    assert "'m1'" not in text
    assert "'r1'" not in text


FOREIGN = {"response_id": "r1", "response": {"id": "r1", "k": {"id": "kept"}}}


def test_no_id_of_the_backend_gets_out_of_unknown_events() -> None:
    ids = FOREIGN | {"item": {"type": "message", "id": "m1", "k": 1}}
    opening, ending = {**created(), "response_id": "r1"}, {**completed(), "response_id": "r1"}
    text = delta("a", response_id="r1", x_field=1)
    events = [opening, ZEBRA | ids, added(message()), text, ZEBRA | ids, done(message("a"))]
    played = play([*events, ZEBRA | ids, ZEBRA | {"item": {"id": 5}}, ending])
    early, within, late, odd = played.of("zebra.delta")
    ours = {"response_id": played.run.id, "response": {"id": played.run.id, "k": {"id": "kept"}}}
    assert [event["response_id"] for event in played.events if "response_id" in event] == (
        [played.run.id] * 7
    )
    assert ours.items() <= early.items()
    assert early["item"] == {"type": "message", "k": 1}
    item_id = played.output[0]["id"]
    assert within["item"] == late["item"] == {"type": "message", "id": item_id, "k": 1}
    assert odd["item"] == {}
    values: list[Any] = [None, 5, "r1", [], {}, {"k": 1}]
    for odd_value in values:
        (event,) = play([ZEBRA | {"response": odd_value, "item": odd_value}]).of("zebra.delta")
        assert (event["response"], event["item"]) == (odd_value, odd_value)


def test_an_unknown_event_may_name_its_item_twice() -> None:
    about = ZEBRA | {"item_id": "n1", "output_index": 0, "item": {"id": "n1"}}
    played = play([created(), added(message(), 0), about, completed()])
    (event,) = played.of("zebra.delta")
    assert event["item_id"] == event["item"]["id"] == played.output[0]["id"]


def test_queued_is_a_beginning_and_a_beginning_counts_once() -> None:
    queued = {"type": "response.queued", "response": {"id": "r1", "status": "queued"}}
    played = play([queued, created(), {"type": "response.in_progress"}, created(), completed()])
    assert played.types() == ["created", "in_progress", "completed"]
    assert played.terminal["status"] == "completed"


@pytest.mark.parametrize("kind", ["queued", "created", "in_progress"])
def test_what_is_queued_changes_nothing_that_was_sent(kind: str) -> None:
    other = {"id": "r2", "created_at": 9, "model": "n", "temperature": 0.5, "top_p": 0.5}
    again = {"type": f"response.{kind}", "response": other | {"status": "queued"}}
    first = created(created_at=5, model="b", temperature=0.25)
    events = [first, delta("a"), delta("b"), delta("c"), done(message("abc")), completed()]
    quiet = play(events, {})
    for at in range(1, len(events)):
        played = play([*events[:at], again, *events[at:]], {})
        assert played.events[:-1] == quiet.events[:-1]
        assert played.terminal == {**quiet.terminal, "top_p": 0.5}


def test_text_of_every_script_and_half_characters() -> None:
    body = [
        b'{"type":"response.output_text.delta","delta":"\xe6\xb8\x90\xf0\x9f\x99\x82\xc3\xa9"}',
        b'{"type":"response.output_text.delta","delta":"\\ud83d"}',
        b'{"type":"response.output_text.delta","delta":"\\ud83d\\ude42\\u0000"}',
        b'{"type":"response.completed"}',
    ]
    played = feed((None, data) for data in body)
    assert played.output[0]["content"][0]["text"] == "渐🙂é\ufffd🙂\x00"


def test_numbers_that_json_does_not_have() -> None:
    token = b'{"token":"a","logprob":-Infinity,"top_logprobs":[{"token":"b","bytes":[]'
    token += b',"logprob":NaN}],"big":9223372036854775808,"tenth":0.1,"far":1e999}'
    body = [
        b'{"type":"response.output_text.delta","delta":"a","logprobs":[%b]}' % token,
        b'{"type":"response.completed","response":{"usage":null}}',
    ]
    played = feed((None, data) for data in body)
    (seen,) = played.of("output_text.delta")
    (logprob,) = seen["logprobs"]
    assert logprob["logprob"] < -1e300
    assert logprob["top_logprobs"] == [{"token": "b", "bytes": [], "logprob": -9999.0}]
    assert (logprob["big"], logprob["tenth"]) == (2**63, 0.1)
    assert logprob["far"] > 1e300
    assert played.run.state == "completed"


def test_two_runs_share_nothing() -> None:
    """Two streams at once, with the same ids and places."""
    one, sent_one = start(REQUEST, lane="a")
    two, sent_two = start(REQUEST, lane="b")
    for text in (b"x", b"y"):
        for run in (one, two):
            run.receive(None, b'{"type":"response.output_text.delta","delta":"%b"}' % text)
    one.end()
    two.receive(None, b'{"type":"response.completed"}')
    (first,), (second,) = judge(sent_one).values(), judge(sent_two).values()
    assert (first["status"], second["status"]) == ("failed", "completed")
    assert first["output"][0]["content"][0]["text"] == "xy"
