"""How a backend is asked: the dialects, each one data and a pure function or two in its own file.

The gateway logs what it leaves out of a request if that changes the answer. Where the request means
nothing without it, the request is refused (400, naming the param).
"""

from __future__ import annotations

import logging
import pkgutil
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from msgspec import Raw

import gateway.dialects
from gateway.logs import ThrottledWarnings
from gateway.upstream.flat_tools import FlatTools
from gateway.upstream.history.additional_tools import ADDITIONAL, gathered
from gateway.upstream.history.makers import readable_items
from gateway.upstream.history.replay import replay_items
from gateway.upstream.omissions import field_left_out
from gateway.upstream.refused.request import Refusal, without
from gateway.upstream.restored_names import RestoredNames
from lanes.codec import encode
from lanes.errors import ClientFault, unreadable_compaction
from lanes.history.entries import COMPACTION
from lanes.history.makers import MARK, PACKED, Maker

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from gateway.upstream.converter import Converter
    from gateway.upstream.history.replay_form import ReplayForm
    from gateway.upstream.token_counters import TokenCounter
    from lanes.stream.profile import Profile

#: Stands for a dialect that the gateway has to detect.
AUTO: Final = "auto"
#: Throttled: what a backend does not take is asked for again with every request.
NOTICES: Final = ThrottledWarnings(logging.getLogger("multilane.dialect"), every=600.0)
#: The gateway owns the state: it sends the whole input itself, and the backend stores nothing and
#: runs nothing that nobody reads.
_STATE_KEYS = frozenset({"background", "input", "previous_response_id", "store", "stream"})
#: Keys of the reference that few other backends know.
NEWER_KEYS: Final = frozenset(
    {"client_metadata", "moderation", "image", "access_programs", "multi_agent"}
)


@dataclass(frozen=True, slots=True)
class Dialect:
    """One backend's way of speaking the Responses API.

    Attributes:
        name: The name of its file in `gateway/dialects`.
        profile: How far its stream can be trusted.
        path: The path below the base URL.
        auth_header: The header that carries the key.
        auth_scheme: What comes before the key in that header.
        keys: The request keys it takes; None for any.
        drops: Keys it ignores, or refuses whatever their value.
        refuses: What it refuses in finished requests; what it turns out to refuse is added (D42).
        knows: Those of `NEWER_KEYS` that it takes; others refuse them, or ignore them silently.
        keeps_nulls: Whether a null the client sent is sent on; else the key is left out.
        tools: The types of tools it takes; None for any.
        namespaces: Whether it takes tools in namespaces; else it gets them by flat names.
        conversations: Whether it keeps conversations.
        replay: How the input takes the form the backend reads; None sends items as they are.
        shape: Has the last word on the request.
        converter: Makes the reader of a body that is no stream of Responses events, from the
            client's body, the backend as a maker of items, its profile and the input:
            understanding the answer may take the question.
        compacts: Whether the service itself compacts histories (protocol.md 9).
        counter: How it counts the tokens of a request; None if it does not.
        websocket_lanes: How many responses run at a time on one WebSocket of it: 0 if it speaks
            none, 1 if it knows no `stream_id`.
        hosts: Host names (or their ends, from a dot on) of the service; detection reads these
            four.
        marks: What its list of models or its `server` header calls it.
        traces: Headers that only its own answers have, and proxies pass on.
        ids: A pattern of the ids in its answers: the response's and its items', joined by blanks.
    """

    name: str
    profile: Profile
    path: str = "/responses"
    auth_header: str = "authorization"
    auth_scheme: str = "Bearer "
    keys: frozenset[str] | None = None
    drops: frozenset[str] = frozenset()
    refuses: frozenset[Refusal] = frozenset()
    knows: frozenset[str] = frozenset()
    keeps_nulls: bool = True
    tools: frozenset[str] | None = None
    namespaces: bool = False
    conversations: bool = False
    replay: ReplayForm | None = None
    shape: Callable[[dict[str, Any]], dict[str, Any]] | None = None
    converter: Callable[..., Converter] | None = None
    compacts: bool = False
    counter: TokenCounter | None = None
    websocket_lanes: int = 0
    hosts: tuple[str, ...] = ()
    marks: tuple[str, ...] = ()
    traces: tuple[str, ...] = ()
    ids: str | None = None

    def request(
        self, body: Mapping[str, Any], items: Sequence[bytes], maker: Maker | None = None
    ) -> bytes:
        """Return the JSON of the request: the client's settings and the whole effective input.

        Args:
            body: The client's request.
            items: The whole effective input, each item as JSON.
            maker: The backend, which gets back what only it can read.

        Raises:
            ClientFault: The backend could not make sense of it.
        """
        maker = maker or Maker("", "")
        if maker.reasoning_key or any(MARK in item or PACKED in item for item in items):
            items = readable_items(items, maker, marked=self.converter is not None)
        if not self.namespaces:
            if any(ADDITIONAL in item for item in items):
                body, items = gathered(body, items)
            flat = FlatTools(body.get("tools"))
            body, items = flat.body(body), flat.items(items)
        # A conversation is the backend's own state, so the backend has to store what belongs to it.
        store = body.get("store", True) if body.get("conversation") is not None else False
        settings = _settings(self, body, maker)
        whole = {**settings, **self._input(body, items), "stream": True}
        if self.keys is None or "store" in self.keys:
            whole["store"] = store
        if self.shape is not None:
            whole = self.shape(whole)
        return encode(without(whole, self.refuses) if self.refuses else whole)

    def reader(
        self,
        body: Mapping[str, Any],
        maker: Maker | None = None,
        profile: Profile | None = None,
        history: Sequence[bytes] = (),
    ) -> Converter | None:
        """Return what reads the answer to a request; None if it needs no change.

        Args:
            body: The request.
            maker: The backend, as the maker of items.
            profile: What the operator says of it; None for the dialect's own.
            history: The whole effective input, each item as JSON.
        """
        maker, profile, make = maker or Maker("", ""), profile or self.profile, self.converter
        if not self.namespaces and any(ADDITIONAL in item for item in history):
            body, _ = gathered(body, history)
        flat = None if self.namespaces else FlatTools(body.get("tools"))
        if flat is None or not flat.names:
            return None if make is None else make(body, maker, profile, history)
        inner = None if make is None else make(flat.body(body), maker, profile, history)
        return RestoredNames(flat.names, inner)

    def auth(self, key: str) -> dict[str, str]:
        """Return the header that shows `key`."""
        return {self.auth_header: f"{self.auth_scheme}{key}"}

    def is_home(self, url: str) -> bool:
        """Return whether a URL is the service's own, and not one of its look-alikes'."""
        host = urlsplit(url).hostname or ""
        return any(host == name or (name[0] == "." and host.endswith(name)) for name in self.hosts)

    def _input(self, body: Mapping[str, Any], items: Sequence[bytes]) -> dict[str, Any]:
        given = body.get("input")
        if len(items) == 1 and isinstance(given, str):
            return {"input": given}  # nothing came before it, so it goes as the client sent it
        if not items and "input" not in body:
            return {}
        if self.replay is None:
            return {"input": [Raw(item) for item in items]}
        kept, left_out = replay_items(items, self.replay)
        if COMPACTION in left_out:
            raise unreadable_compaction()
        if left_out:
            line = f"{self.name} takes no input item of type {left_out[0]:.64}; left out"
            NOTICES.warning(f"{self.name} items", line)
        return {"input": kept}


def find(name: str) -> Dialect:
    """Return DIALECT of `gateway/dialects/NAME.py`. Raises ImportError if there is no such file."""
    dialect: Dialect = import_module(f"gateway.dialects.{name}").DIALECT
    return dialect


def dialect_names() -> list[str]:
    """Return the names of the modules in `gateway/dialects`, without importing them."""
    names = [module.name for module in pkgutil.iter_modules(gateway.dialects.__path__)]
    return sorted(name for name in names if not name.startswith("_"))


def check_transport(transport: str, dialect: str | None) -> None:
    """Raise ValueError if backends of this dialect do not speak over this transport."""
    if transport != "websocket" or dialect in (None, AUTO):
        return  # the backend checks again once it has detected a dialect
    if not find(dialect).websocket_lanes:
        speaking = [name for name in dialect_names() if find(name).websocket_lanes]
        raise ValueError(
            f"backends of dialect {dialect} do not speak over WebSocket; "
            f"those of {', '.join(speaking)} do"
        )


def _settings(dialect: Dialect, body: Mapping[str, Any], maker: Maker) -> dict[str, Any]:
    """Return all of the client's settings that the backend takes. Raises ClientFault.

    Args:
        dialect: How the backend is asked.
        body: The client's request.
        maker: The backend.
    """
    if body.get("conversation") is not None and not dialect.conversations:
        raise ClientFault(
            "Conversation not found: its id is none of this gateway's, and the backend keeps none.",
            code="conversation_not_found",
            status=404,
            param="conversation",
        )
    kept: dict[str, Any] = {}
    for key, value in body.items():
        if key in _STATE_KEYS or (value is None and not dialect.keeps_nulls):
            continue
        if _takes(dialect, key):
            kept[key] = value
        else:
            field_left_out(maker.place(dialect.name), key, value)
    return kept if dialect.tools is None else _without_tools(dialect, dialect.tools, kept)


def _takes(dialect: Dialect, key: str) -> bool:
    if key in dialect.drops or (key in NEWER_KEYS and key not in dialect.knows):
        return False
    return dialect.keys is None or key in dialect.keys


def _without_tools(dialect: Dialect, taken: frozenset[str], kept: dict[str, Any]) -> dict[str, Any]:
    """Leave out the tools of other types; a choice must still be one of the tools that remain."""
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
    kinds = ", ".join(sorted({*left_out}))
    line = f"{dialect.name} takes no tool of type {kinds:.256}; left out"
    NOTICES.warning(f"{dialect.name} tools", line)
    bare = {key: value for key, value in kept.items() if key not in ("tools", "tool_choice")}
    return kept | {"tools": tools} if tools else bare


def _kind(tool: object) -> str:
    kind = tool.get("type") if isinstance(tool, dict) else None
    return kind if isinstance(kind, str) else ""
