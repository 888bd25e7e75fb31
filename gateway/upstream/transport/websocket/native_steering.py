"""The steers of one response that its backend carries out itself (D25).

`NativeSteering` is a `lanes.ports.BackendSteering`. It is generic in its streams, so that a stream
can hold it.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from lanes.codec import encode

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from gateway.upstream.transport.websocket.limits import WebSocketLimits


class SuccessorStream(Protocol):
    """The stream of a successor, as far as its parent's steers use it."""

    def close(self) -> None:
        """Give the response up. Idempotent."""


Successor = TypeVar("Successor", bound=SuccessorStream)


class SteeringLane(Protocol):
    """The lane of a response, as far as its steers use it."""

    @property
    def takes_steers(self) -> bool:
        """Whether the backend can be sent steers on this lane, as far as the gateway knows."""

    def send(self, text: bytes) -> None:
        """Send a text frame."""

    def abandon_successor(self) -> None:
        """Note that nobody waits any more for what may follow the response."""

    def release_if_done(self) -> None:
        """Free the lane if its response is over and no successor is due."""


@dataclass(slots=True, eq=False)
class _Sent:
    """A steer without an answer; `refused` is called if the backend does not accept it.

    `silent` is one whose time is up: nothing waits for its answer, but one may still come.
    """

    id: str
    messages: list[dict[str, Any]]
    refused: Callable[[], None]
    timer: asyncio.TimerHandle
    silent: bool = False


class NativeSteering(Generic[Successor]):
    """The backend's answers to the steers of its response `id`, and the successor it makes.

    The backend answers steers in the order in which they were sent, and names none of them; only a
    failure returns the input.
    """

    def __init__(self, lane: SteeringLane, limits: WebSocketLimits) -> None:
        self._loop = asyncio.get_running_loop()
        self._lane: SteeringLane | None = lane  # until there is no successor to wait for
        self._limits = limits
        self._sent: list[_Sent] = []
        # The backend's id of each accepted steer -> the gateway's, in order.
        self._accepted: dict[str, str] = {}
        self._carried: list[str] = []
        self._successor: asyncio.Future[Successor | None] = self._loop.create_future()
        self.id: str | None = None
        #: Whether somebody may still want the successor.
        self.wanted = True

    @property
    def unanswered(self) -> bool:
        """Whether a steer waits for the backend's answer."""
        return any(not sent.silent for sent in self._sent)

    @property
    def due(self) -> bool:
        """Whether a successor made by the backend may still come."""
        return self.unanswered or bool(self._accepted)

    @property
    def unsure(self) -> bool:
        """Whether the backend may make a successor that nothing waits for."""
        return bool(self._sent) and not self._successor.done()

    # -- lanes.ports.BackendSteering --

    def steer(
        self, steer_id: str, messages: list[dict[str, Any]], refused: Callable[[], None]
    ) -> None:
        """Send a steer to the backend (see `BackendSteering.steer`).

        Args:
            steer_id: The gateway's id of the steer.
            messages: The input of the steer.
            refused: Called if the backend does not accept it, perhaps at once.
        """
        lane = self._lane
        if self.id is None or lane is None or not lane.takes_steers:
            refused()
            return
        timer = self._loop.call_later(self._limits.steer, self._silent, steer_id)
        self._sent.append(_Sent(steer_id, messages, refused, timer))
        frame = {"type": "response.steer", "previous_response_id": self.id, "input": messages}
        lane.send(encode(frame))

    async def follow(self, steers: Sequence[str]) -> Successor | None:
        """Return the backend's successor if it carries just these steers, else None.

        A successor that carries others is given up (see `BackendSteering.follow`).
        """
        try:
            async with asyncio.timeout(self._limits.follow):
                stream = await asyncio.shield(self._successor)
        except TimeoutError:
            stream = None
        except BaseException:
            self.give_up()
            raise
        if stream is not None and self._carried == list(steers):
            self.wanted = False  # it belongs to the caller now
            return stream
        self.give_up()
        return None

    def give_up(self) -> None:
        """Give up the successor (see `BackendSteering.give_up`). Idempotent."""
        if not self.wanted:
            return
        self.wanted = False
        successor = self._successor.result() if self._successor.done() else None
        if successor is not None:
            successor.close()
        elif self._lane is not None:
            self._lane.abandon_successor()

    # -- what the lane calls --

    def on_steer_event(self, kind: str, steer: dict[str, Any]) -> None:
        """Take a `response.steer.*` event of the backend."""
        backend_id = steer.get("id")
        backend_id = backend_id if isinstance(backend_id, str) else None
        if kind == "response.steer.accepted":
            if self._sent and backend_id is not None:
                self._accepted[backend_id] = self._take_answered(self._sent[0]).id
        elif kind == "response.steer.pending":
            self._accepted.clear()  # it waits for a create that the gateway does not send
        elif backend_id in self._accepted:
            del self._accepted[backend_id]
        elif self._sent:
            failed_input = steer.get("input")
            same = (one for one in self._sent if one.messages == failed_input)
            self._take_answered(next(same, self._sent[0])).refused()

    def refuse_all(self) -> None:
        """Refuse every steer, because the backend does not know steering."""
        while self._sent:
            self._take_answered(self._sent[0]).refused()

    def on_successor(self, successor: Successor) -> None:
        """Take the backend's successor, which carries what was accepted so far."""
        self._carried = list(self._accepted.values())
        self._finish(successor)

    def end(self) -> None:
        """Note that there will be no successor. Idempotent."""
        self._finish(None)

    def _finish(self, successor: Successor | None) -> None:
        for sent in self._sent:
            sent.timer.cancel()
        self._sent.clear()
        self._lane = None  # it refers to this, and so do those who wait for answers (D13)
        if not self._successor.done():
            self._successor.set_result(successor)

    def _take_answered(self, sent: _Sent) -> _Sent:
        sent.timer.cancel()
        self._sent.remove(sent)
        return sent

    def _silent(self, steer_id: str) -> None:
        """Refuse a steer without an answer, but keep its place: a late answer is not another's."""
        for sent in self._sent:
            if sent.id == steer_id:
                refused, sent.refused, sent.silent = sent.refused, _do_nothing, True
                refused()
        if self._lane is not None:
            self._lane.release_if_done()


def _do_nothing() -> None:
    """Stand in for a `refused` that was called already."""
