"""One answer of Chat Completions, cut in any way: the same items as from its whole message."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lanes.surrogates import encode_halves
from tests.dialects.chatting import DONE, HEAD, USAGE, hear
from tests.support.dialect_reading import check, chunks

pytestmark = pytest.mark.timeout(300)

_text = st.text(
    st.sampled_from(["a", " ", "\n", "é", "\U0001f600", '"', "\\", "{", "<"]), max_size=9
)
_call = st.builds(
    lambda name, value: (name, json.dumps({"a": value})), st.sampled_from(["f", "g"]), _text
)
_answers = st.fixed_dictionaries(
    {"reasoning": _text, "text": _text, "calls": st.lists(_call, max_size=3), "tags": st.booleans()}
)


def units(text: str) -> list[str]:
    """The UTF-16 units of a text, as JavaScript counts them."""
    raw = text.encode("utf-16-le", "surrogatepass")
    pairs = (raw[at : at + 2] for at in range(0, len(raw), 2))
    return [pair.decode("utf-16-le", "surrogatepass") for pair in pairs]


def cut(data: st.DataObject, text: str) -> list[str]:
    """The text in pieces that may end within a character."""
    whole = units(text)
    at = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=3)))
    edges = zip([0, *at], [*at, len(whole)], strict=True)
    return ["".join(whole[start:end]) for start, end in edges if start < end]


def event(choice: int, delta: dict[str, Any], finish: str | None = None) -> bytes:
    chunk = {**HEAD, "choices": [{"index": choice, "delta": delta, "finish_reason": finish}]}
    return b"data: %b\n\n" % encode_halves(chunk)


def streamed(data: st.DataObject, answer: dict[str, Any]) -> bytes:
    """The answer as a stream; its calls may be a choice of their own."""
    apart = data.draw(st.booleans())
    other = 1 if apart else 0
    text = answer["text"]
    events = []
    if answer["tags"]:
        text = f"<think>{answer['reasoning']}</think>{text}" if answer["reasoning"] else text
    else:
        events += [event(0, {"reasoning_content": one}) for one in cut(data, answer["reasoning"])]
    events += [event(0, {"content": one}) for one in cut(data, text)]
    events += [event(0, {}, "stop")] if apart else []
    for index, (name, arguments) in enumerate(answer["calls"]):
        head = {"index": index, "id": f"c{index}", "function": {"name": name, "arguments": ""}}
        events.append(event(other, {"tool_calls": [head]}))
        for piece in cut(data, arguments):
            entry = {"index": index, "function": {"arguments": piece}}
            events.append(event(other, {"tool_calls": [entry]}))
    events.append(event(other, {}, "stop"))
    usage = b"data: %b\n\n" % encode_halves({**HEAD, "choices": [], "usage": USAGE})
    return b"".join([*events, usage, DONE])


def whole(answer: dict[str, Any]) -> bytes:
    """The answer as one whole message."""
    calls = [
        {"id": f"c{at}", "type": "function", "function": {"name": name, "arguments": arguments}}
        for at, (name, arguments) in enumerate(answer["calls"])
    ]
    message = {"content": answer["text"], "reasoning_content": answer["reasoning"]}
    choice = {"index": 0, "message": {**message, "tool_calls": calls}, "finish_reason": "stop"}
    return b"data: %b\n\n" % encode_halves({**HEAD, "choices": [choice], "usage": USAGE}) + DONE


def said(items: list[dict[str, Any]]) -> list[tuple[str, ...]]:
    """What the items say; blanks around a text between tags are the tags'."""
    found: list[tuple[str, ...]] = []
    for item in items:
        if item["type"] == "function_call":
            found.append(("call", item["call_id"], item["name"], item["arguments"]))
        else:
            text = "".join(part["text"] for part in item["content"]).strip()
            found += [(item["type"], text)] if text else []
    return found


@settings(deadline=None, max_examples=60)
@given(_answers, st.data(), st.integers(1, 300))
def test_any_cut_of_an_answer_is_the_answer(
    answer: dict[str, Any], data: st.DataObject, size: int
) -> None:
    wanted = hear([whole(answer)])
    body = streamed(data, answer)
    heard = hear(chunks(body, size))
    assert heard.events == hear([body]).events
    assert check(heard)["status"] == "completed"
    check(wanted)
    assert said(heard.output) == said(wanted.output)
    deltas = {"function_call_arguments": "arguments"}
    for kind, key in deltas.items():
        final = "".join(item.get(key, "") for item in heard.output)
        assert heard.texts(kind) == final
    assert heard.terminal["usage"] == wanted.terminal["usage"]
