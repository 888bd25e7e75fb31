"""How a backend wants to be asked: data, and a pure function or two, one file a backend."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol

from msgspec import Raw

from gateway.upstream.history.replay import replayed
from gateway.upstream.request_settings import NOTICES, settings
from lanes.codec import encode

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from gateway.upstream.history.replay import Replay
    from lanes.ports import Event
    from lanes.stream.profile import Profile


class Converter(Protocol):
    """Turns one body's events into those of the Responses API, in order."""

    def feed(self, events: list[Event]) -> list[Event]:
        """Convert the events of one read."""

    def finish(self) -> list[Event]:
        """The body has ended: what is still owed."""


@dataclass(frozen=True, slots=True)
class Dialect:
    """One backend's way of speaking the Responses API.

    `path` follows the base URL; `auth_header` and `auth_scheme` carry the key. `keys` are the
    request's keys that it takes, None for any; `drops` those that it does nothing about, or refuses
    whatever their value; `keeps_nulls`: a null the client sent is sent on, else it is left out.
    `tools` are the types of tools that it takes, None for any; `conversations`: it keeps them.
    `replay` brings the input into the form that the backend takes; without it items go as they are.
    `shape` has the last word on the request, `converter` makes what reads a body that is no stream
    of Responses events; it is given the client's body, for an answer may need the question to be
    understood. `websocket_lanes` are the responses that run at a time on a WebSocket of it: 0 if it
    speaks none, 1 if it knows no `stream_id`.

    `hosts` are the names (or their ends, from a dot on) under which it is run as a service, `marks`
    what its list of models or its `server` header calls it, `ids` a pattern of the ids in its
    answers, that of the response and those of its items with blanks between: how `auto` knows it.
    """

    name: str
    profile: Profile
    path: str = "/responses"
    auth_header: str = "authorization"
    auth_scheme: str = "Bearer "
    keys: frozenset[str] | None = None
    drops: frozenset[str] = frozenset()
    keeps_nulls: bool = True
    tools: frozenset[str] | None = None
    conversations: bool = False
    replay: Replay | None = None
    shape: Callable[[dict[str, Any]], dict[str, Any]] | None = None
    converter: Callable[[Mapping[str, Any]], Converter] | None = None
    websocket_lanes: int = 0
    hosts: tuple[str, ...] = ()
    marks: tuple[str, ...] = ()
    ids: str | None = None

    def request(self, body: Mapping[str, Any], items: Sequence[bytes]) -> bytes:
        """The JSON of the request: the client's keys and values, and the whole effective input.

        Raises ClientFault where the backend could make nothing of it.
        """
        # A conversation is the backend's own state, and it must be let store what belongs to it.
        store = body.get("store", True) if body.get("conversation") is not None else False
        whole = {**settings(self, body), **self._input(body, items), "stream": True}
        if self.keys is None or "store" in self.keys:
            whole["store"] = store
        return encode(whole if self.shape is None else self.shape(whole))

    def auth(self, key: str) -> dict[str, str]:
        """The header that shows the gateway's key."""
        return {self.auth_header: f"{self.auth_scheme}{key}"}

    def _input(self, body: Mapping[str, Any], items: Sequence[bytes]) -> dict[str, Any]:
        given = body.get("input")
        if len(items) == 1 and isinstance(given, str):
            return {"input": given}  # nothing came before it, so it goes as the client sent it
        if not items and "input" not in body:
            return {}
        if self.replay is None:
            return {"input": [Raw(item) for item in items]}
        kept, left_out = replayed(items, self.replay)
        if left_out:
            line = f"{self.name} takes no input item of type {left_out[0]:.64}; left out"
            NOTICES.warning(f"{self.name} items", line)
        return {"input": kept}


def find(name: str) -> Dialect:
    """The dialect of that name: DIALECT in `gateway/dialects/NAME.py`. Raises ImportError."""
    dialect: Dialect = import_module(f"gateway.dialects.{name}").DIALECT
    return dialect
