"""One lane of a shared socket, from a create until the backend is done with its name (D25)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from gateway.upstream.transport.faults import copy_fault
from gateway.upstream.transport.websocket.error_events import error_event_fault
from gateway.upstream.transport.websocket.event_heads import (
    STEERABLE_ENDS,
    STEERS,
    error_fields,
    is_about_steering,
    is_socket_limit,
    read_event,
    response_ids,
)
from gateway.upstream.transport.websocket.native_steering import NativeSteering
from gateway.upstream.transport.websocket.stream import WebSocketStream
from lanes.codec import encode
from lanes.frames import CANCEL
from lanes.stream.passthrough import BEGINNINGS, TERMINALS

if TYPE_CHECKING:
    from gateway.upstream.transport.websocket.lane_connection import LaneConnection
    from gateway.upstream.transport.websocket.limits import WebSocketLimits
    from lanes.errors import UpstreamFault


class UpstreamLane:
    """Follows the responses that the backend sends under one name.

    A response that nobody wants is cancelled if the backend knows that. Otherwise it continues
    there, its events are dropped, and the name is busy until it ends. The name is also busy while
    the backend may still make a successor.

    Args:
        socket: The socket of the lane.
        name: The `stream_id`; None if the socket has one lane without a name.
        limits: The limits of the socket.
        native: Whether the backend itself can steer the streams.
    """

    def __init__(
        self,
        socket: LaneConnection[UpstreamLane],
        name: str | None,
        limits: WebSocketLimits,
        *,
        native: bool,
    ) -> None:
        self.name = name
        #: Bytes of the create.
        self.size = 0
        self._socket = socket
        self._limits = limits
        self._is_native = native
        self._native: NativeSteering[WebSocketStream] | None = None
        self._expiry: asyncio.TimerHandle | None = None
        self._sent = self._over = False
        # Whether its response has ended and a successor is due.
        self._lingers = False
        self.stream: WebSocketStream | None = self._new_stream()

    def _new_stream(self) -> WebSocketStream:
        stream = WebSocketStream(self._limits, self._abandon)
        if self._is_native:
            self._native = stream.steering = NativeSteering(self, self._limits)
        return stream

    @property
    def wanted(self) -> bool:
        """Whether anybody waits for its events."""
        if self._lingers:
            return self._native is not None and self._native.wanted
        return self.stream is not None

    @property
    def waiting(self) -> bool:
        """Whether its create is sent and its response has not begun."""
        return self.stream is not None and self._sent and not self.stream.begun

    @property
    def steering(self) -> bool:
        """Whether a steer waits for the backend's answer."""
        return self._native is not None and self._native.unanswered

    @property
    def proven(self) -> bool:
        """Whether the backend has begun any response on this socket."""
        return self._socket.proven

    def begin(self, fields: bytes) -> WebSocketStream:
        """Send the create; `fields` is its JSON without the opening brace."""
        assert self.stream is not None, "its stream is not closed yet"
        self._sent = True
        self.size = len(fields)
        self.stream.start()
        lane = b"" if self.name is None else b'"stream_id":"%b",' % self.name.encode()
        self._socket.send(b'{"type":"response.create",%b' % lane, fields)
        return self.stream

    def leave(self) -> None:
        """Free a lane on which no create was sent."""
        if self.stream is not None and not self._sent:
            self.stream.end()
            self._free()

    # -- what the socket calls --

    def note(self, kind: str, message: bytes) -> None:
        """Take an event of one of the NOTABLE kinds."""
        if kind in BEGINNINGS:
            self._on_beginning(message)
        elif kind in TERMINALS:
            self._on_end(kind, message)
        elif kind in STEERS:
            self._on_steer(kind, read_event(message).get("steer"))
        else:
            self._on_error(read_event(message), message)

    def owns_steer(self, steer: object) -> bool:
        """Return whether the steer is one of its response."""
        native = self._native
        target = isinstance(steer, dict) and steer.get("previous_response_id")
        return native is not None and native.id is not None and target == native.id

    def lost(self, fault: UpstreamFault) -> None:
        """End its response, because the socket is closed."""
        self._finish()
        if self.stream is not None:
            self.stream.end(copy_fault(fault))

    def refuse(self, fault: UpstreamFault) -> None:
        """End its response with a fault."""
        if self.stream is not None:
            self.stream.end(copy_fault(fault))
        self.stream = None

    def on_skipped(self, kind: str, fault: UpstreamFault) -> None:
        """Fail its response, because an event of this kind was skipped."""
        if self.stream is not None:
            self.stream.fail(fault)
        if kind in TERMINALS:
            self._free(reusable=False)

    def refuse_steers(self) -> None:
        """Refuse all steers, because the backend does not know them."""
        if self._native is not None:
            self._native.refuse_all()
            self.release_if_done()

    # -- SteeringLane: what its steers call --

    @property
    def takes_steers(self) -> bool:
        """Whether the backend can be sent steers (see `SteeringLane.takes_steers`)."""
        return self._socket.takes_steers and not self._over

    def send(self, text: bytes) -> None:
        """Send a text frame (see `SteeringLane.send`)."""
        self._socket.send(text)

    def abandon_successor(self) -> None:
        """Stop waiting for a successor (see `SteeringLane.abandon_successor`)."""
        if self._lingers and not self._over:
            self._give_up()

    def release_if_done(self) -> None:
        """Free the lane if it is done (see `SteeringLane.release_if_done`)."""
        if self._lingers and self._native is not None and not self._native.due:
            self._free()

    # -- private --

    def _give(self, message: bytes) -> None:
        if self.stream is not None:
            self._socket.give(self.stream, message)

    def _on_beginning(self, message: bytes) -> None:
        self._socket.proven = True
        if self._lingers:
            self._succeed(message)
        elif self._native is not None and self._native.id is None:
            self._native.id, _ = response_ids(message)
        self._give(message)

    def _succeed(self, message: bytes) -> None:
        """Take the backend's own successor, which begins on the same lane."""
        parent = self._native
        assert parent is not None, "only steers make a lane linger"
        self._lingers = False
        response_id, previous = response_ids(message)
        if not parent.wanted or previous != parent.id:
            self._native = None
            parent.end()
            self._give_up()
            return
        if self._expiry is not None:
            self._expiry.cancel()
            self._expiry = None
        self.stream = self._new_stream()
        assert self._native is not None, "as its parent was"
        self._native.id = response_id
        self.stream.start()
        parent.on_successor(self.stream)

    def _on_end(self, kind: str, message: bytes) -> None:
        if self._lingers:
            return  # a second end
        self._give(message)
        if self.stream is not None:
            self.stream.end()
        self.stream = None
        if self._native is not None and self._native.due and kind in STEERABLE_ENDS:
            self._lingers = True
            self._expire()
            self._socket.close_if_unwanted()
        else:
            self._free()

    def _on_steer(self, kind: str, steer: Any) -> None:
        if self._native is not None and self.owns_steer(steer):
            self._native.on_steer_event(kind, steer)
            self.release_if_done()

    def _on_error(self, error: dict[str, Any], message: bytes) -> None:
        if self.steering and is_about_steering(error):
            self._socket.takes_steers = False
            self.refuse_steers()
        elif self._begun and self.name is None and is_socket_limit(error):
            self._socket.retire()  # it concerns the socket, not the response
        elif self._lingers or self.stream is None:
            cancelled = error_fields(error)["code"] == "cancelled"
            self._free(reusable=self._lingers or cancelled)
        elif self._begun:
            self._give(message)
            self.stream.end()
            self._free(reusable=False)  # some backends send `response.failed` after it
        else:
            refused_by_socket = is_socket_limit(error)
            if refused_by_socket:
                self._socket.reduce(self, error_fields(error)["code"])
            waited = self.stream.waited if self.name is None else 0.0
            self.refuse(error_event_fault(error, message, waited))
            self._free(reusable=not refused_by_socket)

    @property
    def _begun(self) -> bool:
        return self.stream is not None and self.stream.begun

    def _abandon(self) -> None:
        """Drop the rest of the response, because its stream was closed."""
        if self._over:
            return
        self.stream = None
        if self._native is not None:
            self._native.wanted = False
        self._give_up()

    def _give_up(self) -> None:
        """Have the backend end what nobody wants: by a cancel, or by closing the whole socket."""
        self._expire()
        if self.name is not None and self._sent and self._socket.takes_cancel:
            self._socket.send(encode({"type": CANCEL, "stream_id": self.name}))
        else:
            self._socket.close_if_unwanted()

    def _expire(self) -> None:
        """Wait for the backend's end of the response; after that the name is not used again."""
        if self._expiry is None and not self._over:
            loop = asyncio.get_running_loop()
            self._expiry = loop.call_later(self._limits.idle, lambda: self._free(reusable=False))

    def _free(self, *, reusable: bool = True) -> None:
        if not self._over:
            reusable = reusable and not (self._native is not None and self._native.unsure)
            self._finish()
            self._socket.free(self, reusable=reusable)

    def _finish(self) -> None:
        self._over = True
        if self._expiry is not None:
            self._expiry.cancel()
        if self._native is not None:
            self._native.end()
