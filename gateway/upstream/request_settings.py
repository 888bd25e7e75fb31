"""What a client wants of a response, as far as the backend takes it. Pure, but for its warnings.

What changes the answer by being left out is told in the log. What could mean nothing at all without
it is the client's fault (400, naming the param).
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final

from gateway.logs import ThrottledWarnings
from lanes.errors import ClientFault

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gateway.upstream.dialect import Dialect

#: Seldom: what a backend does not take is asked for again with every request.
NOTICES: Final = ThrottledWarnings(logging.getLogger("multilane.dialect"), every=600.0)
#: The gateway owns the state: it sends the whole input itself, and the backend stores nothing.
_STATE_KEYS = frozenset({"input", "previous_response_id", "store", "stream"})
#: Those that change the answer.
_MEANT = frozenset(
    {"instructions", "max_output_tokens", "max_tool_calls", "parallel_tool_calls", "prompt"}
    | {"reasoning", "temperature", "text", "tool_choice", "tools", "top_logprobs", "top_p"}
    | {"truncation"}
)
#: And values that are what is done anyway.
_DEFAULTS: Final[tuple[Any, ...]] = (None, "auto", "disabled", [], {})


def settings(dialect: Dialect, body: Mapping[str, Any]) -> dict[str, Any]:
    """All that the client said but its input. Raises ClientFault."""
    if body.get("conversation") is not None and not dialect.conversations:
        raise ClientFault(
            "This backend keeps no conversations: continue by 'previous_response_id'.",
            code="unsupported_parameter",
            param="conversation",
        )
    kept: dict[str, Any] = {}
    for key, value in body.items():
        if key in _STATE_KEYS or (value is None and not dialect.keeps_nulls):
            continue
        if key not in dialect.drops and (dialect.keys is None or key in dialect.keys):
            kept[key] = value
        elif key in _MEANT and value not in _DEFAULTS:
            line = f"{dialect.name} does nothing about {key}; left out"
            NOTICES.warning(f"{dialect.name} {key}", line)
    return kept if dialect.tools is None else _tools(dialect, dialect.tools, kept)


def _tools(dialect: Dialect, taken: frozenset[str], kept: dict[str, Any]) -> dict[str, Any]:
    """Without the tools of other types; a choice must still be one among what is left."""
    given = kept.get("tools") or []
    left_out = [kind for tool in given if (kind := _kind(tool)) not in taken]
    if not left_out:
        return kept
    tools = [tool for tool in given if _kind(tool) in taken]
    choice = kept.get("tool_choice")
    forced = _kind(choice) if isinstance(choice, dict) else None
    if forced in left_out or (choice == "required" and not tools):
        raise ClientFault(
            f"This backend takes tools of these types alone: {', '.join(sorted(taken))}.",
            code="unsupported_value",
            param="tool_choice",
        )
    line = f"{dialect.name} takes no tool of type {left_out[0]:.64}; left out"
    NOTICES.warning(f"{dialect.name} tools", line)
    bare = {key: value for key, value in kept.items() if key not in ("tools", "tool_choice")}
    return kept | {"tools": tools} if tools else bare


def _kind(tool: object) -> str:
    kind = tool.get("type") if isinstance(tool, dict) else None
    return kind if isinstance(kind, str) else ""
