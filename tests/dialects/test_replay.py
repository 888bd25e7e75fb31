"""What a backend gets back on the next turn: its own items, and no halves of any."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from gateway.dialects import llamacpp, openai
from lanes.codec import encode
from tests import tapes
from tests.dialects.test_tapes import ENDS, reads
from tests.machines.backend import (
    Item,
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
from tests.machines.drive import Event, play
from tests.support.dialect_reading import read
from tests.support.tape_mutations import MUTATIONS

if TYPE_CHECKING:
    from gateway.upstream.dialect import Dialect

OPENAI, LLAMA = openai.DIALECT, llamacpp.DIALECT
USER = {"type": "message", "role": "user", "content": "go on"}


def next_turn(events: list[Event], dialect: Dialect = OPENAI) -> list[Item]:
    """The input that the next request carries, but for the client's own items."""
    run = play(events, profile=dialect.profile).run
    items = [*(entry.data for entry in run.entries()), encode(USER)]
    *made, last = json.loads(dialect.request({"model": "m"}, items))["input"]
    assert last == USER
    output: list[Item] = made
    return output


SECRET = {"id": "rs1", "type": "reasoning", "summary": [], "encrypted_content": "gAAA=="}
SECRETS: list[Item] = [
    SECRET | {"content": None, "x": 0},
    SECRET | {"summary": [{"type": "summary_text", "text": "s"}]},
]
VALUES: list[Item] = [
    message("a", phase=None, status="completed", logprobs=[], x={"y": [None, ""]}),
    message(None, content=[{"type": "refusal", "refusal": "no"}]),
    message(None, content=[{"type": "output_text", "text": "a", "annotations": [], "x": None}]),
    call('{"a": 1}', x=None, status="completed"),
    {"type": "custom_tool_call", "id": "x1", "call_id": "c1", "name": "sh", "input": "ls"},
    {"type": "shell_call", "id": "s1", "call_id": "c1", "action": {"commands": []}, "x": None},
    {"type": "zebra", "id": "z1", "stripes": []},
]


@pytest.mark.parametrize("item", VALUES, ids=lambda item: item["type"])
def test_items_go_back_value_for_value(item: Item) -> None:
    renamed = item | {"id": "other"}
    assert next_turn([created(), done(item), completed([renamed])]) == [item]
    assert next_turn([created(), added(item), done(item), completed([])]) == [item]
    assert next_turn([created(), completed([item])]) == [item]


@pytest.mark.parametrize("item", SECRETS)
def test_reasoning_goes_back_value_for_value_with_what_came_of_it(item: Item) -> None:
    whole = message("a")
    assert next_turn([created(), done(item), done(whole), completed([])]) == [item, whole]
    assert next_turn([created(), done(item), completed([])]) == []


def test_a_final_that_comes_late_goes_back() -> None:
    whole = message("a", x=0)
    assert next_turn([created(), delta("a"), added(call()), done(call()), completed([whole])]) == [
        whole,
        call(),
    ]


def test_encrypted_reasoning_goes_back_though_nobody_asked_to_see_it() -> None:
    run = play([created(), done(SECRET), completed()], {"model": "m"}, OPENAI.profile).run
    (entry,) = run.entries()
    assert json.loads(entry.data) == SECRET
    assert entry.id is not None
    assert entry.id.startswith("rs_")


@pytest.mark.parametrize("encrypted", [None, "", "absent"])
def test_reasoning_in_the_clear_goes_back_only_where_it_is_taken(encrypted: Any) -> None:
    item = reasoning("x", encrypted_content=encrypted)
    if encrypted == "absent":
        del item["encrypted_content"]
    events = [created(), done(item), done(message("a")), completed()]
    assert next_turn(events) == [message("a")]
    assert next_turn(events, LLAMA)[0] == {
        "type": "reasoning",
        "summary": [],
        "content": [{"type": "reasoning_text", "text": "x"}],
    }


def test_what_was_sent_counts_where_the_final_contradicts_it() -> None:
    played = play([created(), delta("ab"), done(message("xy")), completed()])
    (entry,) = played.run.entries()
    assert json.loads(entry.data) == played.output[0]
    changed = call(call_id="other", id="g")
    played = play([created(), added(call(), 0), args("{}"), done(changed, 0), completed()])
    (entry,) = played.run.entries()
    assert json.loads(entry.data)["call_id"] == "c1"
    assert entry.calls == (("call_id", "c1"),)


CUT_CALL = [added(call()), args('{"a')]
CUTS: dict[str, tuple[list[Event], list[str]]] = {
    "reasoning": ([delta("x", "rs1", "reasoning_text")], []),
    "secret": ([added(SECRET), delta("x", "rs1", "reasoning_summary_text")], []),
    "reasoning that was finished": ([done(SECRET)], []),
    "call": ([done(message("a")), *CUT_CALL], ["message"]),
    "call after reasoning": ([done(SECRET), *CUT_CALL], []),
    "message": ([done(SECRET), delta("par")], ["reasoning", "message"]),
    "message before its text": ([done(SECRET), added(message())], []),
    "call that was finished": ([done(SECRET), done(call())], ["reasoning", "function_call"]),
    "second call": (
        [done(call()), *CUT_CALL[1:], added(call(id="g", call_id="c2"))],
        ["function_call"],
    ),
    "tool": ([added({"type": "web_search_call", "id": "w", "action": {}})], []),
}


@pytest.mark.parametrize(("events", "left"), CUTS.values(), ids=list(CUTS))
def test_what_is_left_of_a_cut_turn(events: list[Event], left: list[str]) -> None:
    stop = ended("incomplete", incomplete_details={"reason": "max_output_tokens"})
    assert [item["type"] for item in next_turn([created(), *events, stop])] == left
    if "message" in left[-1:]:
        content = next_turn([created(), *events, stop])[-1]["content"]
        assert content[0]["text"] in ("a", "par")


LLAMA_FORMS: list[tuple[Item, Item | None]] = [
    (
        message("a", x=1),
        {
            "type": "message",
            "role": "assistant",
            "content": [{"type": "output_text", "text": "a"}],
        },
    ),
    (
        message(None, content=[{"type": "refusal", "refusal": "no"}]),
        {
            "type": "message",
            "role": "assistant",
            "content": [{"type": "output_text", "text": "no"}],
        },
    ),
    (reasoning("", encrypted_content=""), None),
    (call("{", id="f9"), call("{}") | {"id": None, "status": None}),
    (call('{"a":1}'), call('{"a":1}') | {"id": None, "status": None}),
    ({"type": "custom_tool_call", "id": "x1", "call_id": "c1", "name": "s", "input": ""}, None),
]


@pytest.mark.parametrize(("item", "form"), LLAMA_FORMS)
def test_llamacpp_gets_the_keys_it_reads(item: Item, form: Item | None) -> None:
    wanted = [{key: value for key, value in (form or {}).items() if value is not None}]
    assert next_turn([created(), done(item), completed()], LLAMA) == (wanted if form else [])


def test_the_request_is_the_clients_but_for_the_state() -> None:
    body = {"model": "m", "input": [], "temperature": 0, "tools": [], "user": None, "x": False}
    body |= {"previous_response_id": "resp_1", "store": True, "stream": False}
    kept = {"model": "m", "temperature": 0, "tools": [], "x": False, "stream": True, "store": False}
    item = encode({"role": "user", "content": "hi"})
    whole = json.loads(OPENAI.request(body, [item]))
    assert whole == kept | {"user": None, "input": [{"role": "user", "content": "hi"}]}
    whole = json.loads(LLAMA.request(body, [item]))
    typed = {"type": "message", "role": "user", "content": "hi"}
    assert whole == kept | {"input": [typed]}


def test_a_conversation_keeps_its_state() -> None:
    body = {"model": "m", "conversation": "conv_1", "store": True}
    assert json.loads(OPENAI.request(body, []))["store"] is True


@pytest.mark.parametrize("name", [name for name in ENDS if name not in MUTATIONS])
@pytest.mark.parametrize("dialect", [OPENAI, LLAMA], ids=["openai", "llamacpp"])
def test_every_tape_can_be_continued(name: str, dialect: Dialect) -> None:
    """Its own items as its terminal has them, in the order in which they were streamed."""
    run = read(reads(name), dialect.profile).run
    replayed = [json.loads(entry.data) for entry in run.entries()]
    output = tapes.events(name)[-1]["response"].get("output", [])
    if run.state != "failed":
        plain = dialect.profile.replays_reasoning
        wanted = [
            i for i in output if plain or i["type"] != "reasoning" or i.get("encrypted_content")
        ]
        assert sorted(map(str, replayed)) == sorted(map(str, wanted))
    assert dialect.request({"model": "m"}, [entry.data for entry in run.entries()])
