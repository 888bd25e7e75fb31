"""SHELL: takes steers in, has them written down, and tells the client what becomes of them."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import anyio

from steering.errors import SteerErrorCode, SteerFault, StoreUnavailable
from steering.frames import accepted, failed, pending
from steering.ids import steer_id
from steering.ledger import Ledger, Submission, TargetPhase
from steering.states import SubmissionState

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from steering.clerk import Clerk
    from steering.frames import Steer
    from steering.ledger import Target
    from steering.stores.base import SteerRecord


class Desk:
    """The steering of one connection (protocol.md 5).

    `clerk` writes down what the whole process decides, `key_id` says whose submissions these are.
    `reply` sends an event that belongs to no response of this connection.
    """

    def __init__(
        self,
        ledger: Ledger,
        clerk: Clerk,
        key_id: str,
        reply: Callable[[dict[str, Any]], None],
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._ledger = ledger
        #: Responses that wait for the client's outputs, by id. While there are none, no create has
        #: anything to `claim` or to `take`.
        self.awaiting_outputs: Mapping[str, Target] = ledger.awaiting_outputs
        self._clerk = clerk
        self._key_id = key_id
        self._reply = reply
        self._clock = clock
        self._stopped: str | None = None
        # Submission id -> whether it was answered; there while its record is being written.
        self._admitting: dict[str, anyio.Event] = {}

    def open(self, target: Target) -> None:
        """A response was created."""
        self._ledger.open(target)

    def stop(self, why: str) -> None:
        """Nothing is created any more on this connection, so nothing more can be steered."""
        self._stopped = why

    def receive(self, steer: Steer) -> Submission | None:
        """Take a steer in, to be admitted by `admit`; or fail it at once and return None."""
        target_id = steer.target
        target = self._ledger.find(target_id) if target_id is not None else None
        try:
            messages = steer.messages()
            if target is None:
                message = f"Response '{target_id}' is not of this connection, or long over."
                raise SteerFault(SteerErrorCode.NOT_FOUND, message)
            if self._stopped is not None:
                raise SteerFault(SteerErrorCode.NOT_ACTIVE, self._stopped)
            name = steer_id(target.id)
            submission = self._ledger.submit(
                name, target, steer.frame["input"], messages, steer.size
            )
        except SteerFault as fault:
            send = self._reply if target is None else target.send
            send(failed(fault, target_id, steer.frame.get("input")))
            return None
        self._admitting[name] = anyio.Event()
        return submission

    async def admit(self, submission: Submission) -> None:
        """Have a submission written down, then accept it; its target is asked to stop.

        Nothing is accepted that was not written, and nothing after its target's last chance.
        Records are written at the same time, but answered in order: the order is all that tells a
        client which of its steers has which id.
        """
        target = submission.of
        try:
            fault = await self._append(submission)
            await self._answered(target, before=submission)
            if submission.state is SubmissionState.ADMITTING:
                self._answer(submission, fault)
        finally:
            self._admitting.pop(submission.id).set()

    async def end(
        self, response_id: str, *, completed: bool, required: list[dict[str, Any]]
    ) -> list[Submission]:
        """The response ended as a valid parent; returns what its successor is to carry, if any.

        `required` are the outputs that the client owes it: then its submissions wait for the
        client's own create. What is being written when the response ends is waited for.
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
            self._write(bound, SubmissionState.BOUND)
            return bound
        self._ledger.end(target, TargetPhase.COMPLETED if completed else TargetPhase.CLOSED)
        return []

    def fail_target(self, response_id: str) -> None:
        """The response failed: nothing can follow it."""
        target = self._ledger.find(response_id)
        if target is None:
            return
        self._ledger.end(target, TargetPhase.CLOSED)
        message = f"Response '{response_id}' failed, so no successor can continue it."
        for submission in tuple(target.waiting):
            if submission.state is not SubmissionState.ADMITTING:
                self._fail(submission, SteerFault(SteerErrorCode.SUCCESSOR_FAILED, message))

    def claim(self, response_id: str | None, lane: str | None) -> None:
        """A client's own create starts: if it continues this response, `take` is to follow."""
        target = self._waiting(response_id, lane)
        if target is not None:
            target.answered = _always

    async def take(self, response_id: str | None, lane: str | None) -> list[Submission]:
        """What a client's own create that continues the response is to carry.

        Nothing on another lane than the response's: that is a fork. What was sent before the create
        and is still being written is waited for.
        """
        target = self._waiting(response_id, lane)
        if target is None:
            return []
        await self._answered(target)
        bound = self._ledger.bind(target)
        self._write(bound, SubmissionState.BOUND)
        return bound

    def commit(self, bound: Sequence[Submission], successor: str) -> None:
        """The successor's `response.created` was sent."""
        for submission in bound:
            self._ledger.commit(submission)
        self._write(bound, SubmissionState.COMMITTED, successor=successor)

    def fail(self, bound: Sequence[Submission], why: str) -> None:
        """The successor failed before its `response.created`: the inputs go back. Idempotent."""
        message = f"The successor could not be created: {why}"
        for submission in bound:
            if submission.state is SubmissionState.BOUND:
                self._fail(submission, SteerFault(SteerErrorCode.SUCCESSOR_FAILED, message))

    def close(self) -> None:
        """The connection is gone: what has no verdict is dropped."""
        for submission in self._ledger.drop():
            self._write([submission], SubmissionState.DROPPED, reason="connection_closed")

    async def _append(self, submission: Submission) -> SteerFault | None:
        try:
            await self._clerk.append(self._record(submission))
        except StoreUnavailable:
            message = "Steering is not available right now; the response goes on unsteered."
            return SteerFault(SteerErrorCode.UNAVAILABLE, message)
        return None

    async def _answered(self, target: Target, *, before: Submission | None = None) -> None:
        """Wait until the target's submissions so far, or those `before` one, were answered."""
        for submission in tuple(target.waiting):
            if submission is before:
                return
            if submission.state is SubmissionState.ADMITTING:
                await self._admitting[submission.id].wait()

    def _answer(self, submission: Submission, fault: SteerFault | None) -> None:
        target = submission.of
        try:
            if fault is not None:
                raise fault
            self._ledger.accept(submission)
        except SteerFault as refused:
            self._fail(submission, refused)
            return
        target.send(accepted(submission))
        if target.phase is TargetPhase.WAITING:
            self._hold(target)
        else:
            target.cut(submission)

    def _waiting(self, response_id: str | None, lane: str | None) -> Target | None:
        target = self.awaiting_outputs.get(response_id) if response_id is not None else None
        return target if target is not None and target.lane == lane else None

    def _hold(self, target: Target) -> None:
        """Tell the client that its outputs are waited for, unless they are here already."""
        if target.answered():
            return
        held = self._ledger.hold(target)
        for submission in held:
            target.send(pending(submission, target.required))
        self._write(held, SubmissionState.PENDING)

    def _fail(self, submission: Submission, fault: SteerFault) -> None:
        self._ledger.fail(submission)
        submission.of.send(failed(fault, submission.of.id, submission.input, submission.id))
        self._write([submission], SubmissionState.FAILED, reason=str(fault.code))

    def _write(
        self,
        submissions: Sequence[Submission],
        state: SubmissionState,
        *,
        reason: str | None = None,
        successor: str | None = None,
    ) -> None:
        if submissions:
            ids = [submission.id for submission in submissions]
            self._clerk.settle(submissions[0].of.id, ids, state, reason, successor)

    def _record(self, submission: Submission) -> SteerRecord:
        now = self._clock()
        return self._clerk.record(
            submission.id, self._key_id, submission.of.id, submission.input, now
        )


def _always() -> bool:
    return True
