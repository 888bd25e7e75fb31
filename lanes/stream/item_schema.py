"""The types of items and the shapes of their fields, as the official types have them.

A value that does not fit is left out.
"""

from __future__ import annotations

from typing import Any

from lanes.stream.schema import of, one_of, record, tagged

#: The prefix of an id, by the type of the item.
PREFIXES = {
    "message": "msg",
    "reasoning": "rs",
    "function_call": "fc",
    "custom_tool_call": "ctc",
    "web_search_call": "ws",
    "file_search_call": "fs",
    "code_interpreter_call": "ci",
    "image_generation_call": "ig",
    "computer_call": "cu",
    "shell_call": "sh",
    "local_shell_call": "lsh",
    "apply_patch_call": "apc",
    "tool_search_call": "tsc",
    "mcp_call": "mcp",
    "mcp_list_tools": "mcpl",
    "mcp_approval_request": "mcpr",
    "compaction": "cmp",
}
#: Keys that some backends add for themselves and no client should see.
PRIVATE_KEYS = frozenset(
    {"kv_transfer_params", "input_messages", "output_messages", "content_filters", "__verbose"}
    | {"timings", "cost", "cost_in_usd_ticks"}
)
#: Keys whose null means the same as absence.
_NULLABLE = frozenset({"phase", "content", "encrypted_content"})

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
#: The keys that hold text or the call's names, by the type they belong to.
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
#: The keys that a web citation must have, where a backend knows only the address.
_NOWHERE = {"title": "", "start_index": 0, "end_index": 0}


def public_fields(item_type: str, item: dict[str, Any]) -> dict[str, Any]:
    """Return the item's fields without private keys, values that do not fit and foreign text."""
    shapes, foreign = _OPTIONAL.get(item_type, {}), _FOREIGN.get(item_type, ())
    return {
        key: value
        for key, value in item.items()
        if key not in foreign
        and key not in PRIVATE_KEYS
        and (key not in _NULLABLE if value is None else key not in shapes or shapes[key](value))
    }


def readable_annotation(value: object) -> dict[str, Any] | None:
    """Return an annotation as clients can read it, None for what they cannot."""
    if not isinstance(value, dict):
        return None
    if value.get("type") == "url_citation":
        given = {key: field for key, field in value.items() if field is not None}
        value = {**_NOWHERE, **given}
    return value if _ANNOTATION(value) else None


def readable_annotations(value: object) -> list[dict[str, Any]]:
    """Return those of a list that clients can read."""
    listed = value if isinstance(value, list) else ()
    return [readable for readable in map(readable_annotation, listed) if readable is not None]
