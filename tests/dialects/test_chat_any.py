"""Whatever a backend of Chat Completions sends: one strict response, and a next turn it takes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.dialects.chat import DIALECT
from gateway.upstream.refused.request import MESSAGES, SAME_IDS, Refusal, without
from lanes.codec import encode
from tests import tapes
from tests.dialects.chat_judge import refuses
from tests.dialects.chatting import (
    USAGE,
    Chunk,
    body,
    call,
    chunk,
    counted,
    hear,
    text,
)
from tests.support.dialect_reading import check, chunks

if TYPE_CHECKING:
    from tests.machines.drive import Played

# Many examples, and in a parallel run other processes share the cores.
pytestmark = pytest.mark.timeout(300)

TOOLS = [{"type": "function", "name": "f"}, {"type": "custom", "name": "sh"}]
#: What its reasoning comes under and goes back under.
OWN = frozenset({"reasoning", "reasoning_content", "reasoning_details"})
REQUEST: dict[str, Any] = {"model": "m", "input": "hi", "store": False, "tools": TOOLS}

_odd = st.sampled_from([None, "", 0, 7, True, [], {}, [None], {"x": 1}, "a"])
_word = st.sampled_from(["a", "b ", "\n", "é", "\U0001f600", '"', ""])
_piece = st.sampled_from(["{", "}", '{"a"', ":1}", "{}", '{"input":"x"}', "", "x"])
_call = st.builds(
    call,
    st.sampled_from([None, 0, 1, 2]),
    st.sampled_from([None, "f", "g", "sh", ""]),
    st.one_of(_piece, st.sampled_from([None, {"a": 1}])),
    st.sampled_from([None, "c1", "c2", ""]),
)
_finish = st.sampled_from(
    [None, "stop", "length", "tool_calls", "content_filter", "zebra", "error"]
)
_delta = st.builds(
    chunk,
    _finish,
    content=_word | _odd,
)
_wild = st.builds(
    lambda finish, delta: chunk(finish, **delta),
    st.none() | _odd,
    st.dictionaries(
        st.sampled_from(
            (
                *("content", "refusal", "reasoning", "reasoning_content", "reasoning_details"),
                *("tool_calls", "function_call", "annotations", "role"),
            )
        ),
        _odd,
        max_size=3,
    ),
)
_said = st.one_of(
    st.builds(lambda word: chunk(content=word), _word),
    st.builds(lambda word: chunk(reasoning_content=word), _word),
    st.builds(lambda word: chunk(refusal=word), _word),
    _call,
    _call,
)
_other = st.one_of(
    _delta,
    _wild,
    st.builds(lambda key, value: {**chunk(content="x"), key: value},
              st.sampled_from(["choices", "usage", "error", "model", "created"]), _odd),
    st.just(counted()),
    st.sampled_from([b"data: [DONE]\n\n", b": ping\n\n", b"data: {\n\n", b"data: 7\n\n"]),
)  # fmt: skip
_bodies = st.builds(
    lambda drawn, others, done: body([*drawn, *others], done=done),
    st.lists(_said, max_size=8),
    st.lists(_said | _other, max_size=6),
    st.booleans(),
)


@settings(deadline=None, max_examples=300)
@given(_bodies, st.integers(1, 200))
def test_any_body_at_any_chunking_is_one_strict_response(data: bytes, size: int) -> None:
    heard = hear([data], REQUEST)
    assert heard.run.over
    assert hear(chunks(data, size), REQUEST).events == heard.events
    if heard.events:
        check(heard)
        _joined(heard)
        _continued(heard)


def _joined(heard: Played) -> None:
    """What the deltas said is what the final output holds."""
    final = "".join(
        "".join(part.get("text", part.get("refusal")) for part in item.get("content", ()))
        + item.get("arguments", "")
        + item.get("input", "")
        for item in heard.output
    )
    deltas = "".join(e["delta"] for e in heard.events if e["type"].endswith(".delta"))
    assert final == deltas


def _continued(heard: Played) -> dict[str, Any]:
    """The next turn, with the outputs that are owed: the judge takes it."""
    owed = [{**stub, "output": "ok"} for stub in heard.run.required_input()]
    _next(heard, *owed, {"role": "user", "content": "go on"})
    return _next(heard)


def _next(heard: Played, *items: dict[str, Any]) -> dict[str, Any]:
    before = encode({"role": "user", "content": "hi"})
    history = [before, *(entry.data for entry in heard.run.entries()), *map(encode, items)]
    made: dict[str, Any] = json.loads(DIALECT.request(REQUEST, history))
    if refuses(made, own=OWN) == "a call id twice":  # as the backend itself had it
        made = without(made, {Refusal(MESSAGES, SAME_IDS)})
    assert refuses(made, own=OWN) is None, (refuses(made, own=OWN), made)
    return made


LONG: list[Chunk] = [
    chunk(role="assistant", content=""),
    chunk(reasoning_content="think"),
    chunk(reasoning_content=" twice"),
    *text("Let", " me", " look"),
    call(0, "f", "", "c1"),
    call(0, None, '{"a"'),
    call(0, None, ":1}"),
    call(1, "sh", '{"input"', "c2"),
    call(1, None, ':"ls"}'),
    {**chunk("tool_calls"), "usage": USAGE},
]
BODIES = {
    "long": body(LONG),
    "text": body([*LONG[:6], chunk("stop"), counted()]),
    **{name: tapes.tape(name) for name in tapes.names("chat_*.sse")},
}


@pytest.mark.parametrize("name", BODIES)
def test_a_steer_after_any_event_makes_a_request_that_is_taken(name: str) -> None:
    whole = hear([BODIES[name]], REQUEST)
    for after in range(2, len(whole.events)):
        heard = hear([BODIES[name]], REQUEST, steer_after=after)
        terminal = heard.events[-1]["response"]
        owed = [{**stub, "output": "ok"} for stub in heard.run.required_input()]
        made = _next(heard, *owed, {"role": "user", "content": "no, shorter"})
        if (terminal["incomplete_details"] or {}).get("reason") == "steered":
            assert not owed
        last = made["messages"][-1]
        assert (last["role"], last["content"].split("\n\n")[-1]) == ("user", "no, shorter")
        streamed = "".join(
            event["delta"] for event in heard.events if "output_text.delta" in event["type"]
        )
        spoken = [one["content"] for one in made["messages"] if one["role"] == "assistant"]
        assert "".join(spoken) == streamed


@pytest.mark.parametrize("name", BODIES)
def test_every_body_can_be_continued(name: str) -> None:
    heard = hear([BODIES[name]], REQUEST)
    check(heard)
    assert _continued(heard)["messages"][-1]["role"] == "user"


_items = st.lists(
    st.one_of(
        st.builds(lambda role, streamed: {"role": role, "content": streamed},
                  st.sampled_from(["user", "assistant", "system", "developer", "tool"]),
                  st.sampled_from(["x", "", None, [], [{"type": "input_text", "text": "y"}],
                                   [{"type": "input_image", "image_url": "u"}], [{"type": "z"}]])),
        st.builds(lambda kind, key, drawn: {"type": kind, "call_id": key, "name": "f", **drawn},
                  st.sampled_from(["function_call", "custom_tool_call", "shell_call"]),
                  st.sampled_from(["a", "b", None]),
                  st.sampled_from([{}, {"arguments": "{}"}, {"arguments": "x"}, {"input": "i"}])),
        st.builds(lambda kind, key, drawn: {"type": kind, "call_id": key, "output": drawn},
                  st.sampled_from(["function_call_output", "custom_tool_call_output"]),
                  st.sampled_from(["a", "b", None]),
                  st.sampled_from(["o", "", None, [{"type": "input_text", "text": "o"}], 7,
                                   [{"type": "input_image", "image_url": "u"}]])),
        st.sampled_from([{"type": "reasoning", "summary": []}, {"type": "zebra"}, {}]),
    ),
    max_size=10,
)  # fmt: skip


@settings(deadline=None, max_examples=300)
@given(_items, st.sampled_from([None, "be brief", "", []]))
def test_any_input_makes_a_request_that_is_taken(items: list[Any], drawn: object) -> None:
    asked = {**REQUEST, "instructions": drawn}
    made = json.loads(DIALECT.request(asked, [encode(item) for item in items]))
    assert refuses(made) in (None, "no messages"), made
