"""How a backend wants to be asked: data, and a pure function or two, one file a backend."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol

from msgspec import Raw

from lanes.codec import decode, encode

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from lanes.ports import Event
    from lanes.profile import Profile

#: The gateway owns the state: it sends the whole input itself, and the backend stores nothing.
_STATE_KEYS = frozenset({"input", "previous_response_id", "store", "stream"})


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
    request's keys that it takes, None for any; `keeps_nulls`: a null the client sent is sent on,
    else it is left out. `replay` brings an item of the input into the form that the backend takes,
    None leaves the item out; without it items go as they are. `shape` has the last word on the
    request, `converter` makes what reads a body that is no stream of Responses events; it is given
    the client's body, for an answer may need the question to be understood.

    `hosts` are the names (or their ends, from a dot on) under which it is run as a service, `marks`
    what its list of models or its `server` header calls it: how `auto` knows it.
    """

    name: str
    profile: Profile
    path: str = "/responses"
    auth_header: str = "authorization"
    auth_scheme: str = "Bearer "
    keys: frozenset[str] | None = None
    keeps_nulls: bool = True
    replay: Callable[[dict[str, Any]], dict[str, Any] | None] | None = None
    shape: Callable[[dict[str, Any]], dict[str, Any]] | None = None
    converter: Callable[[Mapping[str, Any]], Converter] | None = None
    hosts: tuple[str, ...] = ()
    marks: tuple[str, ...] = ()

    def request(self, body: Mapping[str, Any], items: Sequence[bytes]) -> bytes:
        """The JSON of the request: the client's keys and values, and the whole effective input."""
        kept = {
            key: value
            for key, value in body.items()
            if key not in _STATE_KEYS
            and (self.keys is None or key in self.keys)
            and (self.keeps_nulls or value is not None)
        }
        # A conversation is the backend's own state, and it must be let store what belongs to it.
        store = body.get("store", True) if body.get("conversation") is not None else False
        whole = {**kept, **self._input(body, items), "stream": True, "store": store}
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
        replayed = (self.replay(decode(item)) for item in items)
        return {"input": [item for item in replayed if item is not None]}


def find(name: str) -> Dialect:
    """The dialect of that name: DIALECT in `gateway/dialects/NAME.py`. Raises ImportError."""
    dialect: Dialect = import_module(f"gateway.dialects.{name}").DIALECT
    return dialect
