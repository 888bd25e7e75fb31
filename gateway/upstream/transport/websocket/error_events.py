"""The `error` event of a backend -> the fault of the create that it answers. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gateway.upstream.transport.faults import (
    SocketFull,
    TransientAnswer,
    answer_fault,
    backend_fault,
    copy_fault,
)
from gateway.upstream.transport.retries import MOMENT
from gateway.upstream.transport.websocket.event_heads import error_fields, is_socket_limit
from lanes.stream.backend_errors import reported_fault

if TYPE_CHECKING:
    from lanes.errors import UpstreamFault


def error_event_fault(event: dict[str, Any], message: bytes, waited: float = 0.0) -> UpstreamFault:
    """Return the fault of an `error` event.

    A limit of the socket is not the client's: a create that meets it on every socket gets 503, as
    from a busy backend (D25). A create that it refused costs no retry.

    Args:
        event: The event.
        message: Its JSON.
        waited: Seconds since the create was sent, if the event does not name it. After a moment it
            may have been begun, so it is no longer taken for refused (D28).
    """
    full = SocketFull if waited <= MOMENT else TransientAnswer
    fields = error_fields(event).get("headers") or event.get("headers")
    headers = {
        name.lower(): str(value)
        for name, value in (fields.items() if isinstance(fields, dict) else ())
        if isinstance(value, str | int | float)
    }
    fault = answer_fault(reported_fault(event).status, headers, message)
    if not is_socket_limit(event):
        return fault
    if fault.status < 500:
        text = f"The backend's socket takes no more responses ({fault.code})."
        return backend_fault(text, status=503, kind=full)
    return copy_fault(fault, full)
