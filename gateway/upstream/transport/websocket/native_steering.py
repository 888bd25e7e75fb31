"""Steering by the upstream itself: `lanes.ports.Steering` of one response over a socket."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from lanes.codec import encode

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from gateway.upstream.transport.websocket.limits import SocketLimits
    from gateway.upstream.transport.websocket.stream import SocketStream


class SteeringLane(Protocol):
    """What a response's steers need of its lane."""

    @property
    def steers(self) -> bool:
        """Whether the upstream can be sent steers there, as far as is known."""

    def send(self, text: bytes) -> None:
        """Send a frame."""

    def unwanted(self) -> None:
        """Nobody waits any more for what may follow the response."""

    def settle(self) -> None:
        """Let go of a response that is over, unless a successor is due."""


@dataclass(slots=True, eq=False)
class _Sent:
    """A steer that the upstream has not answered; `refused` is called if it does not take it.

    One that stays `silent` for long is no more waited for, but an answer may come yet.
    """

    id: str
    messages: list[dict[str, Any]]
    refused: Callable[[], None]
    timer: asyncio.TimerHandle
    silent: bool = False


class NativeSteering:
    """What the upstream said of the steers of its response `id`, and the successor it makes.

    The upstream answers steers in the order in which they were sent, and names none of them; only a
    failure returns the input.
    """

    def __init__(self, way: SteeringLane, terms: SocketLimits) -> None:
        self._loop = asyncio.get_running_loop()
        self._way = way
        self._terms = terms
        self._sent: list[_Sent] = []
        # The upstream's id of each accepted steer -> ours, in order.
        self._accepted: dict[str, str] = {}
        self._carried: list[str] = []
        self._successor: asyncio.Future[SocketStream | None] = self._loop.create_future()
        self.id: str | None = None
        #: Whether somebody may still take the successor.
        self.wanted = True

    @property
    def unanswered(self) -> bool:
        """Whether a steer waits for the upstream's answer."""
        return any(not sent.silent for sent in self._sent)

    @property
    def due(self) -> bool:
        """Whether a successor of the upstream's is waited for."""
        return self.unanswered or bool(self._accepted)

    @property
    def unsure(self) -> bool:
        """Whether the upstream may make a successor that nobody waits for."""
        return bool(self._sent) and not self._successor.done()

    # -- lanes.ports.Steering --

    def steer(
        self, steer_id: str, messages: list[dict[str, Any]], refused: Callable[[], None]
    ) -> None:
        """Pass a steer on; `refused` is called if it is not taken, perhaps at once."""
        if self.id is None or self._successor.done() or not self._way.steers:
            refused()
            return
        timer = self._loop.call_later(self._terms.steer, self._silent, steer_id)
        self._sent.append(_Sent(steer_id, messages, refused, timer))
        frame = {"type": "response.steer", "previous_response_id": self.id, "input": messages}
        self._way.send(encode(frame))

    async def follow(self, steers: Sequence[str]) -> SocketStream | None:
        """Wait for the upstream's successor; None if there is none that carries just these steers.

        One that carries others is given up.
        """
        try:
            async with asyncio.timeout(self._terms.follow):
                stream = await asyncio.shield(self._successor)
        except TimeoutError:
            stream = None
        except BaseException:
            self.give_up()
            raise
        if stream is not None and self._carried == list(steers):
            self.wanted = False  # it is the caller's now
            return stream
        self.give_up()
        return None

    def give_up(self) -> None:
        """Nobody will take the successor. Idempotent."""
        if not self.wanted:
            return
        self.wanted = False
        successor = self._successor.result() if self._successor.done() else None
        if successor is not None:
            successor.close()
        else:
            self._way.unwanted()

    # -- what the lane calls --

    def told(self, kind: str, steer: dict[str, Any]) -> None:
        """The upstream says what became of a steer."""
        name = steer.get("id")
        name = name if isinstance(name, str) else None
        if kind == "response.steer.accepted":
            if self._sent and name is not None:
                self._accepted[name] = self._answered(self._sent[0]).id
        elif kind == "response.steer.pending":
            self._accepted.clear()  # it waits for a create that we shall not send
        elif name in self._accepted:
            del self._accepted[name]
        elif self._sent:
            given = steer.get("input")
            same = (one for one in self._sent if one.messages == given)
            self._answered(next(same, self._sent[0])).refused()

    def refuse(self) -> None:
        """The upstream knows nothing of steering."""
        while self._sent:
            self._answered(self._sent[0]).refused()

    def began(self, successor: SocketStream) -> None:
        """The upstream's successor begins: it carries what was accepted so far."""
        self._carried = list(self._accepted.values())
        self._settle(successor)

    def over(self) -> None:
        """There will be no successor."""
        self._settle(None)

    def _settle(self, successor: SocketStream | None) -> None:
        for sent in self._sent:
            sent.timer.cancel()
        if not self._successor.done():
            self._successor.set_result(successor)

    def _answered(self, sent: _Sent) -> _Sent:
        sent.timer.cancel()
        self._sent.remove(sent)
        return sent

    def _silent(self, steer_id: str) -> None:
        """No answer: it stays among the sent, because one may come and must not be another's."""
        for sent in self._sent:
            if sent.id == steer_id:
                refused, sent.refused, sent.silent = sent.refused, _nothing, True
                refused()
        self._way.settle()


def _nothing() -> None:
    """It was told already."""
