"""Responses that run in the background: how each one is, its events, and who is asked to end it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

import msgspec

from lanes.codec import decode, encode
from lanes.history.entries import Entry  # noqa: TC001  (msgspec reads it)
from lanes.history.lineage import ENTRY_BYTES

if TYPE_CHECKING:
    from collections.abc import Sequence

#: Seconds for which a record is kept that nobody writes any more: as long as a stored response.
RECORD_TTL: Final = 30 * 24 * 3600
#: Seconds for which the events of a response are kept after the last of them.
EVENTS_TTL: Final = 3600
#: Events that one call returns at most.
EVENTS_AT_ONCE: Final = 1000
#: Why a response failed whose process was told to stop.
STOPPING: Final = "The gateway is shutting down; send this request again."
#: Why one did whose process is gone.
_GONE: Final = "The gateway that ran this response ended."
_ENDINGS: Final = (STOPPING, _GONE)


class _Error(msgspec.Struct):
    """Why a response failed."""

    message: str = ""


class _End(msgspec.Struct):
    """A response object, of which only is wanted how it ended."""

    status: str
    error: _Error | None = None


_end: Final = msgspec.json.Decoder(_End).decode


class ResponseName(NamedTuple):
    """Which response: the API key whose it is, and its id."""

    key_id: str
    id: str


@dataclass(frozen=True, slots=True)
class ResponseInput:
    """What a response was made from.

    Attributes:
        before: The response or the conversation that it continues.
        last: The last item that was in the conversation then.
        entries: Its own input.
    """

    before: str | None = None
    last: str | None = None
    entries: tuple[Entry, ...] = ()

    @property
    def size(self) -> int:
        """Bytes of its own input."""
        return sum(ENTRY_BYTES + len(entry.data) for entry in self.entries)


@dataclass(frozen=True, slots=True)
class Progress:
    """What has come of a response since it was last written.

    Attributes:
        body: The response object as it is now.
        first: The number of the first of the events.
        events: The events, in order.
    """

    body: bytes
    first: int
    events: Sequence[bytes]


@dataclass(frozen=True, slots=True)
class BackgroundRecord:
    """How a response in the background is.

    Attributes:
        body: The response object as it is now.
        over: Whether it will not change any more.
    """

    body: bytes
    over: bool


@dataclass(frozen=True, slots=True)
class KeptEvents:
    """Some events of a response, and how many are kept in all: none if they are no longer kept."""

    events: list[bytes]
    count: int


class BackgroundStore(Protocol):
    """Keeps responses in the background by API key, for the processes that run them and all others.

    Every method raises StoreUnavailable, within two seconds, when the store is away.
    """

    async def open(
        self, name: ResponseName, body: bytes, made_from: ResponseInput | None = None
    ) -> None:
        """Enter a response that this process runs.

        Args:
            name: Its name.
            body: The response object as it is now.
            made_from: What it is made from; None if it is over, so that the archive will have it.
        """

    async def advance(self, name: ResponseName, progress: Progress) -> bool:
        """Keep how a response is now, and its next events. Idempotent by the number of the first.

        Returns:
            Whether it still runs: false if it was deleted, or taken for dead.
        """

    async def finish(self, name: ResponseName, body: bytes) -> bool:
        """Keep the final object of a response; the first end wins. Idempotent.

        Returns:
            Whether this is its end: false if it was deleted, or taken for dead.
        """

    async def get(self, name: ResponseName) -> BackgroundRecord | None:
        """Return how a response is; None if the key has no such response in the background.

        One whose process is gone is over: it failed (protocol.md 7).
        """

    async def made_from(self, name: ResponseName) -> ResponseInput | None:
        """Return what a response was made from; None if that is not here."""

    async def events(self, name: ResponseName, first: int) -> KeptEvents:
        """Return events of a response."""

    async def ask_to_cancel(self, name: ResponseName) -> None:
        """Ask the process that runs a response to cancel it. Idempotent."""

    async def asked_to_cancel(self) -> list[ResponseName]:
        """Return which responses of this process others want cancelled, by API key and id."""

    async def delete(self, name: ResponseName) -> bool:
        """Forget a response and its events; return False if the key has no such response."""


def kept_for(body: bytes) -> int:
    """Return the seconds for which a record is kept after its end.

    A failed response is kept here alone; any other is among the stored ones, too.
    """
    return RECORD_TTL if decode(body)["status"] == "failed" else EVENTS_TTL


def failed_with_its_process(body: bytes) -> bytes:
    """Return the response object of a response whose process is gone."""
    error = {"code": "server_error", "message": _GONE}
    return encode({**decode(body), "status": "failed", "error": error})


def ended_with_its_process(body: bytes) -> bool:
    """Return whether a response failed only because a gateway stopped, or is gone."""
    end = _end(body)
    return (
        end.status == "failed" and end.error is not None and end.error.message.startswith(_ENDINGS)
    )
