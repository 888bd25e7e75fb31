"""The parts of an event that decide where it goes, read from its JSON. Pure."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from lanes.codec import decode_lenient
from lanes.stream.passthrough import BEGINNINGS, TERMINALS

#: Terminal events that a successor may follow.
STEERABLE_ENDS = frozenset({"response.completed", "response.incomplete"})
STEERS = frozenset({f"response.steer.{outcome}" for outcome in ("accepted", "pending", "failed")})
#: Events that change the state of a lane; all others only pass.
NOTABLE = BEGINNINGS | TERMINALS | STEERS | {"error"}

#: Codes of a socket that carries as many lanes, or responses, as the backend accepts there.
TOO_MANY_LANES = "websocket_stream_limit_reached"
TOO_MANY_QUEUED = "too_many_queued_responses"
#: Codes of a socket that accepts no more creates; the create that got one goes to another socket.
SOCKET_LIMITS = frozenset(
    {
        "websocket_connection_limit_reached",
        TOO_MANY_LANES,
        TOO_MANY_QUEUED,
        "server_shutting_down",
    }
)


_TYPE = re.compile(rb'(?<!\\)"type"\s*:\s*"([a-z_.]+)"')
_STRING = re.compile(rb'"(?:[^"\\]|\\.)*"')
_LANE = re.compile(rb'(?<!\\)"stream_id"\s*:\s*"([A-Za-z0-9_.-]+)"')


class EventHead(msgspec.Struct, gc=False):
    """The type and lane of an event; a `stream_id` that is not a string is empty."""

    type: str | None = None
    stream_id: str | None = None


class _ResponseIds(msgspec.Struct):
    id: Any = None
    previous_response_id: Any = None


class _Beginning(msgspec.Struct):
    response: _ResponseIds


_head = msgspec.json.Decoder(EventHead).decode
_beginning = msgspec.json.Decoder(_Beginning).decode


def read_head(message: bytes) -> EventHead:
    """Return an event's type and lane. Raises ValueError if it is not a JSON object."""
    try:
        return _head(message)
    except (msgspec.DecodeError, RecursionError):
        event = decode_lenient(message)
        if not isinstance(event, dict):
            raise ValueError("not an object") from None
        lane = event.get("stream_id")
        return EventHead(_string(event.get("type")), None if lane is None else _string(lane) or "")


def response_ids(message: bytes) -> tuple[str | None, str | None]:
    """Return the id of the response that begins, and of the one that it continues."""
    try:
        ids = _beginning(message).response
    except (msgspec.DecodeError, RecursionError):
        return None, None
    return _string(ids.id), _string(ids.previous_response_id)


def read_event(message: bytes) -> dict[str, Any]:
    """Return the whole of an event that `read_head` has read."""
    event: dict[str, Any] = decode_lenient(message)
    return event


def read_edges(first: bytes, last: bytes) -> tuple[str, str]:
    """Return the type and lane of an event from its two ends; empty where they have none.

    Quotes within a string are escaped, so what looks like a key is one.
    """
    return _top_level(_TYPE, first, last), _top_level(_LANE, first, last)


def _top_level(key: re.Pattern[bytes], first: bytes, last: bytes) -> str:
    """Return the event's own value of the key, not that of an object in it, such as `metadata`."""
    for match in key.finditer(first):
        if _depth(first[: match.start()]) == 1:
            return match[1].decode()
    for match in key.finditer(last):
        if _depth(last[match.end() :]) == -1:
            return match[1].decode()
    return ""


def _depth(text: bytes) -> int:
    """Return how many more objects and lists open than close; the text begins outside a string."""
    bare = _STRING.sub(b"", text)
    return sum(map(bare.count, (b"{", b"["))) - sum(map(bare.count, (b"}", b"]")))


def is_socket_limit(event: dict[str, Any]) -> bool:
    """Return whether an error event says that the socket accepts no more creates."""
    code = error_fields(event).get("code")
    return isinstance(code, str) and code in SOCKET_LIMITS


def error_fields(event: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of an error event, nested or flat."""
    nested = event.get("error")
    return nested if isinstance(nested, dict) else event


def is_about_steering(event: dict[str, Any]) -> bool:
    """Return whether an error event answers a `response.steer` that the backend does not know."""
    error = error_fields(event)
    words = f"{error.get('code')} {error.get('message')}"
    return error.get("param") == "type" or "response.steer" in words or "steering" in words


def _string(value: object) -> str | None:
    return value if isinstance(value, str) and value else None
