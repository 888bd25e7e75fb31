"""SHELL: takes steers in, has them written down, and tells the client what becomes of them."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import anyio

from steering.errors import Code, SteerFault
from steering.frames import accepted, failed, pending
from steering.ids import steer_id
from steering.ledger import Ledger, Phase, Submission
from steering.states import State
from steering.stores.base import Record, StoreUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from steering.clerk import Clerk
    from steering.frames import Steer
    from steering.ledger import Target


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
        self._clerk = clerk
        self._key_id = key_id
        self._reply = reply
        self._clock = clock
        # Records are written one after another, so that they stand in order of submission.
        self._turn = anyio.Lock()

    def open(
        self,
        response_id: str,
        send: Callable[[dict[str, Any]], None],
        cut: Callable[[], None],
        refusal: str | None = None,
    ) -> None:
        """A response was created. `send` numbers an event as its own, `cut` asks it to stop.

        `refusal` says why it cannot be steered; None: it can.
        """
        self._ledger.open(response_id, send, cut, refusal)

    def receive(self, steer: Steer) -> Submission | None:
        """Take a steer in or fail it, at once. A submission is to be admitted by `admit`."""
        target = self._ledger.find(steer.target) if steer.target is not None else None
        try:
            messages = steer.messages()
            if target is None:
                message = f"Response '{steer.target}' is not of this connection, or long over."
                raise SteerFault(Code.NOT_FOUND, message)
            name = steer_id(target.id)
            return self._ledger.submit(name, target, steer.frame["input"], messages, steer.size)
        except SteerFault as fault:
            send = self._reply if target is None else target.send
            send(failed(fault, steer.target, steer.frame.get("input")))
            return None

    async def admit(self, submission: Submission) -> None:
        """Have a submission written down, then accept it; its target is asked to stop.

        Nothing is accepted that was not written, and nothing after its target's last chance.
        """
        target = submission.of
        async with self._turn:
            if submission.state is not State.ADMITTING:
                return
            try:
                await self._clerk.append(self._record(submission))
            except StoreUnavailable:
                message = "Steering is not available right now; the response goes on unsteered."
                self._fail(submission, SteerFault(Code.UNAVAILABLE, message))
                return
            if target.phase in (Phase.COMPLETED, Phase.CLOSED):
                message = f"Response '{target.id}' takes no more input."
                self._fail(submission, SteerFault(Code.NOT_ACTIVE, message))
                return
            self._ledger.accept(submission)
            target.send(accepted(submission))
        if target.phase is Phase.WAITING:
            self._hold(target)
        else:
            target.cut()

    async def end(
        self,
        response_id: str,
        *,
        completed: bool,
        required: list[dict[str, Any]],
        answered: bool,
    ) -> list[Submission]:
        """The response ended as a valid parent; returns what its successor is to carry, if any.

        `required` are the outputs that the client owes it: then its submissions wait for the
        client's own create; it is not told so where that is there already (`answered`). What is
        being written when the response ends is waited for.
        """
        target = self._ledger.find(response_id)
        if target is None or target.phase is not Phase.ACTIVE:
            return []
        if target.admitting:
            async with self._turn:
                pass
        if required and (completed or target.waiting):
            self._ledger.end(target, Phase.WAITING, required)
            if not answered:
                self._hold(target)
            return []
        if target.waiting:
            return self._bind(target)
        self._ledger.end(target, Phase.COMPLETED if completed else Phase.CLOSED, [])
        return []

    def fail_target(self, response_id: str) -> None:
        """The response failed: nothing can follow it."""
        target = self._ledger.find(response_id)
        if target is None:
            return
        self._ledger.end(target, Phase.CLOSED, [])
        message = f"Response '{response_id}' failed, so no successor can continue it."
        for submission in tuple(target.waiting):
            if submission.state is not State.ADMITTING:
                self._fail(submission, SteerFault(Code.SUCCESSOR_FAILED, message))

    def take(self, response_id: str) -> list[Submission]:
        """What an explicit create that continues the response on its lane is to carry."""
        target = self._ledger.find(response_id)
        if target is None or target.phase is not Phase.WAITING:
            return []
        return self._bind(target)

    def commit(self, bound: Sequence[Submission], successor: str) -> None:
        """The successor's `response.created` was sent."""
        for submission in bound:
            self._ledger.commit(submission)
        self._write(bound, State.COMMITTED, successor=successor)

    def fail(self, bound: Sequence[Submission], why: str) -> None:
        """The successor failed before its `response.created`: the inputs go back. Idempotent."""
        message = f"The successor could not be created: {why}"
        for submission in bound:
            if submission.state is State.BOUND:
                self._fail(submission, SteerFault(Code.SUCCESSOR_FAILED, message))

    def close(self) -> None:
        """The connection is gone: what has no verdict is dropped."""
        for submission in self._ledger.drop():
            self._write([submission], State.DROPPED, reason="connection_closed")

    def _bind(self, target: Target) -> list[Submission]:
        bound = self._ledger.bind(target)
        self._write(bound, State.BOUND)
        return bound

    def _hold(self, target: Target) -> None:
        held = self._ledger.hold(target)
        for submission in held:
            target.send(pending(submission, target.required))
        self._write(held, State.PENDING)

    def _fail(self, submission: Submission, fault: SteerFault) -> None:
        self._ledger.fail(submission)
        submission.of.send(failed(fault, submission.of.id, submission.input, submission.id))
        self._write([submission], State.FAILED, reason=str(fault.code))

    def _write(
        self,
        submissions: Sequence[Submission],
        state: State,
        *,
        reason: str | None = None,
        successor: str | None = None,
    ) -> None:
        if submissions:
            ids = [submission.id for submission in submissions]
            self._clerk.settle(submissions[0].of.id, ids, state, reason, successor)

    def _record(self, submission: Submission) -> Record:
        now = self._clock()
        return self._clerk.record(
            submission.id, self._key_id, submission.of.id, submission.input, now
        )
