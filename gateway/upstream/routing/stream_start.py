"""How a stream begins, while another request could still take its place (D23)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from gateway.upstream.history.refused_items import refused_part
from gateway.upstream.transport.faults import backend_fault
from lanes.codec import decode_lenient
from lanes.stream.backend_errors import ERROR_CODES, is_error_event, reported_fault
from lanes.stream.passthrough import BEGINNINGS
from lanes.stream.upstream_events import says_something

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gateway.upstream.backend import PeekableStream
    from lanes.errors import UpstreamFault
    from lanes.ports import Event

#: Codes of a `response.failed` that are the backend's trouble; others are about the request.
_TROUBLES: Final = frozenset({"server_error", "rate_limit_exceeded"})
_EMPTY: Final = "The backend ended its answer before it said anything."


async def fault_at_start(stream: PeekableStream, *, last: bool) -> UpstreamFault | None:
    """Wait for the first events of a stream, and return the fault that they are, if they are one.

    Args:
        stream: The stream.
        last: Nobody else could step in, so the only fault that counts is a part of the history that
            the backend refuses.
    """
    events = await stream.first(says_something)
    if not events:
        return None if last else backend_fault(_EMPTY)
    meant = [event for event in events if says_something(event)]
    fault = _refusal(meant)
    return fault if fault is not None or last else _trouble(meant)


def passes(fault: UpstreamFault) -> bool:
    """Return whether another upstream may do better; any other 4xx is about the request."""
    return fault.status in (408, 429) or fault.status >= 500


def _trouble(events: Sequence[Event]) -> UpstreamFault | None:
    """Return why another upstream may do better, if it may."""
    fault = _fault_in(events[0]) if events else None
    if fault is None or fault.code in ERROR_CODES - _TROUBLES:
        return None
    return fault if passes(fault) else None


def _refusal(events: Sequence[Event]) -> UpstreamFault | None:
    """Return the fault of a part of the history that is refused, perhaps after a beginning."""
    for event in events:
        fault = _fault_in(event)
        if fault is not None:
            return fault if refused_part(fault) is not None else None
        if (_read(event).get("type") or event[0]) not in BEGINNINGS:
            return None
    return None


def _fault_in(event: Event) -> UpstreamFault | None:
    """Return the fault that an event reports, if it reports one."""
    value = _read(event)
    kind = value.get("type") or event[0]
    if kind == "response.failed":
        response = value.get("response")
        value = {"error": response.get("error") if isinstance(response, dict) else None}
    elif not is_error_event(event[0], str(kind or ""), value):
        return None
    return reported_fault(value)


def _read(event: Event) -> dict[str, Any]:
    try:
        value = decode_lenient(event[1])
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}
