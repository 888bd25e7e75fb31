"""What every store of submissions can do. One contract, run against each of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from steering.states import State


class StoreUnavailable(Exception):
    """The store refused or did not answer in time; what was asked may be done all the same."""


@dataclass(frozen=True, slots=True)
class Record:
    """One submission as it is written down.

    `key_id` names the API key whose it is, `target` the response it steers, `input` its input as
    JSON, `owner` the process that decides on it. `reason` says why it failed or was dropped,
    `successor` which response it was committed to. Times are seconds since the epoch.
    """

    id: str
    key_id: str
    target: str
    input: bytes
    owner: str
    state: State
    created_at: float
    updated_at: float
    reason: str | None = None
    successor: str | None = None


class SteerStore(Protocol):
    """Every write is idempotent by submission id, and no end state is ever left again."""

    async def append(self, record: Record) -> None:
        """Write a new submission down; it is safe when this returns. Raises StoreUnavailable."""

    async def settle(
        self,
        target: str,
        ids: Sequence[str],
        state: State,
        *,
        reason: str | None = None,
        successor: str | None = None,
    ) -> None:
        """Move submissions of one response on, in one round trip. Raises StoreUnavailable.

        An id that was never written, or has come to an end already, is left as it is.
        """

    async def of_response(self, key_id: str, response_id: str) -> list[Record]:
        """The submissions of a response, in order; none if it is another key's.

        Those of an owner that is gone are `dropped`.
        """

    async def get(self, key_id: str, steer_id: str) -> Record | None:
        """One submission; None if there is none or it is another key's. Else like of_response."""

    async def aclose(self) -> None:
        """Let go of the store."""
