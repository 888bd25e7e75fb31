"""What a backend of Chat Completions gave beside text goes back to it, value for value (D40)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.dialects.chat import DIALECT
from gateway.upstream.chat.request import shape
from gateway.upstream.chat.return_form import ReasoningReturn, ReturnForm
from gateway.upstream.chat.vendor_keys import merged
from gateway.upstream.dialect import dialect_names, find
from gateway.upstream.large_request import large_request
from lanes.codec import encode
from lanes.history.makers import Maker
from tests.dialects.chatting import Chunk, body, call, chunk, counted, hear, text
from tests.dialects.strict import JUDGES
from tests.dialects.strict import refuses as refuses_responses
from tests.support.dialect_reading import check, chunks

if TYPE_CHECKING:
    from tests.machines.drive import Played

Item = dict[str, Any]
Message = dict[str, Any]

USER = {"role": "user", "content": "hi"}
DETAILS: list[Item] = [
    {"type": "reasoning.text", "text": "hm", "signature": "c2ln", "index": 0},
    {"type": "reasoning.encrypted", "data": "gAAA", "id": "rs_1", "index": 1},
]
BLOCKS: list[Item] = [
    {"type": "thinking", "thinking": "hm", "signature": "c2ln"},
    {"type": "redacted_thinking", "data": "gAAA"},
]
GOOGLE = {"google": {"thought_signature": "c2lnbmF0dXJl"}}


def maker() -> Maker:
    return Maker("default", "chat")


def answered(*sent: Chunk, finish: str = "stop", by: Maker | None = None) -> Played:
    heard = hear([body([*sent, chunk(finish), counted()])], maker=by or maker())
    check(heard)
    return heard


def outputs(items: list[Item]) -> list[Item]:
    return [
        {"type": "function_call_output", "call_id": item["call_id"], "output": "ok"}
        for item in items
        if item["type"] == "function_call"
    ]


def goes_back(
    heard: Played, *after: Item, by: Maker | None = None, stateless: bool = False
) -> list[Message]:
    """The assistant's messages that the backend gets in the next turn."""
    mine = heard.output if stateless else [json.loads(e.data) for e in heard.run.entries()]
    given_items = [USER, *mine, *outputs(mine), *after]
    made = DIALECT.request({"model": "m"}, [encode(one) for one in given_items], by or maker())
    return [one for one in json.loads(made)["messages"] if one["role"] == "assistant"]


#: The deltas before the text, and what the message has in the next turn beside its text.
REASONING: list[tuple[list[Item], Message]] = [
    ([{"reasoning_content": "h"}, {"reasoning_content": "m"}], {"reasoning_content": "hm"}),
    ([{"reasoning": "h"}, {"reasoning": "m"}], {"reasoning": "hm"}),
    ([{"thinking": "hm"}], {"thinking": "hm"}),
    (
        [{"reasoning_text": "hm"}, {"reasoning_opaque": "gAAA"}],
        {"reasoning_text": "hm", "reasoning_opaque": "gAAA"},
    ),
    ([{"reasoning_details": DETAILS}], {"reasoning_details": DETAILS}),
    (
        [{"reasoning": "hm", "reasoning_details": DETAILS}],
        {"reasoning": "hm", "reasoning_details": DETAILS},
    ),
    (
        [
            {"reasoning_details": [{"type": "reasoning.text", "text": "h", "index": 0}]},
            {"reasoning_details": [{"type": "reasoning.text", "text": "m", "index": 0}]},
            {"reasoning_details": [{"type": "reasoning.text", "signature": "c2ln", "index": 0}]},
            {"reasoning_details": DETAILS[1:]},
        ],
        {"reasoning_details": DETAILS},
    ),
    ([{"reasoning_details": DETAILS[1:]}], {"reasoning_details": DETAILS[1:]}),
    (
        [
            {"reasoning_content": "h", "thinking_blocks": [{"type": "thinking", "thinking": "h"}]},
            {"reasoning_content": "m", "thinking_blocks": [{"type": "thinking", "thinking": "m"}]},
            {
                "thinking_blocks": [
                    {"type": "thinking", "thinking": "", "signature": "c2ln"},
                    BLOCKS[1],
                ]
            },
        ],
        {"reasoning_content": "hm", "thinking_blocks": BLOCKS},
    ),
    (
        [
            {"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "h"}]}]},
            {"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "m"}]}]},
        ],
        {
            "content": [
                {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]},
                {"type": "text", "text": "ab"},
            ]
        },
    ),
    ([{"extra_content": GOOGLE}], {"extra_content": GOOGLE}),
]
IDS = [", ".join(dict.fromkeys(key for delta in row[0] for key in delta)) for row in REASONING]


@pytest.mark.parametrize("stateless", [False, True], ids=["chain", "stateless"])
@pytest.mark.parametrize(("deltas", "message"), REASONING, ids=IDS)
def test_reasoning_goes_back_under_the_key_it_came_under(
    deltas: list[Item], message: Message, stateless: bool
) -> None:
    heard = answered(*(chunk(**delta) for delta in deltas), *text("a", "b"))
    (made,) = goes_back(heard, USER, stateless=stateless)
    assert made == {"role": "assistant", "content": "ab", **message}


@pytest.mark.parametrize(("deltas", "message"), REASONING, ids=IDS)
def test_reasoning_goes_back_with_calls(deltas: list[Item], message: Message) -> None:
    heard = answered(*(chunk(**delta) for delta in deltas), call(0, "f", "{}", "c1"))
    (made,) = goes_back(heard)
    calls = [{"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}]
    content = message.get("content", "")
    if content:
        content = content[:1]
    assert made == {"role": "assistant", "content": "", "tool_calls": calls, **message} | {
        "content": content
    }


@pytest.mark.parametrize(("deltas", "message"), REASONING, ids=IDS)
def test_reasoning_goes_back_after_a_cut(deltas: list[Item], message: Message) -> None:
    sent = [body([*(chunk(**delta) for delta in deltas), *text(*"abcdef"), chunk("stop")])]
    whole = len(hear(sent, maker=maker()).events)
    cut = hear(sent, steer_after=whole - 6, maker=maker())
    assert cut.events[-1]["response"]["incomplete_details"] == {"reason": "steered"}
    (made,) = goes_back(cut, USER)
    said = "".join(e["delta"] for e in cut.events if e["type"] == "response.output_text.delta")
    message = dict(message)
    if isinstance(message.get("content"), list):
        message["content"] = [message["content"][0], {"type": "text", "text": said}]
    assert made == {"role": "assistant", "content": said, **message}


@pytest.mark.parametrize(("deltas", "message"), REASONING, ids=IDS)
@pytest.mark.parametrize("size", [1, 7])
def test_chunking_changes_nothing(deltas: list[Item], message: Message, size: int) -> None:
    whole = body([*(chunk(**delta) for delta in deltas), *text("a", "b"), chunk("stop")])
    heard = hear(chunks(whole, size), maker=maker())
    (made,) = goes_back(heard, USER)
    assert made == {"role": "assistant", "content": "ab", **message}


@pytest.mark.parametrize("stateless", [False, True], ids=["chain", "stateless"])
@pytest.mark.parametrize(
    "other", [Maker("other", "chat"), Maker("default", "deepseek"), Maker("", "")]
)
def test_what_is_sealed_goes_to_its_maker_alone(other: Maker, stateless: bool) -> None:
    sent = [chunk(reasoning="hm", reasoning_details=DETAILS), call(0, "f", "{}", "c1")]
    sent.append(chunk(tool_calls=[{"index": 0, "extra_content": GOOGLE}]))
    (made,) = goes_back(answered(*sent), by=other, stateless=stateless)
    assert made.keys() == {"role", "content", "tool_calls"}
    assert made["tool_calls"][0].keys() == {"id", "type", "function"}


def test_reasoning_without_a_mark_goes_back_under_the_key_that_the_backend_last_used() -> None:
    known = maker()
    content = [{"type": "reasoning_text", "text": "mine"}]
    typed = {"type": "reasoning", "summary": [], "content": content}
    said = {"role": "assistant", "content": "a"}
    request = [encode(one) for one in (USER, typed, said, USER)]

    def second() -> Message:
        made: list[Message] = json.loads(DIALECT.request({"model": "m"}, request, known))[
            "messages"
        ]
        return made[1]

    assert second() == {"role": "assistant", "content": "a"}
    answered(chunk(reasoning="x"), *text("a"), by=known)
    assert second() == {"role": "assistant", "content": "a", "reasoning": "mine"}


@pytest.mark.parametrize(("deltas", "message"), REASONING, ids=IDS)
def test_a_client_that_keeps_encrypted_reasoning_alone_brings_all_of_it_back(
    deltas: list[Item], message: Message
) -> None:
    asked = {"model": "m", "store": False, "include": ["reasoning.encrypted_content"]}
    sent = body([*(chunk(**delta) for delta in deltas), *text("a", "b"), chunk("stop")])
    heard = hear([sent], asked, maker=maker())
    check(heard)
    kept = {"type", "role", "content"}
    mine = [
        {key: item[key] for key in item if key in kept and item["type"] == "message"}
        or {"type": "reasoning", "summary": [], "encrypted_content": item["encrypted_content"]}
        for item in heard.output
    ]
    history = [encode(one) for one in (USER, *mine, USER)]
    request = DIALECT.request({"model": "m"}, history, maker())
    made = json.loads(request)["messages"][1]
    assert made == {"role": "assistant", "content": "ab", **message}
    assert large_request(DIALECT, {"model": "m"}, history, maker()) == request
    for name in ("openai", "vllm", "chat"):
        request = find(name).request({"model": "m"}, history, Maker("other", name))
        for word in (b"multilane.1.", b"gAAA", b"c2ln"):
            assert word not in request


@pytest.mark.parametrize(
    "packed",
    [
        "",
        "!",
        "e30",
        "bnVsbA==",
        "eyJtYWRlX2J5Ijo1fQ==",
        "eyJtYWRlX2J5Ijp7ImtleXMiOls1XX19",
        "AAAA",
    ],
)
def test_what_only_looks_packed_is_left_out(packed: str) -> None:
    thought = {"type": "reasoning", "summary": [], "encrypted_content": f"multilane.1.{packed}"}
    history = [encode(one) for one in (USER, thought, {"role": "assistant", "content": "a"}, USER)]
    for name in dialect_names():
        assert b"multilane.1." not in find(name).request({"model": "m"}, history, maker())


#: Entries of one call, and what of it comes back.
CALLS: list[tuple[list[Item], Item]] = [
    ([{"extra_content": GOOGLE}], {"extra_content": GOOGLE}),
    ([{}, {"extra_content": GOOGLE}], {"extra_content": GOOGLE}),
    ([{"extra_content": GOOGLE}, {"extra_content": GOOGLE}], {"extra_content": GOOGLE}),
    (
        [
            {"extra_content": {"google": {"thought_signature": "c2ln"}}},
            {"extra_content": {"google": {"thought_signature": "bmF0dXJl"}}},
        ],
        {"extra_content": GOOGLE},
    ),
    (
        [{"provider_specific_fields": {"thought_signature": "x"}}],
        {"provider_specific_fields": {"thought_signature": "x"}},
    ),
    (
        [{"function": {"thought_signature": "x", "parameters": None}}],
        {"function": {"thought_signature": "x"}},
    ),
    ([{"zebra": [1, 2.5, {"a": None}, True, "é"]}], {"zebra": [1, 2.5, {"a": None}, True, "é"]}),
    ([{"zebra": {"a": 1}}, {"zebra": {"b": [2]}}], {"zebra": {"a": 1, "b": [2]}}),
    (
        [
            {
                "status": "x",
                "call_id": 7,
                "backend_status": "y",
                "caller": "z",
                "made_by": [],
                "role": 1,
            }
        ],
        {
            "status": "x",
            "call_id": 7,
            "backend_status": "y",
            "caller": "z",
            "made_by": [],
            "role": 1,
        },
    ),
    ([{"cost": 1, "summary": "s", "async": 0}], {"cost": 1, "summary": "s", "async": 0}),
    ([{"extra_content": None, "zebra": None}], {}),
]


@pytest.mark.parametrize("stateless", [False, True], ids=["chain", "stateless"])
@pytest.mark.parametrize(("pieces", "kept"), CALLS)
def test_keys_of_a_call_go_back_on_it(pieces: list[Item], kept: Item, stateless: bool) -> None:
    entries = [{"index": 0, "id": "c1", "function": {"name": "f", "arguments": '{"a":'}}]
    entries += [{"index": 0, **piece} for piece in pieces]
    entries.append({"index": 0, "function": {"arguments": "1}"}})
    other = call(1, "g", "{}", "c2")
    heard = answered(*(chunk(tool_calls=[one]) for one in entries), other, finish="tool_calls")
    (made,) = goes_back(heard, stateless=stateless)
    function = {"name": "f", "arguments": '{"a":1}', **kept.get("function", {})}
    bare = {key: value for key, value in kept.items() if key != "function"}
    first, second = made["tool_calls"]
    assert first == {"id": "c1", "type": "function", **bare, "function": function}
    assert second.keys() == {"id", "type", "function"}


def test_a_custom_call_has_its_keys_as_well() -> None:
    entry = {"index": 0, "id": "c1", "extra_content": GOOGLE}
    entry["function"] = {"name": "sh", "arguments": '{"input":"ls"}'}
    tools = [{"type": "custom", "name": "sh"}]
    heard = hear(
        [body([chunk(tool_calls=[entry]), chunk("tool_calls")])], {"model": "m", "tools": tools}
    )
    (item,) = heard.output
    assert (item["type"], item["extra_content"]) == ("custom_tool_call", GOOGLE)
    answer = {"type": "custom_tool_call_output", "call_id": "c1", "output": "ok"}
    made = json.loads(DIALECT.request({"model": "m"}, [encode(USER), encode(item), encode(answer)]))
    assert made["messages"][1]["tool_calls"][0]["extra_content"] == GOOGLE


_json = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=8,
)
_names = st.text(min_size=1, max_size=12) | st.sampled_from(
    (
        *("status", "name", "arguments", "namespace", "type", "output", "input", "content"),
        *("backend_", "backend_status", "backend_backend_status", "made_by", "key", "upstream"),
    )
)


@settings(deadline=None, max_examples=200)
@given(st.dictionaries(_names, _json, max_size=4), st.dictionaries(_names, _json, max_size=3))
def test_any_keys_come_back_value_for_value(outer: Item, inner: Item) -> None:
    outer = {k: v for k, v in outer.items() if k not in ("id", "index", "type", "function")}
    inner = {k: v for k, v in inner.items() if k not in ("name", "arguments")}
    entry = {"index": 0, "id": "c1", **outer}
    entry["function"] = {**inner, "name": "f", "arguments": "{}"}
    heard = answered(chunk(tool_calls=[entry]), finish="tool_calls")
    kept = {key: value for key, value in outer.items() if value is not None}
    function = {key: value for key, value in inner.items() if value is not None}
    for stateless in (False, True):
        (made,) = goes_back(heard, stateless=stateless)
        (back,) = made["tool_calls"]
        assert back == {
            "id": "c1",
            "type": "function",
            **kept,
            "function": {**function, "name": "f", "arguments": "{}"},
        }


FORMS = [
    (ReturnForm(), ["reasoning"] * 4),
    (ReturnForm(ReasoningReturn.NEVER), []),
    (ReturnForm(ReasoningReturn.CALLS), ["reasoning", "reasoning", "reasoning"]),
    (ReturnForm(ReasoningReturn.TOOL_LOOP), ["reasoning"]),
]


@pytest.mark.parametrize(("form", "keys"), FORMS)
def test_it_says_which_messages_have_their_reasoning(form: ReturnForm, keys: list[str]) -> None:
    thought = answered(chunk(reasoning="hm"), *text("a"))
    called = answered(chunk(reasoning="hm"), call(0, "f", "{}", "c1"))
    calls = list(called.output)
    called_for = [USER, *calls, *outputs(calls)]
    items = [USER, *thought.output, *called_for, *thought.output, *called_for]
    made = shape({"model": "m", "input": items}, returned=form)["messages"]
    assert [key for one in made for key in one if key == "reasoning"] == keys


def test_a_form_may_require_the_key_with_every_call() -> None:
    form = ReturnForm(reasoning="reasoning_content", requires=True)
    calls = answered(call(0, "f", "{}", "c1")).output
    plain = [{"type": "reasoning", "summary": [{"type": "summary_text", "text": "why"}]}]
    items = [USER, *calls, *outputs(calls), *plain, *calls, *outputs(calls)]
    made = shape({"model": "m", "input": items}, returned=form)["messages"]
    assert [one["reasoning_content"] for one in made if "tool_calls" in one] == ["", "why"]


@pytest.mark.parametrize("dialect", sorted(JUDGES))
def test_other_dialects_take_a_history_of_chat(dialect: str) -> None:
    sent = [chunk(reasoning="hm", reasoning_details=DETAILS), *text("a")]
    sent.append(
        chunk(
            tool_calls=[
                {
                    "index": 0,
                    "id": "c1",
                    "extra_content": GOOGLE,
                    "function": {"name": "f", "arguments": "{}", "sig": "x"},
                }
            ]
        )
    )
    for items in (sent_items(answered(*sent)), answered(*sent).output):
        history = [USER | {"type": "message"}, *items, *outputs(items)]
        made = find(dialect).request(
            {"model": "m"}, [encode(one) for one in history], Maker("o", dialect)
        )
        assert refuses_responses(dialect, json.loads(made)) is None
        for word in (b"made_by", b"extra_content", b"c2ln", b"gAAA", b'"sig"'):
            assert word not in made


def sent_items(heard: Played) -> list[Item]:
    return [json.loads(entry.data) for entry in heard.run.entries()]


def test_dialects_of_chat_are_all_tried() -> None:
    assert {name for name in dialect_names() if find(name).path == "/responses"} >= set(JUDGES)


@pytest.mark.parametrize(
    ("pieces", "whole"),
    [
        (["a", "a"], "a"),
        (["a", "b"], "ab"),
        ([{"text": "a"}, {"text": "a"}], {"text": "aa"}),
        ([[1], [2]], [1, 2]),
        ([[1], [1]], [1]),
        ([1, 2], 2),
        ([{"a": None}, {"a": 1}], {"a": 1}),
        ([[{"index": 0, "text": "a"}, {"index": 1, "text": "b"}], [{"index": 0, "text": "c"}]],
         [{"index": 0, "text": "ac"}, {"index": 1, "text": "b"}]),
        ([["x"], {"a": 1}], {"a": 1}),
    ],
)  # fmt: skip
def test_pieces_become_one_value(pieces: list[Any], whole: Any) -> None:
    assert merged(pieces) == whole
