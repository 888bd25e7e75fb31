"""What a lane needs of the socket that it shares with others (D25)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:
    from gateway.upstream.transport.websocket.stream import WebSocketStream

#: The lane, which this file must not know.
LaneT = TypeVar("LaneT", contravariant=True)


class LaneConnection(Protocol[LaneT]):
    """The socket of a lane, as far as the lane uses it."""

    #: Whether the backend accepts steers, as far as the gateway knows.
    takes_steers: bool
    #: Whether the backend ends a response when it is asked to.
    takes_cancel: bool
    #: Whether the backend has begun any response on this socket.
    proven: bool

    def send(self, text: bytes, rest: bytes = b"") -> None:
        """Send a text frame; `rest`, its end, may be large and is not copied."""

    def give(self, stream: WebSocketStream, message: bytes) -> None:
        """Add an event to the stream's batch, which is flushed at the end of the read."""

    def free(self, lane: LaneT, *, reusable: bool) -> None:
        """Remove a lane that is over; `reusable` says whether its name may be used again."""

    def retire(self) -> None:
        """Take no more responses, and close when the last one ends."""

    def reduce(self, lane: LaneT, code: str) -> None:
        """Use fewer lanes on all sockets, because the backend refused this one with `code`."""

    def close_if_unwanted(self) -> None:
        """Close if no response is wanted: most backends know no other way to cancel them."""
