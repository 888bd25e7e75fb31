"""The response object in every snapshot: whole, and the same from first to last (protocol.md 4)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Raw

from lanes.codec import encode
from lanes.items import PRIVATE_KEYS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

#: What the reference says where neither the request nor the backend does.
DEFAULTS: dict[str, Any] = {
    "instructions": None,
    "max_output_tokens": None,
    "max_tool_calls": None,
    "model": "",
    "parallel_tool_calls": True,
    "previous_response_id": None,
    "reasoning": {"effort": None, "summary": None},
    "service_tier": "default",
    "store": True,
    "background": False,
    "temperature": 1.0,
    "top_p": 1.0,
    "presence_penalty": 0.0,
    "frequency_penalty": 0.0,
    "top_logprobs": 0,
    "text": {"format": {"type": "text"}},
    "tool_choice": "auto",
    "tools": [],
    "truncation": "disabled",
    "user": None,
    "metadata": {},
    "safety_identifier": None,
    "prompt_cache_key": None,
}
#: Ours alone: a backend's value for these is never passed on.
_OURS = frozenset(
    {"id", "object", "created_at", "completed_at", "status", "error", "incomplete_details"}
    | {"output", "usage", "previous_response_id", "store", "background", "conversation"}
)


class Snapshots:
    """Makes the response object of one response.

    `request` is the body of the create; a value in it wins over the backend's, which wins over the
    reference's default. The first object the backend sends settles `created_at` and all echoes.
    """

    def __init__(self, response_id: str, request: Mapping[str, Any], created_at: float) -> None:
        self.id = response_id
        self._request = request
        self._created_at: float = created_at
        self._fields: dict[str, Any] | None = None

    def settle(self, upstream: Mapping[str, Any]) -> None:
        """Fix what does not change, from the backend's first object; later ones add what is new."""
        fields = {
            key: value
            for key, value in upstream.items()
            if key not in _OURS
            and key not in PRIVATE_KEYS
            and not (value is None and key in DEFAULTS)
        }
        if self._fields is not None:
            self._fields = {**fields, **self._fields}
            return
        created_at = upstream.get("created_at")
        if isinstance(created_at, int | float) and not isinstance(created_at, bool):
            self._created_at = created_at
        for key, default in DEFAULTS.items():
            asked = self._request.get(key)
            fields[key] = fields.get(key, default) if asked is None else asked
        conversation = self._request.get("conversation")
        if conversation is not None:
            named = isinstance(conversation, str)
            fields["conversation"] = {"id": conversation} if named else conversation
        fields["background"] = False
        fields["text"] = _text(fields["text"])
        tools = fields["tools"]
        fields["tools"] = [_tool(tool) for tool in tools] if isinstance(tools, list) else []
        self._fields = fields

    def snapshot(
        self,
        status: str,
        *,
        output: Sequence[bytes] = (),
        usage: dict[str, Any] | None = None,
        error: dict[str, Any] | None = None,
        incomplete_details: dict[str, Any] | None = None,
        completed_at: float | None = None,
    ) -> bytes:
        """The JSON of the response object. `output` holds finished items as JSON."""
        self.settle({})
        return encode(
            {
                "id": self.id,
                "object": "response",
                "created_at": self._created_at,
                "completed_at": completed_at,
                "status": status,
                "error": error,
                "incomplete_details": incomplete_details,
                "output": [Raw(item) for item in output],
                "usage": usage,
                **(self._fields or {}),
            }
        )


def _text(text: object) -> object:
    if not isinstance(text, dict) or text.get("format") is not None:
        return text
    return {**text, "format": {"type": "text"}}


def _tool(tool: object) -> object:
    """An echoed function tool always has the keys that the SDKs read."""
    if isinstance(tool, dict) and tool.get("type") == "function":
        return {"parameters": None, "strict": None, **tool}
    return tool


def usage(reported: object) -> dict[str, Any] | None:
    """A backend's usage in the reference's shape; None if it sent none, never made-up zeros."""
    if not isinstance(reported, dict):
        return None
    read = _count(reported, "input_tokens", "prompt_tokens")
    written = _count(reported, "output_tokens", "completion_tokens")
    if read is None and written is None:
        return None
    total = _count(reported, "total_tokens")
    into = _details(reported, "input_tokens_details", "prompt_tokens_details")
    out = _details(reported, "output_tokens_details", "completion_tokens_details")
    return {
        "input_tokens": read or 0,
        "input_tokens_details": {
            "cached_tokens": _count(into, "cached_tokens") or 0,
            "cache_write_tokens": _count(into, "cache_write_tokens") or 0,
        },
        "output_tokens": written or 0,
        "output_tokens_details": {"reasoning_tokens": _count(out, "reasoning_tokens") or 0},
        "total_tokens": (read or 0) + (written or 0) if total is None else total,
    }


def _count(counts: Mapping[str, Any], *names: str) -> int | None:
    for name in names:
        value = counts.get(name)
        if isinstance(value, int) and not isinstance(value, bool):
            return value
    return None


def _details(counts: Mapping[str, Any], *names: str) -> Mapping[str, Any]:
    found = (counts.get(name) for name in names)
    return next((details for details in found if isinstance(details, dict)), {})
