"""The response object in every snapshot: whole, and the same from first to last (protocol.md 4)."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from lanes.codec import encode
from lanes.stream.item_schema import PRIVATE_KEYS
from lanes.stream.response_schema import ECHOES, TOOL
from steering.required import asynchronous_tools

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from steering.required import ToolName

log = logging.getLogger("multilane.run")

#: The reference's defaults, where neither the request nor the backend has a value.
DEFAULTS: dict[str, Any] = {
    "instructions": None,
    "max_output_tokens": None,
    "max_tool_calls": None,
    "model": "",
    "parallel_tool_calls": True,
    "previous_response_id": None,
    "reasoning": {"effort": None, "summary": None},
    "service_tier": "auto",
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
#: The backend's value for these is never passed on.
_OURS = PRIVATE_KEYS | frozenset(
    {"id", "object", "created_at", "completed_at", "status", "error", "incomplete_details"}
    | {"output", "usage", "previous_response_id", "store", "background", "conversation"}
)
#: What a response came to: the backend's last value counts.
_OUTCOMES = frozenset(
    {"service_tier", "tool_usage", "moderation", "access_programs"}
    | {"prompt_cache_diagnostics", "input_transformations"}
)
#: What a request asks for in the same form as the response has it.
_ASKED = (
    *DEFAULTS,
    *("prompt", "prompt_cache_retention", "prompt_cache_options", "conversation", "image"),
    "access_programs",
)
#: What the reference does where a request with `prompt_cache_options` says nothing.
_CACHE_DEFAULTS = {"mode": "implicit", "ttl": "30m"}


#: More seconds than any time has; what is beyond it counts something else.
_END_OF_TIME: Final = 1e12


class Snapshots:
    """Makes the response object of one response.

    A value of the request wins over the backend's, which wins over the reference's default. A value
    that does not fit the official types does not count. The backend's first value stays, and its
    first object fixes `created_at` and `model`. Only of what a response came to (the service tier,
    say) its last value counts, whatever was asked for.

    Args:
        response_id: The id that the client gets.
        request: The body of the create.
        created_at: Seconds since the epoch, until the backend names its own.
    """

    def __init__(self, response_id: str, request: Mapping[str, Any], created_at: float) -> None:
        self.id = response_id
        self._created_at: float = created_at
        self._asked = _echoes({key: request[key] for key in _ASKED if request.get(key) is not None})
        self._asked["background"] = request.get("background") is True
        self._upstream: dict[str, Any] = {}
        self._settings: bytes | None = None  # what does not change, as JSON
        self._begun = False
        #: How many tokens the context has at the end, if the backend counted them.
        self.tokens: int | None = None
        #: What was used in all, if the backend counted it, and why it did not end well.
        self.usage: dict[str, Any] | None = None
        self.why: str | None = None
        #: What was used before the answer was asked for.
        self.spent: dict[str, Any] | None = None

    def learn(self, upstream: Mapping[str, Any]) -> None:
        """Take over what a response object of the backend adds to those before it."""
        if self._begun and not upstream:
            return
        latest = _echoes({key: value for key, value in upstream.items() if key not in _OURS})
        if not self._begun:
            self._begun = True
            self._upstream["model"] = latest.get("model", DEFAULTS["model"])
            created_at = upstream.get("created_at")
            if isinstance(created_at, int | float) and not isinstance(created_at, bool):
                self._created_at = (
                    created_at if 0 <= created_at < _END_OF_TIME else self._created_at
                )
        outcomes = {key for key in _OUTCOMES if latest.get(key) is not None}
        self._asked = {key: value for key, value in self._asked.items() if key not in outcomes}
        first = {k: v for k, v in self._upstream.items() if v is not None and k not in outcomes}
        self._upstream = {**self._upstream, **latest, **first}
        self._settings = None

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
        """Return the JSON of the response object.

        Args:
            status: The response's status.
            output: The finished items, each as JSON.
            usage: The tokens it took, if the backend counted them.
            error: Why it failed.
            incomplete_details: Why it is incomplete.
            completed_at: Seconds since the epoch.
        """
        self.tokens = None if usage is None else usage["total_tokens"]
        self.usage = usage if self.spent is None else _total(self.spent, usage)
        self.why = (error or {}).get("code") or (incomplete_details or {}).get("reason")
        if self._settings is None:
            self._settings = encode({**DEFAULTS, **self._upstream, **self._asked})
        head = {
            "id": self.id,
            "object": "response",
            "created_at": self._created_at,
            "completed_at": completed_at,
            "status": status,
            "error": error,
            "incomplete_details": incomplete_details,
        }
        # The items may be large, so they are copied once.
        return b'%b,"output":[%b],"usage":%b,%b' % (
            encode(head)[:-1],
            b",".join(output),
            encode(self.usage),
            self._settings[1:],
        )


def _total(spent: dict[str, Any], usage: dict[str, Any] | None) -> dict[str, Any]:
    """Return two usages as one."""
    return (
        spent
        if usage is None
        else {
            key: _total(value, usage[key]) if isinstance(value, dict) else value + usage[key]
            for key, value in spent.items()
        }
    )


def _echoes(source: Mapping[str, Any]) -> dict[str, Any]:
    """Return what can be echoed; a null does not replace a default."""
    shaped = {key: _SHAPED.get(key, _same)(value) for key, value in source.items()}
    return {key: value for key, value in shaped.items() if _fits(key, value)}


def _fits(key: str, value: object) -> bool:
    if value is None:
        return key not in DEFAULTS
    return key not in ECHOES or ECHOES[key](value)


def _same(value: object) -> object:
    return value


def _text(text: object) -> object:
    if not isinstance(text, dict) or text.get("format") is not None:
        return text
    return {**text, "format": {"type": "text"}}


def _conversation(conversation: object) -> object:
    return {"id": conversation} if isinstance(conversation, str) else conversation


def _tools(tools: object) -> object:
    """Keep the tools that fit; give a function the keys that the SDKs read."""
    if not isinstance(tools, list):
        return tools
    bare = {"parameters": None, "strict": None}
    return [
        {**bare, **tool} if tool["type"] == "function" else tool for tool in tools if TOOL(tool)
    ]


def _cache_options(options: object) -> object:
    """Give the options the keys that a response has, and not what was asked of one request."""
    if not isinstance(options, dict):
        return options
    given = {key: options[key] for key in options if key != "prewarm"}
    return {**_CACHE_DEFAULTS, **{key: given[key] for key in given if given[key] is not None}}


_SHAPED: dict[str, Callable[[object], object]] = {
    "prompt_cache_options": _cache_options,
    "text": _text,
    "conversation": _conversation,
    "tools": _tools,
}


@dataclass(frozen=True, slots=True)
class Asked:
    """What a request asks of the output.

    Attributes:
        encrypted: Whether encrypted reasoning is wanted.
        padded: Whether the backend's padding of deltas is wanted.
        asynchronous: The tools whose outputs need not come with the next create.
    """

    encrypted: bool
    padded: bool
    asynchronous: frozenset[ToolName]

    @classmethod
    def by(cls, request: Mapping[str, Any]) -> Asked:
        """Return what this request asks."""
        include, options = request.get("include"), request.get("stream_options")
        tools = request.get("tools")
        named = isinstance(include, list) and "reasoning.encrypted_content" in include
        return cls(
            named or request.get("store") is False,
            isinstance(options, dict) and options.get("include_obfuscation") is True,
            asynchronous_tools(tools) if tools else frozenset(),
        )
