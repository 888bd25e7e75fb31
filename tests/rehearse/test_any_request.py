"""Whatever comes in: a strict stream or a refusal, never a traceback."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from openai.types.responses import ResponseStreamEvent
from pydantic import TypeAdapter

from gateway.tools.rehearse.events import ResponseEvents
from gateway.tools.rehearse.items import SHAPES
from gateway.tools.rehearse.refusals import RequestRefused
from gateway.tools.rehearse.request import KEYS, read
from gateway.tools.rehearse.script import decide
from tests.support.rehearsal import WEATHER

STRICT: TypeAdapter[Any] = TypeAdapter(ResponseStreamEvent)

JUNK = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 40) | st.sampled_from(["", "x", "user", "message"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["type", "id", "text", "name", "role"]), inner, max_size=3
        )
    ),
    max_leaves=5,
)
DIRECTIONS = ["hello", "use the tool twice", "in 9 words", "fail midway", "cut midway", "refuse"]
WORDS = st.lists(st.sampled_from(DIRECTIONS), max_size=3).map(" ".join)
ITEM = st.builds(
    lambda kind, fields, role: {"type": kind, "role": role, **fields},
    st.sampled_from([*SHAPES, "item_reference", "shell_call"]),
    st.dictionaries(
        st.sampled_from(["content", "output", "call_id", "name", "arguments", "summary", "status"]),
        WORDS | JUNK,
    ),
    st.sampled_from(["user", "assistant", "developer"]),
)
SETTINGS = st.fixed_dictionaries(
    {},
    optional={
        "reasoning": st.fixed_dictionaries(
            {"effort": st.sampled_from(["none", "low", "max"])},
            optional={"summary": st.sampled_from(["auto", "detailed"])},
        ),
        "tools": st.lists(st.sampled_from([WEATHER, {"type": "custom", "name": "c"}]), max_size=2),
        "include": st.just(["reasoning.encrypted_content"]),
        "max_output_tokens": st.integers(1, 40),
        "tool_choice": st.sampled_from(["auto", "none", "required"]),
    },
)


def told(request: dict[str, Any]) -> list[dict[str, Any]]:
    checked = read(json.dumps(request).encode())
    events = ResponseEvents(checked, decide(checked), "0" * 32, lambda: 0.0)
    return [event for _, event in events.timed()]


@given(st.dictionaries(st.sampled_from(sorted(KEYS)), JUNK), st.lists(ITEM, max_size=4))
def test_junk_is_refused_or_answered(junk: dict[str, Any], items: list[dict[str, Any]]) -> None:
    with suppress(RequestRefused):
        told({"model": "m", "input": items, **junk})


@given(WORDS, SETTINGS)
def test_every_event_is_strict(words: str, settings: dict[str, Any]) -> None:
    events = told({"model": "m", "input": words, **settings})
    for event in events:
        STRICT.validate_python(event, strict=True)
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    ended = events[-1]["type"].endswith((".completed", ".failed", ".incomplete"))
    assert ended == ("cut midway" not in words or "fail midway" in words)
