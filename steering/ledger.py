"""MACHINE: every submission of one connection, from its arrival to its one verdict.

Decides synchronously and knows no I/O (protocol.md 5). A response is a target from its
`response.created` on; what becomes of its submissions follows from how it ends.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from steering.errors import IllegalSubmissionStep, SteerErrorCode, SteerFault
from steering.states import ENDS, TRANSITIONS, SubmissionState, SubmissionStep

if TYPE_CHECKING:
    from collections.abc import Callable


class TargetPhase(StrEnum):
    """The phases of a target; only an active or waiting one takes steers."""

    ACTIVE = "active"
    WAITING = "waiting"  # it needs tool outputs from the client
    COMPLETED = "completed"
    CLOSED = "closed"  # failed, incomplete, steered, or its successor was asked for


def _nothing(_: Submission) -> None:
    """Stop nothing: the response is over."""


def _never() -> bool:
    return False


@dataclass(slots=True, eq=False)
class Target:
    """One response that can be steered, or could once.

    Attributes:
        id: The response's id.
        lane: Its lane; only compared.
        send: Numbers an event as the response's own and sends it.
        cut: Asks the response to stop for a submission.
        answered: Tells whether the client's own create that continues it waits already.
        refusal: Why this kind of response takes no steers; None if it does.
        phase: Whether it takes steers now.
        required: Stubs of the outputs that it needs from the client.
        waiting: Its submissions without a verdict, in order.
        claimed: Whether the client's own create has started, and not taken them yet.
    """

    id: str
    lane: str | None
    send: Callable[[dict[str, Any]], None] = field(repr=False)
    cut: Callable[[Submission], None] = field(default=_nothing, repr=False)
    answered: Callable[[], bool] = field(default=_never, repr=False)
    refusal: str | None = None
    phase: TargetPhase = TargetPhase.ACTIVE
    required: list[dict[str, Any]] = field(default_factory=list)
    waiting: list[Submission] = field(default_factory=list)
    claimed: bool = False


@dataclass(slots=True, eq=False)
class Submission:
    """One steer of a response.

    Attributes:
        id: Its id.
        of: The response it steers.
        input: Its input as the client sent it.
        messages: The same as typed user messages.
        size: Bytes of its frame.
        state: Where it is on its way to a verdict.
        since: When it came, in seconds of the monotonic clock.
    """

    id: str
    of: Target = field(repr=False)
    input: Any = field(repr=False)
    messages: list[dict[str, Any]] = field(repr=False)
    size: int
    state: SubmissionState = SubmissionState.ADMITTING
    since: float = 0.0


class Ledger:
    """The targets and submissions of one connection.

    Args:
        max_waiting: Submissions that may wait for one response.
        max_bytes: Bytes of their frames.
        max_targets: Responses to remember, so that a late steer learns why it is refused.
    """

    def __init__(
        self, max_waiting: int = 32, max_bytes: int = 1 << 20, max_targets: int = 1024
    ) -> None:
        self._max_waiting = max_waiting
        self._max_bytes = max_bytes
        self._max_targets = max_targets
        self._targets: OrderedDict[str, Target] = OrderedDict()
        #: The targets in phase WAITING, by id.
        self.awaiting_outputs: dict[str, Target] = {}

    def find(self, response_id: str) -> Target | None:
        """Return the target of that id, if it is of this connection and not long over."""
        return self._targets.get(response_id)

    def open(self, target: Target) -> None:
        """Register a response as steerable: its `response.created` was sent."""
        self._targets[target.id] = target

    def submit(
        self, steer_id: str, target: Target, value: Any, messages: list[dict[str, Any]], size: int
    ) -> Submission:
        """Take a submission in; it is `admitting` until its record is written.

        Args:
            steer_id: Its id.
            target: The response it steers.
            value: Its input as the client sent it.
            messages: The same as typed user messages.
            size: Bytes of its frame.

        Raises:
            SteerFault: The target takes no more.
        """
        self._check(target, size)
        submission = Submission(steer_id, target, value, messages, size)
        target.waiting.append(submission)
        return submission

    def accept(self, submission: Submission) -> None:
        """Accept a submission whose record is written. Raises SteerFault if that took too long."""
        _check_open(submission.of)
        self._step(submission, SubmissionStep.ACCEPT)

    def hold(self, target: Target) -> list[Submission]:
        """Make the accepted submissions of a waiting target pending; return them."""
        held = [one for one in target.waiting if one.state is SubmissionState.ACCEPTED]
        for submission in held:
            self._step(submission, SubmissionStep.HOLD)
        return held

    def end(
        self, target: Target, phase: TargetPhase, required: list[dict[str, Any]] | None = None
    ) -> None:
        """Move a target to the phase that follows its terminal event.

        Args:
            target: The target.
            phase: Its new phase.
            required: Stubs of the outputs that it needs from the client.
        """
        target.phase = phase
        if phase is TargetPhase.WAITING:
            self.awaiting_outputs[target.id] = target
        else:
            self.awaiting_outputs.pop(target.id, None)
        target.required = required or []
        target.cut = _nothing  # the callback would keep the whole response in memory
        self._forget_old()

    def bind(self, target: Target) -> list[Submission]:
        """Put every submission that waits into the successor's request, and close the target."""
        self.end(target, TargetPhase.CLOSED)
        bound = [
            one
            for one in target.waiting
            if one.state in (SubmissionState.ACCEPTED, SubmissionState.PENDING)
        ]
        for submission in bound:
            self._step(submission, SubmissionStep.BIND)
        return bound

    def commit(self, submission: Submission) -> None:
        """Commit a submission: the successor's `response.created` was sent."""
        self._step(submission, SubmissionStep.COMMIT)

    def fail(self, submission: Submission) -> None:
        """Fail a submission: its input goes back."""
        self._step(submission, SubmissionStep.FAIL)

    def drop(self) -> list[Submission]:
        """Drop and return the submissions without a verdict: the connection ends."""
        dropped = [one for target in self._targets.values() for one in target.waiting]
        for submission in dropped:
            self._step(submission, SubmissionStep.DROP)
        self._targets.clear()  # their callbacks lead back to the connection
        self.awaiting_outputs.clear()
        return dropped

    def _check(self, target: Target, size: int) -> None:
        if target.refusal is not None:
            raise SteerFault(SteerErrorCode.NOT_SUPPORTED, target.refusal)
        _check_open(target)
        taken = sum(one.size for one in target.waiting)
        if len(target.waiting) >= self._max_waiting or taken + size > self._max_bytes:
            raise SteerFault(
                SteerErrorCode.TOO_MANY,
                f"At most {self._max_waiting} submissions and {self._max_bytes} bytes may wait "
                "for one response.",
            )

    def _step(self, submission: Submission, step: SubmissionStep) -> None:
        try:
            submission.state = TRANSITIONS[submission.state, step]
        except KeyError:
            raise IllegalSubmissionStep(
                f"a submission cannot {step} while {submission.state}"
            ) from None
        if submission.state in ENDS:
            submission.of.waiting.remove(submission)

    def _forget_old(self) -> None:
        """Drop the oldest targets that are over; one with submissions is kept whatever its age."""
        for response_id in list(self._targets):
            if len(self._targets) <= self._max_targets:
                return
            target = self._targets[response_id]
            if target.phase is not TargetPhase.ACTIVE and not target.waiting:
                del self._targets[response_id]
                self.awaiting_outputs.pop(response_id, None)


def _check_open(target: Target) -> None:
    if target.phase is TargetPhase.COMPLETED:
        message = f"Response '{target.id}' has completed; create a response that continues it."
        raise SteerFault(SteerErrorCode.COMPLETED, message)
    if target.phase is TargetPhase.CLOSED:
        message = f"Response '{target.id}' takes no more input; steer the one that follows it."
        raise SteerFault(SteerErrorCode.NOT_ACTIVE, message)
