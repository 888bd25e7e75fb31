"""The shape of what an item carries besides its text, as the official types have it.

A value that does not fit is as good as none: left out.
"""

from __future__ import annotations

from typing import Any

from lanes.stream.schema import of, one_of, record, tagged

_TEXT, _FLAG, _COUNT = of(str), of(bool), of(int)
_CALLABLE = {
    "namespace": _TEXT,
    "async": _FLAG,
    "caller": tagged({"direct": record({}), "program": record({"caller_id": _TEXT})}),
}
_OPTIONAL = {
    "message": {"phase": one_of("commentary", "final_answer")},
    "reasoning": {
        "encrypted_content": _TEXT,
        "status": one_of("in_progress", "completed", "incomplete"),
    },
    "function_call": _CALLABLE,
    "custom_tool_call": _CALLABLE,
}
#: Where each of them has its text and whose call it is; for the others these mean nothing.
_OWN = {
    "message": frozenset({"content", "role"}),
    "reasoning": frozenset({"content", "summary"}),
    "function_call": frozenset({"arguments", "call_id", "name"}),
    "custom_tool_call": frozenset({"input", "call_id", "name"}),
}
_FOREIGN = {kind: frozenset().union(*_OWN.values()) - own for kind, own in _OWN.items()}
_SPAN = {"start_index": _COUNT, "end_index": _COUNT}
_ANNOTATION = tagged(
    {
        "file_citation": record({"file_id": _TEXT, "filename": _TEXT, "index": _COUNT}),
        "file_path": record({"file_id": _TEXT, "index": _COUNT}),
        "url_citation": record({"url": _TEXT, "title": _TEXT, **_SPAN}),
        "container_file_citation": record(
            {"container_id": _TEXT, "file_id": _TEXT, "filename": _TEXT, **_SPAN}
        ),
    },
    others=True,
)
#: What citations of the web lack where a backend knows no more than the address.
_NOWHERE = {"title": "", "start_index": 0, "end_index": 0}


def fitting(item_type: str, item: dict[str, Any]) -> dict[str, Any]:
    """The item without values of the wrong shape, and without the text of another type."""
    shapes, foreign = _OPTIONAL.get(item_type, {}), _FOREIGN.get(item_type, ())
    return {
        key: value
        for key, value in item.items()
        if key not in foreign and (key not in shapes or value is None or shapes[key](value))
    }


def annotation(told: object) -> dict[str, Any] | None:
    """An annotation as clients can read it, None if there is none in it."""
    if not isinstance(told, dict):
        return None
    if told.get("type") == "url_citation":
        known = {key: value for key, value in told.items() if value is not None}
        told = {**_NOWHERE, **known}
    return told if _ANNOTATION(told) else None


def readable(told: object) -> list[dict[str, Any]]:
    """Those of a list that can be read."""
    listed = told if isinstance(told, list) else ()
    return [one for one in map(annotation, listed) if one is not None]
