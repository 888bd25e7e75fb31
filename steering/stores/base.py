"""What every store of submissions can do. One contract, run against each of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from steering.ids import steer_id
from steering.states import TRANSITIONS, SubmissionState

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

__all__ = [
    "OWNER_GONE",
    "SOURCES",
    "TTL",
    "OwnerWatch",
    "SteerRecord",
    "SteerStore",
    "steer_id",
]

#: Seconds a record is kept after it was last written.
TTL: Final = 86400.0
#: Why a submission was dropped whose process is no more.
OWNER_GONE: Final = "owner_gone"


@dataclass(frozen=True, slots=True)
class SteerRecord:
    """One submission as it is written down.

    `key_id` names the API key whose it is, `target` the response it steers, `input` its input as
    JSON, `owner` the process that decides on it. `reason` says why it failed or was dropped,
    `successor` which response it was committed to. Times are seconds since the epoch. `id` and
    `target` are ids as steering.ids makes them.
    """

    id: str
    key_id: str
    target: str
    input: bytes
    owner: str
    state: SubmissionState
    created_at: float
    updated_at: float
    reason: str | None = None
    successor: str | None = None


def _sources() -> Mapping[SubmissionState, frozenset[SubmissionState]]:
    """For each state those it can be reached from, by any number of steps."""
    before: dict[SubmissionState, set[SubmissionState]] = {
        state: set() for state in SubmissionState
    }
    for (source, _), state in TRANSITIONS.items():
        before[state].add(source)
    for _ in SubmissionState:
        for found in before.values():
            found.update(*(before[source] for source in found))
    return {state: frozenset(found) for state, found in before.items()}


#: The states from which a record moves to a given one. A step whose write was lost may be left
#: out; none is ever taken back.
SOURCES: Final = _sources()


class OwnerWatch(Protocol):
    """Knows which owners are no more."""

    async def gone(self, owners: Collection[str]) -> set[str]:
        """Those of the owners that surely decide nothing any longer. Raises StoreUnavailable."""


class SteerStore(Protocol):
    """Every write is idempotent by submission id, and no end state is ever left again.

    Every call ends within two seconds, and then nothing but StoreUnavailable is raised.
    """

    async def append(self, record: SteerRecord) -> None:
        """Write a submission down; it is safe when this returns. Raises StoreUnavailable.

        One that is there already moves on to the record's state, as settle would have it.
        """

    async def settle(
        self,
        target: str,
        ids: Sequence[str],
        state: SubmissionState,
        *,
        reason: str | None = None,
        successor: str | None = None,
    ) -> None:
        """Move submissions of one response on, in one round trip. Raises StoreUnavailable.

        An id that has come to an end already or is past that state is left as it is. One that is
        not there yet takes an end with it when it comes, and cannot be seen before: a failed append
        may still be done, so late that its verdict is here first.
        """

    async def of_response(self, key_id: str, response_id: str) -> list[SteerRecord]:
        """The submissions of a response by `created_at`; none if it is another key's.

        Those of an owner that is gone are `dropped`. Raises StoreUnavailable.
        """

    async def get(self, key_id: str, steer_id: str) -> SteerRecord | None:
        """One submission; None if there is none or it is another key's. Else like of_response."""

    async def aclose(self) -> None:
        """Let go of the store. What it was made from stays its maker's to close."""
