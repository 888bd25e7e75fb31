"""SHELL: answers steers that are sent again elsewhere by what the store has (protocol.md 5)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from steering.errors import SteerErrorCode, SteerFault, StoreUnavailable
from steering.frames import digest_of, failed, told_accepted, told_pending
from steering.states import SubmissionState

if TYPE_CHECKING:
    from collections.abc import Callable

    from steering.clerk import Clerk
    from steering.frames import Steer
    from steering.stores.base import SteerRecord

#: The input of a record that is broken has a digest of none.
_value = msgspec.json.Decoder()


class Repeats:
    """Answers resends of steers whose response is not of this connection (D54).

    Args:
        clerk: Knows what was written.
        key_id: Names the client's key.
        reply: Sends an event that belongs to no response of this connection.
    """

    def __init__(self, clerk: Clerk, key_id: str, reply: Callable[[dict[str, Any]], None]) -> None:
        self._clerk = clerk
        self._key_id = key_id
        self._reply = reply

    async def answer(self, steer: Steer, event_id: str, unknown: SteerFault) -> None:
        """Send again what a steer came to.

        Args:
            steer: The steer, checked.
            event_id: The client's own name for it.
            unknown: What it fails with if nothing is known of it.
        """
        target, value = steer.target or "", steer.frame["input"]
        try:
            record = await self._clerk.find(self._key_id, target, event_id)
        except StoreUnavailable:
            fault = SteerFault(SteerErrorCode.UNAVAILABLE, "Nobody knows now what became of it.")
            self._reply(failed(fault, target, value))
            return
        if record is None or digest_of(_value.decode(record.input)) != steer.digest:
            fault = unknown if record is None else reused(event_id)
            self._reply(failed(fault, target, value))
            return
        self._reply(told_accepted(record.id, record.target, record.effective))
        self._tell_state(record, value)

    def _tell_state(self, record: SteerRecord, value: object) -> None:
        told = record.effective or record.target
        if record.state is SubmissionState.PENDING:
            required = _value.decode(record.required or b"[]")
            self._reply(told_pending(record.id, told, required))
        elif record.state is SubmissionState.FAILED:
            fault = SteerFault(SteerErrorCode.SUCCESSOR_FAILED, "No successor could be created.")
            self._reply(failed(fault, told, value, record.id))
        elif record.state is SubmissionState.DROPPED:
            message = "Its connection ended before it had a successor; send it again by a new name."
            fault = SteerFault(SteerErrorCode.NOT_ACTIVE, message)
            self._reply(failed(fault, told, value, record.id))


def reused(event_id: str) -> SteerFault:
    """Return the fault of a steer whose `event_id` is that of another one."""
    message = f"event_id '{event_id}' is that of another steer of this response."
    return SteerFault(SteerErrorCode.INVALID_INPUT, message)
