"""How a backend wants to be asked: data, and a pure function or two, one file a backend."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

from msgspec import Raw

from lanes.codec import decode, encode

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from lanes.profile import Profile

#: The gateway owns the state: it sends the whole input itself, and the backend stores nothing.
_STATE_KEYS = frozenset({"input", "previous_response_id", "store", "stream"})


@dataclass(frozen=True, slots=True)
class Dialect:
    """One backend's way of speaking the Responses API.

    `path` follows the base URL; `auth_header` and `auth_scheme` carry the key. `keeps_nulls`: a
    null the client sent is sent on; else it is left out. `replay` brings an item of the input into
    the form that the backend takes, None leaves the item out; without it items go as they are.
    """

    name: str
    profile: Profile
    path: str = "/responses"
    auth_header: str = "authorization"
    auth_scheme: str = "Bearer "
    keeps_nulls: bool = True
    replay: Callable[[dict[str, Any]], dict[str, Any] | None] | None = None

    def request(self, body: Mapping[str, Any], items: Sequence[bytes]) -> bytes:
        """The JSON of the request: the client's keys and values, and the whole effective input."""
        kept = {
            key: value
            for key, value in body.items()
            if key not in _STATE_KEYS and (self.keeps_nulls or value is not None)
        }
        # A conversation is the backend's own state, and it must be let store what belongs to it.
        store = body.get("store", True) if body.get("conversation") is not None else False
        whole = self._input(body, items)
        return encode({**kept, **whole, "stream": True, "store": store})

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
