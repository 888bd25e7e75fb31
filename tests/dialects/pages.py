"""What a vendor's page promises, held against what a client gets: event by event, key by key."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from tests.support.dialect_reading import check, read
from tests.support.gateway_stand import stand
from tests.support.tape_mutations import render

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from lanes.stream.profile import Profile
    from tests.machines.drive import Played

Event = dict[str, Any]

#: Keys that are the gateway's own in every event (protocol.md 4).
OURS = {"sequence_number", "item_id", "item.id", "response.id", "response.output.*.id"}


def pretty(events: Iterable[Event], line_end: str = "\n") -> bytes:
    """A body as pages print it: the JSON over many lines, each a `data:` line."""
    blocks = []
    for event in events:
        lines = json.dumps(event, indent=2, ensure_ascii=False).splitlines()
        blocks.append("".join(f"{line}{line_end}" for line in _framed(event, lines)) + line_end)
    return "".join(blocks).encode()


def _framed(event: Event, lines: list[str]) -> Iterator[str]:
    yield f"event: {event['type']}"
    yield from (f"data: {line}" for line in lines)


def numbered(events: Iterable[Event], first: int = 0) -> list[Event]:
    """The events with numbers from `first` on."""
    return [{**event, "sequence_number": n} for n, event in enumerate(events, first)]


def sent(events: Iterable[Event], profile: Profile, request: Event | None = None) -> Played:
    """What a client gets of these events, judged."""
    request = {"model": "m", "input": "hi", "store": False} if request is None else request
    played = read([render(events)], profile, request)
    check(played)
    return played


def differences(original: Event, got: Event) -> set[str]:
    """The keys of an event that did not arrive with their value, written as paths."""
    return set(_differences(original, got, ""))


def _differences(original: Any, got: Any, path: str) -> Iterator[str]:
    if isinstance(original, dict) and isinstance(got, dict):
        for key, value in original.items():
            place = f"{path}.{key}" if path else key
            yield from _differences(value, got[key], place) if key in got else (place,)
    elif isinstance(original, list) and isinstance(got, list) and len(original) == len(got):
        for one, other in zip(original, got, strict=True):
            yield from _differences(one, other, f"{path}.*")
    elif original != got or type(original) is not type(got):
        yield path


#: Bodies of refusals by status: what is said, and what comes of it as (code, type, message, param).
OPENAI = {"message": "no", "type": "t", "code": "c", "param": "p"}
SHAPES: dict[str, tuple[Any, tuple[str | None, str | None, str, str | None]]] = {
    "openai": ({"error": OPENAI}, ("c", "t", "no", "p")),
    "openai with nulls": (
        {"error": {"message": "no", "type": None, "code": None, "param": None}},
        (None, None, "no", None),
    ),
    "openai with the status as code": (
        {"error": {"message": "no", "code": 418}},
        (None, None, "no", None),
    ),
    "flat": (OPENAI, ("c", "t", "no", "p")),
    "detail": ({"detail": "no"}, (None, None, "no", None)),
    "detail list": (
        {"detail": [{"loc": ["body", "temperature"], "msg": "too high", "type": "less_than"}]},
        (None, None, "body.temperature: too high", None),
    ),
    "detail of two": (
        {"detail": [{"loc": ["body", 0], "msg": "one"}, {"msg": "two"}]},
        (None, None, "body.0: one; two", None),
    ),
    "detail object": ({"detail": {"message": "no"}}, (None, None, '{"message":"no"}', None)),
    "message": ({"message": "no"}, (None, None, "no", None)),
    "error string": ({"error": "no"}, (None, None, "no", None)),
    "text": (b"no", (None, None, "no", None)),
}
HEADERS = {
    "retry-after": "7",
    "x-request-id": "req-1",
    "x-ratelimit-limit-requests": "10",
    "set-cookie": "secret=1",
    "server": "s",
}
KEPT = {name: value for name, value in HEADERS.items() if name.startswith(("x-", "retry"))}
#: Where the body leaves them out.
DEFAULTS = {
    400: ("invalid_request_error", "invalid_request_error"),
    401: ("invalid_api_key", "authentication_error"),
    422: ("invalid_request_error", "invalid_request_error"),
    429: ("rate_limit_exceeded", "rate_limit_error"),
    500: ("server_error", "server_error"),
}


def error(status: int, shape: str) -> Event:
    """The `error` event that a refusal of that shape becomes."""
    code, kind, message, param = SHAPES[shape][1]
    default_code, default_kind = DEFAULTS[status]
    original: Event = {"type": kind or default_kind, "code": code or default_code}
    original |= {"message": message, "param": param, "headers": KEPT}
    return {"type": "error", "status": status, "stream_id": "a", "error": original}


async def refusals(dialect: str, statuses: Mapping[int, object]) -> None:
    """Have every status in every shape come through a running gateway, on one lane."""
    async with stand(dialect=dialect) as on:
        for status in statuses:
            for shape, (body, _) in SHAPES.items():
                exchange = await on.asked("a")
                await exchange.reply(status, body, HEADERS)
                assert await on.client.error("a") == error(status, shape), (status, shape)
        await on.usable("a")
