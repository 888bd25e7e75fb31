"""The profiles of hosted services of Chat Completions, against strict fakes of them."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.upstream.chat.keys import KNOWN
from gateway.upstream.dialect import dialect_names, find
from lanes.codec import encode
from lanes.history.makers import Maker
from tests.dialects.chatting import DONE, call, chunk, counted, hear, text
from tests.dialects.histories import histories
from tests.dialects.strict.services import SERVICES, refuses

if TYPE_CHECKING:
    from tests.machines.drive import Played

Item = dict[str, Any]
Body = dict[str, Any]

#: Bounded by the number of histories; how long they take is the machine's affair.
pytestmark = pytest.mark.timeout(300)

PIECE = re.compile(r"<(\d+)>")
USER: Item = {"type": "message", "role": "user", "content": "hi"}
STEER: Item = {"type": "message", "role": "user", "content": "shorter"}
CUT: Item = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "status": "incomplete",
    "content": [{"type": "output_text", "text": "Once", "annotations": []}],
}
#: Every setting of the official client that a client may send, and some of nobody's.
SETTINGS: Body = {
    "temperature": 0.5,
    "top_p": 0.9,
    "max_output_tokens": 100,
    "parallel_tool_calls": True,
    "tool_choice": "auto",
    "tools": [{"type": "function", "name": "f", "parameters": {"type": "object"}}],
    "reasoning": {"effort": "low", "summary": "auto"},
    "text": {"format": {"type": "text"}, "verbosity": "low"},
    "top_logprobs": 2,
    "metadata": {"a": "b"},
    "store": True,
    "user": "u",
    "service_tier": "auto",
    "safety_identifier": "s",
    "prompt_cache_key": "k",
    "truncation": "auto",
    "include": ["reasoning.encrypted_content"],
    "client_metadata": {"x": "y"},
    "frequency_penalty": 0.1,
    "presence_penalty": 0.1,
    "logit_bias": {"5": 1},
    "seed": 7,
    "zebra": 1,
}


def asked(name: str, items: list[Item], maker: Maker | None = None, **body: Any) -> Body:
    data = [encode(item) for item in items]
    made: Body = json.loads(find(name).request({"model": "m", **body}, data, maker))
    return made


def test_each_chat_dialect_has_a_fake() -> None:
    named = {name for name in dialect_names() if find(name).path == "/chat/completions"}
    assert named - {"chat"} == set(SERVICES)


@pytest.mark.parametrize("name", SERVICES)
@settings(deadline=None)
@given(histories(), st.sampled_from([[], [STEER], [CUT, STEER], [STEER, STEER]]))
def test_any_history_and_any_steer_is_taken(
    name: str, history: list[Item], steered: list[Item]
) -> None:
    made = asked(name, [*history, *steered])
    if not made["messages"]:
        return  # nothing in it has a form in Chat
    assert refuses(name, made, KNOWN) is None, (refuses(name, made, KNOWN), made)
    plain = asked("chat", [*history, *steered])
    assert set(PIECE.findall(json.dumps(made["messages"]))) >= {
        piece
        for message in plain["messages"]
        for piece in PIECE.findall(json.dumps([message["content"], message.get("tool_calls")]))
    }


@pytest.mark.parametrize("name", SERVICES)
def test_any_setting_is_taken(name: str) -> None:
    made = asked(name, [USER], **SETTINGS)
    assert refuses(name, made, KNOWN) is None, refuses(name, made, KNOWN)
    limits = {key: made[key] for key in ("max_tokens", "max_completion_tokens") if key in made}
    assert list(limits.values()) == [100]
    assert made["tools"]
    assert "zebra" not in made


REASONING = [name for name, service in SERVICES.items() if service.own or name == "mistral"]


def _thought(name: str) -> list[Item]:
    """The chunks of an answer that thinks and calls, as the service writes it."""
    service = SERVICES[name]
    entry = call(0, "f", "{}", "c1")
    if name == "gemini":
        signed = {"google": {"thought_signature": "c2ln"}}
        entry["choices"][0]["delta"]["tool_calls"][0]["extra_content"] = signed
        return [entry]
    if name == "mistral":
        part = {"type": "thinking", "thinking": [{"type": "text", "text": "Hm"}]}
        return [chunk(content=[part]), entry]
    key = next(key for key in sorted(service.own) if key != "reasoning_details" and
               not key.endswith("opaque"))  # fmt: skip
    sealed: Item = {
        "reasoning_details": [{"type": "reasoning.encrypted", "data": "gAAA"}],
        "reasoning_opaque": "gAAA",
    }
    extra = {key: sealed[key] for key in service.own & sealed.keys()}
    return [chunk(**{key: "Hm"}, **extra), entry]


def _history(played: Played) -> list[Item]:
    mine = [json.loads(entry.data) for entry in played.run.entries()]
    answer = {"type": "function_call_output", "call_id": "c1", "output": "ok"}
    return [USER, *mine, answer]


def _answered(name: str, maker: Maker, *chunks: Item) -> Played:
    body = b"".join(
        b"data: %b\n\n" % encode(one) for one in (*chunks, chunk("tool_calls"), counted())
    )
    return hear([body + DONE], maker=maker)


@pytest.mark.parametrize("name", REASONING)
def test_what_it_thought_goes_back_in_its_form(name: str) -> None:
    maker = Maker("default", name)
    history = _history(_answered(name, maker, *_thought(name)))
    for items in (history, [*history, CUT, STEER]):
        made = asked(name, items, maker)
        assert refuses(name, made, KNOWN) is None, refuses(name, made, KNOWN)
        [said] = [one for one in made["messages"] if one.get("tool_calls")]
        if name == "gemini":  # C45
            signature = said["tool_calls"][0]["extra_content"]["google"]["thought_signature"]
            assert signature == "c2ln"
        else:
            assert "Hm" in json.dumps(said)
        if name in ("copilot", "openrouter_chat", "minimax"):  # C54
            assert "gAAA" in json.dumps(said)


@pytest.mark.parametrize("name", SERVICES)
@pytest.mark.parametrize("other", SERVICES)
def test_what_another_thought_is_taken_or_left_out(name: str, other: str) -> None:
    history = _history(_answered(other, Maker("first", other), *_thought(other))) if (
        other in REASONING
    ) else [USER]  # fmt: skip
    made = asked(name, history, Maker("second", name))
    assert refuses(name, made, KNOWN) is None, refuses(name, made, KNOWN)
    assert "c2ln" not in json.dumps(made)
    assert "gAAA" not in json.dumps(made)


@pytest.mark.parametrize("name", SERVICES)
def test_reasoning_that_a_client_sends_is_taken(name: str) -> None:
    thought = {
        "type": "reasoning",
        "id": "rs_1",
        "summary": [{"type": "summary_text", "text": "Hm"}],
    }
    said = {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"}
    answer = {"type": "function_call_output", "call_id": "c1", "output": "ok"}
    made = asked(name, [USER, thought, said, answer], Maker("default", name))
    assert refuses(name, made, KNOWN) is None, refuses(name, made, KNOWN)


def _asks(*messages: Item, **extra: Any) -> Body:
    return {"model": "m", "messages": list(messages or (ASKED,)), **extra}


def _called(call_id: str = "c1") -> list[Item]:
    function = {"name": "f", "arguments": "{}"}
    made = {"id": call_id, "type": "function", "function": function}
    said = {"role": "assistant", "content": "", "tool_calls": [made]}
    return [ASKED, said, {"role": "tool", "tool_call_id": call_id, "content": "ok"}]


ASKED: Item = {"role": "user", "content": "hi"}
SAID: Item = {"role": "assistant", "content": "a"}
#: Case -> the service, a request that it refuses, and a word of the reason.
REFUSED: list[tuple[str, str, Body, str]] = [
    ("C43", "deepseek", _asks(*_called()), "is missing"),
    ("C44", "moonshot", _asks(*_called()), "is missing"),
    ("C46", "gemini", _asks(*_called()), "cannot be empty"),
    ("C47", "gemini", _asks(metadata={}), "refused"),
    ("C47", "gemini", _asks(zebra=1), "not permitted"),
    ("C48", "mistral", _asks(*_called("abcdefghi"), ASKED), "after role 'tool'"),
    ("C48", "mistral", _asks(ASKED, SAID), "last role"),
    ("C49", "mistral", _asks(*_called()), "length 9"),
    ("C50", "mistral", _asks(max_completion_tokens=1), "refused"),
    ("C50", "mistral", _asks(ASKED, SAID | {"reasoning_content": "Hm"}, ASKED), "unsupported"),
    ("C51", "cerebras", _asks(ASKED, SAID | {"reasoning_content": "Hm"}, ASKED), "unsupported"),
    ("C51", "cerebras", _asks(enable_thinking=True), "not permitted"),
    ("C52", "groq_chat", _asks(ASKED, SAID | {"reasoning": "Hm"}, ASKED), "unsupported"),
    ("C52", "groq_chat", _asks(ASKED, SAID | {"reasoning_content": "Hm"}, ASKED), "unsupported"),
]


@pytest.mark.parametrize(("case", "name", "body", "why"), REFUSED)
def test_the_fakes_refuse_what_the_reports_say(case: str, name: str, body: Body, why: str) -> None:
    told = refuses(name, body, KNOWN)
    assert told is not None, case
    assert why in told


@pytest.mark.parametrize("name", SERVICES)
def test_the_fakes_take_a_plain_turn(name: str) -> None:
    assert refuses(name, _asks(ASKED, SAID, ASKED), KNOWN) is None


def test_c53_minimax_is_asked_to_split_its_reasoning_off() -> None:
    assert asked("minimax", [USER])["reasoning_split"] is True
    assert asked("minimax", [USER], reasoning_split=False)["reasoning_split"] is False


def test_text_alone_needs_nothing_of_all_this() -> None:
    for name in SERVICES:
        heard = hear([b"".join(b"data: %b\n\n" % encode(one) for one in text("a")) + DONE])
        made = asked(name, [USER, *(json.loads(e.data) for e in heard.run.entries()), STEER])
        assert [one["content"] for one in made["messages"]] == ["hi", "a", "shorter"]
