"""MACHINE: every submission of one connection, from its arrival to its one verdict.

Decides synchronously and knows no I/O (protocol.md 5). A response is a target from its
`response.created` on; what becomes of its submissions follows from how it ends.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Any

from steering.errors import IllegalSubmissionStep, SteerErrorCode, SteerFault
from steering.states import ENDS, TRANSITIONS, SubmissionState, SubmissionStep
from steering.targets import Submission, Target, TargetPhase, never, nothing

if TYPE_CHECKING:
    from collections.abc import Sequence


class Ledger:
    """The targets and submissions of one connection.

    Args:
        max_waiting: Submissions that may wait for one response.
        max_bytes: Bytes of their frames.
        max_targets: Responses to remember, so that a late steer learns why it is refused.
        follow: Whether a steer of a response that was steered is taken for what follows it.
    """

    def __init__(
        self,
        max_waiting: int = 32,
        max_bytes: int = 1 << 20,
        max_targets: int = 1024,
        *,
        follow: bool = True,
    ) -> None:
        self._max_waiting = max_waiting
        self._max_bytes = max_bytes
        self._max_targets = max_targets
        self._follow = follow
        self._targets: OrderedDict[str, Target] = OrderedDict()
        #: The targets in phase WAITING, by id.
        self.awaiting_outputs: dict[str, Target] = {}

    def find(self, response_id: str) -> Target | None:
        """Return the target of that id, if it is of this connection and not long over."""
        return self._targets.get(response_id)

    def open(self, target: Target, carried: Sequence[Submission] = ()) -> list[Submission]:
        """Register a response as steerable: its `response.created` was sent.

        Args:
            target: The response.
            carried: The submissions in its input.

        Returns:
            The accepted submissions that waited for it to begin.
        """
        self._targets[target.id] = target
        asked = _asked(carried)
        if asked is None or asked.before is None:
            return []
        asked.before.next = target
        target.waiting, asked.waiting = asked.waiting, []
        for submission in target.waiting:
            submission.of = target
        waited = [one for one in target.waiting if one.state is SubmissionState.ACCEPTED]
        for submission in waited:
            submission.effective = target
        return waited

    def submit(
        self,
        steer_id: str,
        target: Target,
        value: Any,
        messages: list[dict[str, Any]],
        size: int,
        event_id: str | None = None,
    ) -> Submission:
        """Take a submission in; it is `admitting` until its record is written.

        It is taken for the live end of the chain that grew from its target by steering (D52).

        Args:
            steer_id: Its id.
            target: The response that the client names.
            value: Its input as the client sent it.
            messages: The same as typed user messages.
            size: Bytes of its frame.
            event_id: Its client's own name for it.

        Raises:
            SteerFault: The target takes no more.
        """
        live = target
        while live.next is not None:
            live = live.next
        self._check(live, size)
        submission = Submission(steer_id, target, live, value, messages, size)
        live.waiting.append(submission)
        if event_id is not None:
            submission.event_id, target.keyed[event_id] = event_id, submission
        return submission

    def accept(self, submission: Submission) -> None:
        """Accept a submission whose record is written. Raises SteerFault if that took too long."""
        target = submission.of
        _check_open(target)
        self._step(submission, SubmissionStep.ACCEPT)
        if target is not submission.named and target.phase is not TargetPhase.ASKED:
            submission.effective = target

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
        target.cut = nothing  # the callback would keep the whole response in memory
        self._forget_old()

    def bind(self, target: Target) -> list[Submission]:
        """Put every submission that waits into the successor's request, and close the target.

        What is still being admitted waits for the successor to begin.
        """
        self.end(target, TargetPhase.CLOSED)
        bound = [
            one
            for one in target.waiting
            if one.state in (SubmissionState.ACCEPTED, SubmissionState.PENDING)
        ]
        for submission in bound:
            self._step(submission, SubmissionStep.BIND)
        if bound and self._follow:
            late = [one for one in target.waiting if one.state is SubmissionState.ADMITTING]
            target.waiting = bound[:]
            asked = Target(target.id, target.lane, target.send, phase=TargetPhase.ASKED)
            target.next, asked.before, asked.waiting = asked, target, late
            for submission in late:
                submission.of = asked
        return bound

    def commit(self, submission: Submission) -> None:
        """Commit a submission: the successor's `response.created` was sent."""
        self._step(submission, SubmissionStep.COMMIT)

    def forgo(self, bound: Sequence[Submission]) -> list[Submission]:
        """Close the successor that carries these: it will not begin.

        Returns what has to fail: these, as far as they have no verdict, and what waits for it.
        """
        asked = _asked(bound)
        gone = [one for one in bound if one.state is SubmissionState.BOUND]
        if asked is not None and asked.before is not None:
            gone += [one for one in asked.waiting if one.state is SubmissionState.ACCEPTED]
            asked.before.next = None
            asked.before.waiting += asked.waiting
            for submission in asked.waiting:
                submission.of = asked.before
        return gone

    def fail(self, submission: Submission) -> None:
        """Fail a submission: its input goes back. One that was never accepted leaves no key."""
        refused = submission.state is SubmissionState.ADMITTING
        self._step(submission, SubmissionStep.FAIL)
        if refused and submission.event_id is not None:
            del submission.named.keyed[submission.event_id]

    def drop(self) -> list[Submission]:
        """Drop and return the submissions without a verdict: the connection ends."""
        asked = [one.next for one in self._targets.values() if one.next and one.next.before]
        targets = [*self._targets.values(), *asked]
        dropped = [one for target in targets for one in target.waiting]
        for submission in dropped:
            self._step(submission, SubmissionStep.DROP)
        # Submissions refer to targets, and these to each other and, by callbacks, to the
        # connection, whose creates carry submissions: no such cycle may stay (D13).
        for target in targets:
            target.next = target.before = None
            target.cut, target.answered = nothing, never
        self._targets.clear()
        self.awaiting_outputs.clear()
        return dropped

    def _check(self, target: Target, size: int) -> None:
        _check_open(target)
        bound = [] if target.before is None else target.before.waiting
        taken = [one.size for one in (*bound, *target.waiting)]
        if len(taken) >= self._max_waiting or sum(taken) + size > self._max_bytes:
            raise SteerFault(
                SteerErrorCode.TOO_MANY,
                f"At most {self._max_waiting} submissions and {self._max_bytes} bytes may wait "
                "for one response and those that follow it.",
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


def _asked(carried: Sequence[Submission]) -> Target | None:
    """Return the successor that carries these, as long as it has not begun."""
    following = carried[0].of.next if carried else None
    return following if following is not None and following.before is not None else None


def _check_open(target: Target) -> None:
    if target.refusal is not None:
        raise SteerFault(SteerErrorCode.NOT_SUPPORTED, target.refusal)
    if target.phase is TargetPhase.COMPLETED:
        message = f"Response '{target.id}' has completed; create a response that continues it."
        raise SteerFault(SteerErrorCode.COMPLETED, message)
    if target.phase is TargetPhase.CLOSED:
        message = f"Response '{target.id}' takes no more input; steer the one that follows it."
        raise SteerFault(SteerErrorCode.NOT_ACTIVE, message)
