"""SHELL: takes steers in, has them written down, and sends the client each verdict."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio

from steering.clerk import Records
from steering.errors import SteerErrorCode, SteerFault, StoreUnavailable
from steering.frames import accepted, failed, pending
from steering.ids import steer_id
from steering.repeats import Repeats, reused
from steering.states import SubmissionState
from steering.targets import TargetPhase

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping, Sequence

    from steering.clerk import Clerk
    from steering.frames import Steer
    from steering.ledger import Ledger
    from steering.targets import Submission, Target


class Desk:
    """The steering of one connection (protocol.md 5).

    Args:
        ledger: The connection's submissions.
        clerk: Writes down what the whole process decides.
        key_id: Names the client's key.
        reply: Sends an event that belongs to no response of this connection.
        extended: Whether its client asked for more than the reference has.
        clock: Seconds since the epoch.
    """

    def __init__(
        self,
        ledger: Ledger,
        clerk: Clerk,
        key_id: str,
        reply: Callable[[dict[str, Any]], None],
        *,
        extended: bool = False,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._ledger = ledger
        #: Responses that wait for the client's outputs, by id. While there are none, no create has
        #: anything to `claim` or to `take`.
        self.awaiting_outputs: Mapping[str, Target] = ledger.awaiting_outputs
        self._counters = clerk.steers
        self._records = Records(clerk, key_id, clock)
        self._reply = reply
        self._extended = extended
        self._repeats = Repeats(clerk, key_id, reply)
        self._stopped: str | None = None
        # The submissions whose records are being written: id -> set once the client has an answer.
        self._admitting: dict[str, anyio.Event] = {}

    def open(self, target: Target, carried: Sequence[Submission] = ()) -> None:
        """Register a response as steerable, and commit what it carries: `response.created` is sent.

        Whatever waited for it to begin stops it now.
        """
        waited = self._ledger.open(target, carried)
        self.commit(carried, target.id)
        self._records.write(waited, SubmissionState.ACCEPTED)
        for submission in waited:
            if target.refusal is not None:
                fault = SteerFault(SteerErrorCode.SUCCESSOR_FAILED, target.refusal)
                self._fail(submission, fault)
            else:
                target.cut(submission)

    def stop(self, why: str) -> None:
        """Refuse every further steer: nothing more is created on this connection."""
        self._stopped = why

    def receive(self, steer: Steer) -> Callable[[], Coroutine[Any, Any, None]] | None:
        """Take a steer in, or fail it at once; return what is left to do, if anything is."""
        target_id = steer.target
        target = self._ledger.find(target_id) if target_id is not None else None
        try:
            messages = steer.messages(extended=self._extended)
            event_id = steer.event_id
            if target is None:
                message = f"Response '{target_id}' is not of this connection, or long over."
                unknown = SteerFault(SteerErrorCode.NOT_FOUND, message)
                if event_id is None:
                    raise unknown
                return partial(self._repeats.answer, steer, event_id, unknown)
            if event_id is not None and (sent := target.keyed.get(event_id)) is not None:
                if sent.digest != steer.digest:
                    raise reused(event_id)
                return partial(self._repeat, sent, steer)
            if self._stopped is not None:
                raise SteerFault(SteerErrorCode.NOT_ACTIVE, self._stopped)
            submission = self._ledger.submit(
                *(steer_id(target.id), target, steer.frame["input"], messages, steer.size),
                event_id,
            )
        except SteerFault as fault:
            send = self._reply if target is None else target.send
            send(failed(fault, target_id, steer.frame.get("input")))
            self._counters.outcomes[SubmissionState.FAILED, fault.code] += 1
            return None
        submission.since = time.monotonic()
        if event_id is not None:
            submission.digest = steer.digest
        self._admitting[submission.id] = anyio.Event()
        return partial(self.admit, submission)

    async def _repeat(self, sent: Submission, steer: Steer) -> None:
        """Send again what a submission came to; if it was refused, the resend is a new one."""
        if sent.state is SubmissionState.ADMITTING:
            await self._admitting[sent.id].wait()
        if sent.named.keyed.get(steer.event_id or "") is not sent:
            if (rest := self.receive(steer)) is not None:
                await rest()
            return
        told = sent.told
        sent.named.send(accepted(sent))
        if sent.state is SubmissionState.PENDING:
            told.send(pending(sent, sent.of.required))
        elif sent.fault is not None:
            told.send(failed(sent.fault, told.id, steer.frame["input"], sent.id))

    async def admit(self, submission: Submission) -> None:
        """Have a submission written down, accept it and ask its target to stop (D15).

        A submission is accepted only once it is written, and never after its target's last chance.
        Records are written at the same time, but answered in order: only the order tells a client
        which of its steers has which id.
        """
        try:
            fault = await self._append(submission)
            await self._answered(submission.of, before=submission)
            if submission.state is SubmissionState.ADMITTING:
                self._answer(submission, fault)
        finally:
            self._admitting.pop(submission.id).set()

    async def end(
        self, response_id: str, *, completed: bool, required: list[dict[str, Any]]
    ) -> list[Submission]:
        """End a response as a valid parent; return the submissions its successor has to carry.

        Waits for what is being written when the response ends.

        Args:
            response_id: The response.
            completed: Whether it ended by itself.
            required: Stubs of the outputs that it needs from the client; with any, its submissions
                wait for the client's own create.
        """
        target = self._ledger.find(response_id)
        if target is None or target.phase is not TargetPhase.ACTIVE:
            return []
        if self._admitting:
            await self._answered(target)
        if required and (completed or target.waiting):
            self._ledger.end(target, TargetPhase.WAITING, required)
            self._hold(target)
            return []
        if any(submission.state is SubmissionState.ACCEPTED for submission in target.waiting):
            bound = self._ledger.bind(target)
            self._records.write(bound, SubmissionState.BOUND)
            return bound
        self._ledger.end(target, TargetPhase.COMPLETED if completed else TargetPhase.CLOSED)
        return []

    def fail_target(self, response_id: str, why: str = "failed") -> None:
        """Fail the submissions of a response that nothing can follow. `why` says what it did."""
        target = self._ledger.find(response_id)
        if target is None:
            return
        self._ledger.end(target, TargetPhase.CLOSED)
        message = f"Response '{response_id}' {why}, so no successor can continue it."
        for submission in tuple(target.waiting):
            if submission.state is not SubmissionState.ADMITTING:
                self._fail(submission, SteerFault(SteerErrorCode.SUCCESSOR_FAILED, message))

    def claim(self, response_id: str | None, lane: str | None) -> None:
        """Note that a client's create starts; if it continues this response, call `take` next."""
        target = self._waiting(response_id, lane)
        if target is not None:
            target.claimed = True

    def disclaim(self, response_id: str | None, lane: str | None) -> None:
        """Note that a client's create is gone that was to continue this response.

        If it took no submissions, these wait for another such create.
        """
        target = self._waiting(response_id, lane)
        if target is not None and self._stopped is None:
            target.claimed = False
            self._hold(target)

    async def take(self, response_id: str | None, lane: str | None) -> list[Submission]:
        """Return what a client's own create that continues the response has to carry.

        On another lane than the response's that is nothing: the create is a fork. Waits for what
        was sent before the create and is still being written.
        """
        target = self._waiting(response_id, lane)
        if target is None:
            return []
        await self._answered(target)
        bound = self._ledger.bind(target)
        self._records.write(bound, SubmissionState.BOUND)
        return bound

    def commit(self, carried: Sequence[Submission], successor: str) -> None:
        """Commit the submissions of a successor: its `response.created` was sent."""
        now, seconds = time.monotonic(), self._counters.successors
        for submission in carried:
            self._ledger.commit(submission)
            seconds.append(now - submission.since)
            submission.input, submission.messages = None, []  # its key may keep it for long
        self._records.write(carried, SubmissionState.COMMITTED, successor=successor)

    def fail(self, bound: Sequence[Submission], why: str) -> None:
        """Give inputs back: their successor failed before its `response.created`. Idempotent.

        So do those that waited for that successor to begin.
        """
        message = f"The successor could not be created: {why}"
        for submission in self._ledger.forgo(bound):
            self._fail(submission, SteerFault(SteerErrorCode.SUCCESSOR_FAILED, message))

    def close(self) -> None:
        """Drop what has no verdict: the connection is gone."""
        for submission in self._ledger.drop():
            self._records.write([submission], SubmissionState.DROPPED, reason="connection_closed")

    async def _append(self, submission: Submission) -> SteerFault | None:
        try:
            await self._records.append(submission)
        except StoreUnavailable:
            message = "Steering is not available right now; the response goes on unsteered."
            return SteerFault(SteerErrorCode.UNAVAILABLE, message)
        return None

    async def _answered(self, target: Target, *, before: Submission | None = None) -> None:
        """Wait until the target's submissions so far, or those before `before`, have an answer."""
        for submission in tuple(target.waiting):
            if submission is before:
                return
            if submission.state is SubmissionState.ADMITTING:
                await self._admitting[submission.id].wait()

    def _answer(self, submission: Submission, fault: SteerFault | None) -> None:
        target = submission.of
        if fault is not None:
            self._fail(submission, fault)
            return
        try:
            self._ledger.accept(submission)
        except SteerFault as refused:
            self._fail(submission, refused)
            return
        submission.named.send(accepted(submission))
        self._counters.accepted.append(time.monotonic() - submission.since)
        if target.phase is TargetPhase.WAITING:
            self._hold(target)
        else:
            target.cut(submission)

    def _waiting(self, response_id: str | None, lane: str | None) -> Target | None:
        target = self.awaiting_outputs.get(response_id) if response_id is not None else None
        return target if target is not None and target.lane == lane else None

    def _hold(self, target: Target) -> None:
        """Send `response.steer.pending`, unless the create with the outputs waits already."""
        if target.claimed or target.answered():
            return
        held = self._ledger.hold(target)
        for submission in held:
            target.send(pending(submission, target.required))
        self._records.write(held, SubmissionState.PENDING, required=target.required)

    def _fail(self, submission: Submission, fault: SteerFault) -> None:
        self._ledger.fail(submission)
        told = submission.told
        told.send(failed(fault, told.id, submission.input, submission.id))
        submission.fault, submission.input = fault, None  # a resend has the input
        self._records.write([submission], SubmissionState.FAILED, reason=str(fault.code))
