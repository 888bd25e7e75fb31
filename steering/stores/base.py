"""The contract of every store of submissions, and the record it keeps of each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from steering.errors import SteerErrorCode
from steering.states import TRANSITIONS, SubmissionState

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

#: Seconds a store keeps a record after its last write.
RECORD_TTL: Final = 86400.0
#: The reason of a submission that was dropped because its process is gone (D16).
OWNER_GONE: Final = "owner_gone"
#: The reasons of those that were refused; what was accepted fails for others.
_REFUSALS: Final = frozenset(SteerErrorCode) - {SteerErrorCode.SUCCESSOR_FAILED}


@dataclass(frozen=True, slots=True)
class SteerRecord:
    """One submission as a store keeps it.

    Attributes:
        id: The submission's id; it names its response's tag (see steering.ids).
        key_id: The API key that sent it.
        target: The id of the response that its client named.
        input: Its input as JSON.
        owner: The process that decides on it.
        state: Where it is (see steering.states).
        created_at: When it came, in seconds since the epoch.
        updated_at: When it last changed, in seconds since the epoch.
        reason: Why it failed or was dropped.
        successor: The id of the response it was committed to.
        effective: The id of the response it was taken for in place of its target, if it was.
        event_id: Its client's own name for it.
        required: While it is pending: the stubs of the outputs that are waited for, as JSON.
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
    effective: str | None = None
    event_id: str | None = None
    required: bytes | None = None

    @property
    def refused(self) -> bool:
        """Whether it failed without having been accepted."""
        return self.state is SubmissionState.FAILED and self.reason in _REFUSALS


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of some submissions of one response.

    Attributes:
        target: The id of the response that was named.
        ids: The submissions' ids.
        state: The state that they reach.
        reason: Why they failed or were dropped.
        successor: The id of the response they were committed to.
        effective: The id of the response they were taken for, if it is another one. That is
            noted whatever state they are in.
        required: The stubs of the outputs that pending ones wait for, as JSON.
    """

    target: str
    ids: Sequence[str]
    state: SubmissionState
    reason: str | None = None
    successor: str | None = None
    effective: str | None = None
    required: bytes | None = None


def _sources() -> Mapping[SubmissionState, frozenset[SubmissionState]]:
    """Return for each state those that lead to it, by any number of steps."""
    sources: dict[SubmissionState, set[SubmissionState]] = {
        state: set() for state in SubmissionState
    }
    for (source, _), state in TRANSITIONS.items():
        sources[state].add(source)
    for _ in SubmissionState:
        for before in sources.values():
            before.update(*(sources[source] for source in before))
    return {state: frozenset(before) for state, before in sources.items()}


#: The states from which a record moves to a given one. A store may miss a step whose write was
#: lost; it never takes one back.
SOURCES: Final = _sources()


class OwnerWatch(Protocol):
    """Knows which owners are gone."""

    async def gone(self, owners: Collection[str]) -> set[str]:
        """Return those owners that surely decide nothing any more.

        Raises:
            StoreUnavailable: Nobody can say now.
        """


class SteerStore(Protocol):
    """Keeps submissions. Writes are idempotent by submission id, and no end state ever changes.

    Every call ends within two seconds. StoreUnavailable is all that a call raises.
    """

    async def append(self, record: SteerRecord) -> None:
        """Write a submission down; it is safe once this returns.

        A submission that is there already moves on to the record's state, as with `settle`.

        Raises:
            StoreUnavailable: The store is away; the record may be there all the same.
        """

    async def settle(self, verdict: Verdict) -> None:
        """Move submissions of one response on to a state, in one round trip.

        A submission that has ended or is past that state stays as it is. A failed append may still
        be applied after its verdict (D15), so an end is kept for an id that is not there yet: the
        submission takes it on when it comes, and cannot be read before.

        Raises:
            StoreUnavailable: The store is away; the states may have changed all the same.
        """

    async def of_response(self, key_id: str, response_id: str) -> list[SteerRecord]:
        """Return the submissions of a response by `created_at`; another key sees none.

        These are the ones that named it and the ones that were taken for it.

        Submissions without a verdict whose owner is gone become `dropped` first.

        Raises:
            StoreUnavailable: The store is away.
        """

    async def get(self, key_id: str, steer_id: str) -> SteerRecord | None:
        """Return one submission; None if it does not exist or is another key's.

        A submission without a verdict whose owner is gone becomes `dropped` first.

        Raises:
            StoreUnavailable: The store is away.
        """

    async def aclose(self) -> None:
        """Let go of the store. Whoever made its client closes that."""
