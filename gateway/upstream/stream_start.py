"""What a stream says first, while another request could still take its place (D23, D42). Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from gateway.upstream.history.refused_items import refused_part
from gateway.upstream.transport.faults import backend_fault
from lanes.codec import decode_lenient
from lanes.stream.backend_errors import ERROR_CODES, is_error_event, reported_fault
from lanes.stream.passthrough import BEGINNINGS
from lanes.stream.upstream_events import says_something

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lanes.errors import UpstreamFault
    from lanes.ports import Event

#: Codes of a `response.failed` that are the backend's trouble; others are about the request.
_TROUBLES: Final = frozenset({"server_error", "rate_limit_exceeded"})
_EMPTY: Final = "The backend ended its answer before it said anything."


@dataclass(frozen=True, slots=True)
class StreamStart:
    """The first events of a stream, as far as others may be asked for in their place.

    Attributes:
        empty: The stream ended without any event.
        fault: The error that it begins with, perhaps behind `response.created`.
        begun: Whether something came before that error.
    """

    empty: bool = False
    fault: UpstreamFault | None = None
    begun: bool = False

    def reason(self, *, last: bool) -> UpstreamFault | None:
        """Return why the stream is not relayed, if another request could do better.

        Args:
            last: Nobody else could step in, so the only fault that counts is a part of the history
                that the backend refuses.
        """
        if self.fault is not None and refused_part(self.fault) is not None:
            return self.fault
        if last:
            return None
        return backend_fault(_EMPTY) if self.empty else self._trouble()

    def _trouble(self) -> UpstreamFault | None:
        """Return the fault that another upstream may not have."""
        fault = self.fault
        if fault is None or self.begun or fault.code in ERROR_CODES - _TROUBLES:
            return None
        return fault if passes(fault) else None


def start_of(events: Sequence[Event]) -> StreamStart:
    """Return what the first events of a stream say."""
    meant = [event for event in events if says_something(event)]
    for at, event in enumerate(meant):
        fault, kind = _read(event)
        if fault is not None:
            return StreamStart(fault=fault, begun=at > 0)
        if kind not in BEGINNINGS:
            break
    return StreamStart(empty=not events)


def passes(fault: UpstreamFault) -> bool:
    """Return whether another upstream may do better; any other 4xx is about the request."""
    return fault.status in (408, 429) or fault.status >= 500


def _read(event: Event) -> tuple[UpstreamFault | None, str]:
    """Return the fault that an event reports, if it reports one, and the event's kind."""
    name, data = event
    try:
        decoded = decode_lenient(data)
    except ValueError:
        decoded = None
    value: dict[str, Any] = decoded if isinstance(decoded, dict) else {}
    kind = str(value.get("type") or name or "")
    if kind == "response.failed":
        response = value.get("response")
        failed = {"error": response.get("error") if isinstance(response, dict) else None}
        return reported_fault(failed), kind
    if is_error_event(name, kind, value):
        return reported_fault(value), kind
    return None, kind
