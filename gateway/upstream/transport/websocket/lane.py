"""One lane of an upstream's socket, from a create until the upstream is done with its name."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Protocol

from gateway.upstream.transport.faults import another
from gateway.upstream.transport.websocket.event_heads import (
    FOLLOWED,
    STEERS,
    about_steering,
    error,
    event,
    moves_on,
    names,
)
from gateway.upstream.transport.websocket.native_steering import NativeSteering
from gateway.upstream.transport.websocket.refusals import refused
from gateway.upstream.transport.websocket.stream import SocketStream
from lanes.stream.passthrough import BEGINNINGS, TERMINALS

if TYPE_CHECKING:
    from gateway.upstream.transport.websocket.limits import SocketLimits
    from lanes.errors import UpstreamFault


class LaneConnection(Protocol):
    """What a lane needs of its socket."""

    #: Whether the upstream takes steers, as far as is known.
    steers: bool
    #: Whether the upstream has begun any response there.
    proven: bool

    def send(self, text: bytes) -> None:
        """Send a text frame."""

    def give(self, stream: SocketStream, message: bytes) -> None:
        """Hand an event to a stream with the others of this read."""

    def free(self, lane: UpstreamLane, *, again: bool) -> None:
        """The lane is over; `again` says whether its name can be used again."""

    def retire(self) -> None:
        """Take no further responses."""

    def crowded(self, lane: UpstreamLane, code: str) -> None:
        """The upstream takes nothing on this lane, for what it has on others or for good."""

    def check(self) -> None:
        """Close if nobody wants any of it."""


class UpstreamLane:
    """Sorts out what the upstream says under one name; without one, all that it says.

    There is no cancel: a response that nobody wants goes on upstream, its events go nowhere, and
    the name is busy until it ends. Neither is a name free while the upstream may still make a
    successor of its own accord.
    """

    def __init__(
        self, line: LaneConnection, name: str | None, terms: SocketLimits, *, native: bool
    ) -> None:
        self.name = name
        #: Bytes of the create.
        self.size = 0
        self._line = line
        self._terms = terms
        self._native_wanted = native
        self._native: NativeSteering | None = None
        self._expiry: asyncio.TimerHandle | None = None
        self._sent = self._over = False
        # Its response has ended, and a successor is due.
        self._lingers = False
        self.stream: SocketStream | None = self._stream()

    def _stream(self) -> SocketStream:
        stream = SocketStream(self._terms, self._left)
        if self._native_wanted:
            self._native = stream.steering = NativeSteering(self, self._terms)
        return stream

    @property
    def wanted(self) -> bool:
        """Whether anybody waits for what comes."""
        if self._lingers:
            return self._native is not None and self._native.wanted
        return self.stream is not None

    @property
    def waiting(self) -> bool:
        """Whether its response was asked for and has not begun."""
        return self.stream is not None and self._sent and not self.stream.begun

    @property
    def steering(self) -> bool:
        """Whether a steer waits for the upstream's answer."""
        return self._native is not None and self._native.unanswered

    @property
    def proven(self) -> bool:
        """Whether the upstream has begun any response on this socket."""
        return self._line.proven

    def begin(self, fields: bytes) -> SocketStream:
        """Send the create, `fields` being its JSON without the opening brace."""
        assert self.stream is not None, "nobody has left it yet"
        self._sent = True
        self.size = len(fields)
        self.stream.start()
        lane = b"" if self.name is None else b'"stream_id":"%b",' % self.name.encode()
        self._line.send(b'{"type":"response.create",%b%b' % (lane, fields))
        return self.stream

    def leave(self) -> None:
        """Nothing will be asked here after all."""
        if self.stream is not None and not self._sent:
            self.stream.end()
            self._free()

    # -- what the socket calls --

    def note(self, kind: str, message: bytes) -> None:
        """Take an event of those that change something."""
        if kind in BEGINNINGS:
            self._on_beginning(message)
        elif kind in TERMINALS:
            self._on_end(kind, message)
        elif kind in STEERS:
            self._on_steer(kind, event(message).get("steer"))
        else:
            self._on_error(event(message), message)

    def is_of(self, steer: object) -> bool:
        """Whether that is a steer of its response."""
        native = self._native
        named = isinstance(steer, dict) and steer.get("previous_response_id")
        return native is not None and native.id is not None and named == native.id

    def lost(self, fault: UpstreamFault) -> None:
        """The socket is gone."""
        self._finish()
        if self.stream is not None:
            self.stream.end(another(fault))

    def refuse(self, fault: UpstreamFault) -> None:
        """Its response is refused, or broken off."""
        if self.stream is not None:
            self.stream.end(another(fault))
        self.stream = None

    def unread(self, kind: str, fault: UpstreamFault) -> None:
        """An event of this kind was passed over."""
        if self.stream is not None:
            self.stream.fail(fault)
        if kind in TERMINALS:
            self._free(again=False)

    def unsteerable(self) -> None:
        """The upstream knows nothing of steers."""
        if self._native is not None:
            self._native.refuse()
            self.settle()

    # -- what its steers call --

    @property
    def steers(self) -> bool:
        """Whether the upstream can be sent steers here."""
        return self._line.steers and not self._over

    def send(self, text: bytes) -> None:
        """Send a frame."""
        self._line.send(text)

    def unwanted(self) -> None:
        """Nobody takes the successor that may come."""
        if self._lingers and not self._over:
            self._expire()
            self._line.check()

    def settle(self) -> None:
        """Let go of a response that is over, unless a successor is due."""
        if self._lingers and self._native is not None and not self._native.due:
            self._free()

    # -- inside --

    def _give(self, message: bytes) -> None:
        if self.stream is not None:
            self._line.give(self.stream, message)

    def _on_beginning(self, message: bytes) -> None:
        self._line.proven = True
        if self._lingers:
            self._succeed(message)
        elif self._native is not None and self._native.id is None:
            self._native.id, _ = names(message)
        self._give(message)

    def _succeed(self, message: bytes) -> None:
        """The upstream's own successor begins, on the same lane."""
        parent = self._native
        assert parent is not None, "only steers make a lane linger"
        self._lingers = False
        name, previous = names(message)
        if not parent.wanted or previous != parent.id:
            self._native = None
            parent.over()
            self._expire()
            self._line.check()
            return
        if self._expiry is not None:
            self._expiry.cancel()
            self._expiry = None
        self.stream = self._stream()
        assert self._native is not None, "as its parent was"
        self._native.id = name
        self.stream.start()
        parent.began(self.stream)

    def _on_end(self, kind: str, message: bytes) -> None:
        if self._lingers:
            return  # a second end
        self._give(message)
        if self.stream is not None:
            self.stream.end()
        self.stream = None
        if self._native is not None and self._native.due and kind in FOLLOWED:
            self._lingers = True
            self._expire()
            self._line.check()
        else:
            self._free()

    def _on_steer(self, kind: str, steer: Any) -> None:
        if self._native is not None and self.is_of(steer):
            self._native.told(kind, steer)
            self.settle()

    def _on_error(self, told: dict[str, Any], message: bytes) -> None:
        if self.steering and about_steering(told):
            self._line.steers = False
            self.unsteerable()
        elif self._begun and self.name is None and moves_on(told):
            self._line.retire()  # it is the socket's, and says nothing of the response
        elif self._lingers or self.stream is None:
            self._free(again=self._lingers)
        elif self._begun:
            self._give(message)
            self.stream.end()
            self._free(again=False)  # some say `response.failed` after it
        else:
            moves = moves_on(told)
            if moves:
                self._line.crowded(self, error(told)["code"])
            self.refuse(refused(told, message))
            self._free(again=not moves)

    @property
    def _begun(self) -> bool:
        return self.stream is not None and self.stream.begun

    def _left(self) -> None:
        """Nobody listens to the response under way."""
        if self._over:
            return
        self.stream = None
        if self._native is not None:
            self._native.wanted = False
        self._expire()
        self._line.check()

    def _expire(self) -> None:
        """Wait for the upstream for so long; then the name is not to be trusted any more."""
        if self._expiry is None and not self._over:
            loop = asyncio.get_running_loop()
            self._expiry = loop.call_later(self._terms.idle, self._expired)

    def _expired(self) -> None:
        self._free(again=False)

    def _free(self, *, again: bool = True) -> None:
        if not self._over:
            again = again and not (self._native is not None and self._native.unsure)
            self._finish()
            self._line.free(self, again=again)

    def _finish(self) -> None:
        self._over = True
        if self._expiry is not None:
            self._expiry.cancel()
        if self._native is not None:
            self._native.over()
