"""What a tenant is told that is at a limit: the reference's code, and when to try again. Pure."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from gateway.limits.store import WINDOW
from lanes.errors import ClientFault, UpstreamFault

if TYPE_CHECKING:
    from gateway.limits.limits import Limits
    from gateway.limits.store import Standing

#: Seconds until another try where nobody can know when there is room.
_ROOM: Final = 1
_STORE: Final = 5
#: Seconds until another try where nothing is allowed, which only an operator changes.
_NEVER: Final = 60


def no_connection(tenant: str, limits: Limits) -> ClientFault:
    """Return why a tenant may open no further WebSocket."""
    limit = limits.connections or 0
    may = f"have {limit} open at a time" if limit else "open none, as its limit is 0"
    message = f"Too many connections: {_who(tenant)} may {may}."
    headers = {"retry-after": str(_STORE if limit else _NEVER)}
    return ClientFault(message, code="too_many_connections", status=429, headers=headers)


def no_create(tenant: str, limits: Limits, standing: Standing) -> ClientFault:
    """Return why a create of a tenant is refused, by the limit that holds for the longest.

    Args:
        tenant: Whose it is.
        limits: Its limits.
        standing: What the tenant uses.
    """
    reasons = [
        _running(limits.running, standing.running),
        _a_minute("creates", limits.creates, standing.creates),
        _a_minute("tokens", limits.tokens, standing.tokens),
    ]
    wait, why = max(reason for reason in reasons if reason is not None)
    return ClientFault(
        f"Rate limit reached: {_who(tenant)} {why}. Please try again in {wait}s.",
        code="rate_limit_exceeded",
        status=429,
        type="rate_limit_error",
        headers={"retry-after": str(wait), **_numbers(limits, standing)},
    )


def cannot_tell() -> UpstreamFault:
    """Return why nobody with limits is let in while the store is away."""
    return UpstreamFault(
        "The limits of this API key cannot be checked now: the store is not available.",
        code="store_unavailable",
        status=503,
        type="server_error",
        headers={"retry-after": str(_STORE)},
    )


def _who(tenant: str) -> str:
    """Return what a message calls a tenant; keys without a name have only an id."""
    name = tenant.removeprefix("tenant-")
    return f"tenant '{name}'" if name != tenant else "this API key"


def _running(limit: int | None, used: int) -> tuple[int, str] | None:
    if limit is None or used < limit:
        return None
    if limit == 0:
        return _NEVER, "may run no responses: its limit is 0"
    return _ROOM, f"runs {limit} responses at a time, the most that it may"


def _a_minute(what: str, limit: int | None, used: float) -> tuple[int, str] | None:
    if limit is None:
        return None
    if limit == 0:
        return _NEVER, f"may have no {what}: its limit is 0 a minute"
    over = used - limit + (1 if what == "creates" else 0)
    if over <= 0 and (what == "creates" or used < limit):
        return None
    return max(1, math.ceil(over * WINDOW / limit)), f"is at its limit of {limit} {what} a minute"


def _numbers(limits: Limits, standing: Standing) -> dict[str, str]:
    """Return the headers of the reference about requests and tokens, as far as these are bound."""
    named = (
        ("requests", limits.creates, standing.creates),
        ("tokens", limits.tokens, standing.tokens),
    )
    headers = {}
    for name, limit, used in named:
        if limit is not None:
            headers[f"x-ratelimit-limit-{name}"] = str(limit)
            headers[f"x-ratelimit-remaining-{name}"] = str(max(0, int(limit - used)))
            reset = math.ceil(used * WINDOW / limit) if limit else _NEVER
            headers[f"x-ratelimit-reset-{name}"] = f"{reset}s"
    return headers
