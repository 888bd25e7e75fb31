"""Any sequence of events that are nearly right, each value of each drawn for itself.

Where plausible.py draws what a backend might well send, this draws what none should: every type of
event about the same few items, their names and places at odds, and junk in any place.
"""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from lanes.codec import encode
from tests.machines.plausible import JUNK, KINDS

#: An `event:` line, or none, and the data: as a run receives it.
Received = tuple[str | None, bytes]

_LETTERS = st.sampled_from(["", "a", "ab", "abc", "é🙂", "\ufffd"])
_NAMES = st.sampled_from(["i0", "i1", "i2", "c0", "c1"])
_PLACES = st.sampled_from([0, 1, 2])


def _or_junk(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Nine times out of ten as it should be."""
    return st.integers(0, 9).flatmap(lambda n: JUNK if n == 0 else values)


def _some(fields: dict[str, st.SearchStrategy[Any]], **needed: st.SearchStrategy[Any]) -> Any:
    """An object with some of these fields, any of them junk."""
    optional = {key: _or_junk(values) for key, values in fields.items()}
    return st.fixed_dictionaries(needed, optional=optional)


_PART_KINDS = st.sampled_from(["output_text", "refusal", "reasoning_text", "summary_text"])
_ANNOTATIONS = st.lists(
    _some(
        {"url": _LETTERS, "title": _LETTERS, "start_index": _PLACES, "file_id": _LETTERS},
        type=st.sampled_from(["url_citation", "file_path"]),
    ),
    max_size=2,
)
_LOGPROBS = st.lists(_some({"token": _LETTERS, "logprob": st.floats(-9, 0)}), max_size=2)
_PARTS = _some(
    {"text": _LETTERS, "refusal": _LETTERS, "annotations": _ANNOTATIONS, "logprobs": _LOGPROBS},
    type=_PART_KINDS,
)
_STATUSES = st.sampled_from(["in_progress", "completed", "incomplete", "failed", "queued"])
_ITEMS = _some(
    {
        "id": _NAMES,
        "call_id": _NAMES,
        "name": _LETTERS,
        "arguments": _LETTERS,
        "input": _LETTERS,
        "status": _STATUSES,
        "role": st.just("assistant"),
        "phase": st.sampled_from(["commentary", "final_answer"]),
        "content": st.lists(_PARTS, max_size=3),
        "summary": st.lists(_PARTS, max_size=2),
        "encrypted_content": _LETTERS,
    },
    type=st.sampled_from(["message", "reasoning", "function_call", "custom_tool_call"]),
)
_USAGE = _some(
    {"input_tokens": _PLACES, "output_tokens": _PLACES, "total_tokens": _PLACES}
    | {"input_tokens_details": _some({"cached_tokens": _PLACES})}
)
_ERRORS = _some({"message": _LETTERS, "code": _LETTERS, "type": _LETTERS, "param": _LETTERS})
_RESPONSES = _some(
    {
        "id": _NAMES,
        "created_at": _PLACES,
        "model": _LETTERS,
        "status": _STATUSES,
        "output": st.lists(_ITEMS, max_size=3),
        "usage": _USAGE,
        "error": st.none() | _ERRORS,
        "incomplete_details": st.none() | _some({"reason": _LETTERS}),
        "tools": st.just([]),
        "metadata": st.just({}),
    }
)
_PLACE = {
    "item_id": _NAMES,
    "output_index": _PLACES,
    "content_index": _PLACES,
    "summary_index": _PLACES,
    "sequence_number": st.integers(-2, 9),
}


def _typed(kinds: list[str], fields: dict[str, st.SearchStrategy[Any]]) -> Any:
    return _some(fields, type=st.sampled_from([f"response.{kind}" for kind in kinds]))


_PART_STEPS = [
    f"{what}.{step}"
    for what in ("content_part", "reasoning_summary_part")
    for step in ("added", "done")
]
_TEXT = {"text": _LETTERS, "refusal": _LETTERS, "arguments": _LETTERS, "input": _LETTERS}
_EVENTS: st.SearchStrategy[Any] = st.one_of(
    _typed(["output_item.added", "output_item.done"], {**_PLACE, "item": _ITEMS}),
    _typed(_PART_STEPS, {**_PLACE, "part": _PARTS}),
    _typed([f"{kind}.delta" for kind in KINDS], {**_PLACE, "delta": _LETTERS}),
    _typed([f"{kind}.delta" for kind in KINDS], {**_PLACE, "delta": _LETTERS, "x": JUNK}),
    _typed([f"{kind}.done" for kind in KINDS], {**_PLACE, **_TEXT, "logprobs": _LOGPROBS}),
    _typed(
        ["output_text.annotation.added"],
        {**_PLACE, "annotation": _ANNOTATIONS.map(lambda listed: listed[0] if listed else None)},
    ),
    _typed(["zebra", "zebra.delta"], {**_PLACE, "item": _ITEMS, "response": _RESPONSES}),
    _typed(["created", "in_progress", "queued"], {"response": _RESPONSES}),
)
_ENDINGS = st.one_of(
    _typed(["completed", "incomplete", "failed", "cancelled"], {"response": _RESPONSES}),
    _some({"error": _ERRORS, "message": _LETTERS, "detail": _LETTERS}, type=st.just("error")),
    _some({"error": _ERRORS, "message": _LETTERS, "detail": _LETTERS, "success": st.just(False)}),
    JUNK,
)


def _received(event: Any) -> st.SearchStrategy[Received]:
    """Whole, or with its type on the `event:` line only, or with a wrong one."""
    kind = event.get("type") if isinstance(event, dict) else None
    whole = encode(event)
    if not isinstance(kind, str):
        return st.just((None, whole))
    bare = encode({key: value for key, value in event.items() if key != "type"})
    return st.sampled_from([(None, whole)] * 6 + [(kind, bare), ("response.zebra", whole)])


def bodies() -> st.SearchStrategy[list[Received]]:
    """A few dozen events, and now and then an end in their middle."""
    return st.lists(st.integers(0, 19).flatmap(_drawn), min_size=1, max_size=25)


def _drawn(number: int) -> st.SearchStrategy[Received]:
    return (_ENDINGS if number == 0 else _EVENTS).flatmap(_received)
