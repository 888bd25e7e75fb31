"""The types of items and the shapes of their fields, as the official types have them.

A value that does not fit is left out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from lanes.codec import encode
from lanes.history.makers import MADE_BY, packed
from lanes.stream.schema import each, of, one_of, record, tagged

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


class Seal(NamedTuple):
    """What becomes of encrypted reasoning (D40).

    Attributes:
        shown: Whether the client asked for it.
        made_by: Who made it, and alone can read it; None where that is not known.
        done: Whether that was done before: the item is as its client got it, and stays so.
        call_id: The backend's own id of a call, where the client got another.
    """

    shown: bool
    made_by: Mapping[str, Any] | None = None
    done: bool = False
    call_id: str = ""

    def show(self, item: dict[str, Any]) -> None:
        """Leave it out of an item that a client gets, or say whose it is."""
        if self.done:
            return
        if item["type"] == "reasoning":
            if not self.shown or not item.get("encrypted_content"):
                item.pop("encrypted_content", None)
            if self.shown and self.made_by is None and MADE_BY in item:
                item["encrypted_content"] = packed(item)
        if self._is_own(item):
            item[MADE_BY] = self._mark(item)

    def marked(self, final: dict[str, Any]) -> dict[str, Any]:
        """Return the backend's own item, which says whose it is if only its maker can read it."""
        return {**final, MADE_BY: self._mark(final)} if self._is_own(final) else final

    def _is_own(self, item: dict[str, Any]) -> bool:
        sealed = item["type"] == "reasoning" and item.get("encrypted_content")
        return self.made_by is not None and bool(sealed or MADE_BY in item or self.call_id)

    def _mark(self, item: dict[str, Any]) -> dict[str, Any]:
        """Return the mark; that of a gateway which is the backend is within it."""
        inner = {"inner": item[MADE_BY]} if MADE_BY in item else {}
        renamed = {"call_id": self.call_id} if self.call_id else {}
        return {**(self.made_by or {}), **renamed, **inner}


#: How an item that was cut off says so, where `incomplete` is not in its vocabulary.
CUT_STATUS = {"image_generation_call": "failed", "apply_patch_call": "in_progress"}
#: The statuses of an item that is at work.
RUNNING = frozenset({"in_progress", "searching", "interpreting", "generating", "calling"})

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
_SEARCHED = record({}, {"query": _TEXT, "queries": each(_TEXT)})
_FAULT = record({"code": _COUNT, "message": _TEXT})
_OPTIONAL = {
    "message": {"phase": one_of("commentary", "final_answer")},
    "reasoning": {
        "encrypted_content": _TEXT,
        "status": one_of("in_progress", "completed", "incomplete"),
    },
    "function_call": _CALLABLE,
    "custom_tool_call": _CALLABLE,
    "web_search_call": {
        "action": tagged(
            {
                "search": _SEARCHED,
                "open_page": record({}, {"url": _TEXT}),
                "find_in_page": record({"url": _TEXT, "pattern": _TEXT}),
            }
        )
    },
    "file_search_call": {"queries": each(_TEXT)},
    "code_interpreter_call": {"container_id": _TEXT, "code": _TEXT},
    "mcp_call": {
        **dict.fromkeys(("arguments", "name", "server_label", "output"), _TEXT),
        "error": tagged(
            {
                **dict.fromkeys(("mcp_protocol_error", "http_error"), _FAULT),
                "mcp_tool_execution_error": record({"content": lambda _: True}),
            }
        ),
    },
    "mcp_list_tools": {"server_label": _TEXT, "tools": each(of(dict))},
}
#: What hosted items must have: all that stands for it where a backend left it out.
_NEEDED: dict[str, dict[str, Any]] = {
    "web_search_call": {"status": "in_progress", "action": {"type": "search", "query": ""}},
    "file_search_call": {"status": "in_progress", "queries": []},
    "code_interpreter_call": {
        "status": "in_progress",
        **{"code": None, "container_id": "", "outputs": None},
    },
    "image_generation_call": {"status": "in_progress", "result": None},
    "mcp_call": {"arguments": "", "name": "", "server_label": ""},
    "mcp_list_tools": {"server_label": "", "tools": []},
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
#: The lowest logprob of the reference; it stands for one that is no number.
_FLOOR = -9999.0
#: The keys that a web citation must have, where a backend knows only the address.
_NOWHERE = {"title": "", "start_index": 0, "end_index": 0}


def needed_fields(item_type: str) -> dict[str, Any]:
    """Return what a hosted item must have, as it is where the backend says nothing about it."""
    return _NEEDED.get(item_type, {})


def public_fields(item_type: str, item: dict[str, Any]) -> dict[str, Any]:
    """Return the item's fields without private keys, values that do not fit and foreign text."""
    shapes, foreign = _OPTIONAL.get(item_type, {}), _FOREIGN.get(item_type, ())
    if item_type in _REPAIRS:
        item = _repaired(item, _REPAIRS[item_type], shapes)
    nullable = _NULLABLE | needed_fields(item_type).keys()
    return {
        key: value
        for key, value in item.items()
        if key not in foreign
        and key not in PRIVATE_KEYS
        and (key not in nullable if value is None else key not in shapes or shapes[key](value))
    }


def _repaired(
    item: dict[str, Any], repairs: dict[str, Callable[[Any], Any]], shapes: dict[str, Any]
) -> dict[str, Any]:
    """Bring what says the right thing in the wrong form into the right one."""
    wrong = {
        key: value
        for key, value in item.items()
        if key in repairs and value is not None and not shapes[key](value)
    }
    return item | {key: repairs[key](value) for key, value in wrong.items()}


def _search(action: Any) -> Any:
    return {"type": "search", **action} if isinstance(action, dict) else action


def _execution_error(error: Any) -> Any:
    content = [{"type": "text", "text": error}] if isinstance(error, str) else error
    return {"type": "mcp_tool_execution_error", "content": content}


def _written(value: Any) -> Any:
    return encode(value).decode()


#: By the type of an item and its key: what makes of a value that does not fit one that does.
_REPAIRS: dict[str, dict[str, Callable[[Any], Any]]] = {
    "web_search_call": {"action": _search},
    "mcp_call": {"arguments": _written, "output": _written, "error": _execution_error},
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


def readable_logprobs(value: object) -> list[dict[str, Any]]:
    """Return logprobs as the official types have them, whatever the backend left out."""
    return [
        {
            **_logprob(one),
            "top_logprobs": [_logprob(top) for top in _objects(one.get("top_logprobs"))],
        }
        for one in _objects(value)
    ]


def _logprob(given: dict[str, Any]) -> dict[str, Any]:
    token, value, code = given.get("token"), given.get("logprob"), given.get("bytes")
    token = token if isinstance(token, str) else ""
    if type(value) not in (int, float):
        value = _FLOOR
    if not isinstance(code, list) or any(type(one) is not int for one in code):
        code = list(token.encode())
    return {**given, "token": token, "logprob": value, "bytes": code}


def _objects(value: object) -> list[dict[str, Any]]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []
