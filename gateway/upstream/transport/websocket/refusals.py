"""What an upstream's error event is to a create that waits. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gateway.upstream.transport.faults import SocketFull, another, refusal, unreachable
from gateway.upstream.transport.websocket.event_heads import error, moves_on
from lanes.stream.backend_errors import reported

if TYPE_CHECKING:
    from lanes.errors import UpstreamFault


def refused(told: dict[str, Any], message: bytes) -> UpstreamFault:
    """The fault of an `error` event, `message` being its JSON.

    A limit of the socket's is none of the client's: whoever meets it everywhere is told of a
    backend that is busy.
    """
    said = error(told)
    given = said.get("headers") or told.get("headers")
    headers = {
        str(name).lower(): str(value)
        for name, value in (given.items() if isinstance(given, dict) else ())
    }
    fault = refusal(reported(told).status, headers, message)
    if not moves_on(told):
        return fault
    if fault.status < 500:
        text = f"The backend's socket takes no more responses ({fault.code})."
        return unreachable(text, status=503, kind=SocketFull)
    return another(fault, SocketFull)
