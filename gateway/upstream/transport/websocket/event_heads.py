"""What must be known of an upstream's event before it is handed on, read from its JSON. Pure."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from lanes.codec import decode_lenient
from lanes.stream.passthrough import BEGINNINGS, TERMINALS

#: Ends that a successor may follow.
FOLLOWED = frozenset({"response.completed", "response.incomplete"})
STEERS = frozenset({f"response.steer.{told}" for told in ("accepted", "pending", "failed")})
NOTABLE = BEGINNINGS | TERMINALS | STEERS | {"error"}

#: The socket has as many lanes, or responses, as the upstream takes there.
TOO_MANY_LANES = "websocket_stream_limit_reached"
TOO_MANY_WAIT = "too_many_queued_responses"
#: The socket takes no more creates, and says so on the lane of one: that one goes elsewhere.
MOVE_ON = frozenset(
    {
        "websocket_connection_limit_reached",
        TOO_MANY_LANES,
        TOO_MANY_WAIT,
        "server_shutting_down",
    }
)


_TYPE = re.compile(rb'(?<!\\)"type"\s*:\s*"([a-z_.]+)"')
_STRING = re.compile(rb'"(?:[^"\\]|\\.)*"')
_LANE = re.compile(rb'(?<!\\)"stream_id"\s*:\s*"([A-Za-z0-9_.-]+)"')


class EventHead(msgspec.Struct, gc=False):
    """Where an event goes; a lane that is no string is one that nobody has."""

    type: str | None = None
    stream_id: str | None = None


class _Named(msgspec.Struct):
    id: Any = None
    previous_response_id: Any = None


class _Beginning(msgspec.Struct):
    response: _Named


_head = msgspec.json.Decoder(EventHead).decode
_beginning = msgspec.json.Decoder(_Beginning).decode


def head(message: bytes) -> EventHead:
    """Read an event's type and lane. Raises ValueError if it is no JSON object."""
    try:
        return _head(message)
    except (msgspec.DecodeError, RecursionError):
        event = decode_lenient(message)
        if not isinstance(event, dict):
            raise ValueError("no object") from None
        lane = event.get("stream_id")
        return EventHead(_string(event.get("type")), None if lane is None else _string(lane) or "")


def names(message: bytes) -> tuple[str | None, str | None]:
    """The ids of the response that begins and of the one it continues."""
    try:
        named = _beginning(message).response
    except (msgspec.DecodeError, RecursionError):
        return None, None
    return _string(named.id), _string(named.previous_response_id)


def event(message: bytes) -> dict[str, Any]:
    """The whole of an event that `head` has read."""
    found: dict[str, Any] = decode_lenient(message)
    return found


def edges(first: bytes, last: bytes) -> tuple[str, str]:
    """The type and lane of an event of which only the two ends are there; empty if not found.

    Quotes within a string are escaped, so what looks like a key is one.
    """
    return _own(_TYPE, first, last), _own(_LANE, first, last)


def _own(key: re.Pattern[bytes], first: bytes, last: bytes) -> str:
    """What the event itself has there, and nothing within it, such as a client's metadata."""
    for found in key.finditer(first):
        if _depth(first[: found.start()]) == 1:
            return found[1].decode()
    for found in key.finditer(last):
        if _depth(last[found.end() :]) == -1:
            return found[1].decode()
    return ""


def _depth(text: bytes) -> int:
    """How many more objects and lists open in it than close; it begins outside of strings."""
    bare = _STRING.sub(b"", text)
    return sum(map(bare.count, (b"{", b"["))) - sum(map(bare.count, (b"}", b"]")))


def moves_on(told: dict[str, Any]) -> bool:
    """Whether an error event is the socket's, which takes no more creates."""
    code = error(told).get("code")
    return isinstance(code, str) and code in MOVE_ON


def error(told: dict[str, Any]) -> dict[str, Any]:
    """What an error event tells, nested or flat."""
    nested = told.get("error")
    return nested if isinstance(nested, dict) else told


def about_steering(told: dict[str, Any]) -> bool:
    """Whether an error event is about a `response.steer`, of which the upstream knows nothing."""
    said = error(told)
    words = f"{said.get('code')} {said.get('message')}"
    return said.get("param") == "type" or "response.steer" in words or "steering" in words


def _string(value: object) -> str | None:
    return value if isinstance(value, str) and value else None
