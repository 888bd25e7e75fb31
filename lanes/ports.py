"""The interfaces that `lanes` needs and `gateway` implements: upstream, stream, outbox."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from lanes.errors import Fault
    from lanes.events import Stamp
    from lanes.stream.profile import Profile

#: One server-sent event: the `event:` line, if there was one, and the joined data.
Event = tuple[str | None, bytes]


class BackendSteering(Protocol):
    """A backend that takes steers of one response itself, and follows it by itself."""

    def steer(
        self, steer_id: str, messages: list[dict[str, Any]], refused: Callable[[], None]
    ) -> None:
        """Pass a steer on. The backend then ends the response at a boundary of its own.

        Args:
            steer_id: The id of the submission.
            messages: Its input as typed user messages.
            refused: Called if the backend does not take it, perhaps at once.
        """

    async def follow(self, steers: Sequence[str]) -> Stream | None:
        """Return the backend's own successor of the ended response, if it has just these steers.

        Any other is given up. Call this once, or `give_up` instead.
        """

    def give_up(self) -> None:
        """Want no successor of the backend's. Idempotent, and nothing after `follow`."""


class Stream(Protocol):
    """The body of one upstream answer, on its way."""

    @property
    def profile(self) -> Profile:
        """How far the backend that answers can be trusted."""

    @property
    def steering(self) -> BackendSteering | None:
        """How the backend itself takes steers; None where the gateway cuts."""

    async def relay(self, sink: Callable[[list[Event]], None]) -> None:
        """Call `sink` with the events of each network read, until the body ends or `release`.

        Raises UpstreamFault when the body breaks off or is silent for too long. Raising and being
        cancelled close the connection.
        """

    def pause(self) -> None:
        """Read no more until `resume`; the backend feels it. Idempotent."""

    def resume(self) -> None:
        """Read on. Idempotent."""

    def release(self) -> None:
        """Want nothing more: `relay` returns, and the connection is kept if the body ends soon."""

    def close(self) -> None:
        """Cancel: close the connection now, so that the backend stops generating. Idempotent."""


@dataclass(frozen=True, slots=True)
class OwnCompaction:
    """What a backend does about long histories itself.

    Attributes:
        makes: Whether it makes compaction items when it is asked to.
        reads: Whether it may read items that the gateway did not make.
    """

    makes: bool
    reads: bool


class Upstream(Protocol):
    """Answers requests: one backend, or one of several by the model that is asked for."""

    async def open(
        self, body: Mapping[str, Any], items: Sequence[bytes], headers: Mapping[str, str]
    ) -> Stream:
        """Send one request and wait for the head of its answer; retry while nothing was relayed.

        Args:
            body: The client's request.
            items: The whole effective input, each item as JSON.
            headers: The client's, as far as the upstream may see them.

        Raises:
            UpstreamFault: The backend refused, or did not answer.
            ClientFault: The dialect cannot express the request, or no backend takes its model.
        """

    async def check(self, model: str, headers: Mapping[str, str]) -> None:
        """Raise ClientFault if no backend takes the model."""

    async def compaction(self, model: str, headers: Mapping[str, str]) -> OwnCompaction:
        """Return what the backend of a model does about long histories itself (protocol.md 9).

        Raises:
            UpstreamFault: The backend has to be asked how it speaks, and did not answer.
            ClientFault: No backend takes the model.
        """


class Outbox(Protocol):
    """The single writer of one connection. Queued events leave soon and in order."""

    def put(self, stamp: Stamp, body: bytes, *more: bytes) -> None:
        """Add the number to an event and queue it.

        Args:
            stamp: The numbering of its response.
            body: Its JSON without the closing brace.
            more: The rest of that, if it was made in pieces.
        """

    def put_event(self, stamp: Stamp, event: dict[str, Any]) -> None:
        """Encode an event, number it and queue it."""

    def error(self, fault: Fault, stream_id: str | None) -> None:
        """Queue an `error` event, also while its lane is busy."""

    def attach(self, stream: Stream) -> None:
        """Pause this stream whenever the client falls behind."""

    def detach(self, stream: Stream) -> None:
        """Forget a stream that is over."""
