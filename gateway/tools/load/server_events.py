"""The fields that the checks read of a server event; msgspec skips all others."""

from __future__ import annotations

from typing import Any

import msgspec

#: Key of a create's `metadata` that holds its marker; a gateway echoes it.
MARKER = "multilane_load"


class ResponseField(msgspec.Struct, gc=False):
    """The response object of created, in_progress and the terminal event."""

    id: str
    status: str | None = None
    previous_response_id: str | None = None
    metadata: Any = None
    output: list[Any] = []  # msgspec gives each instance its own
    error: Any = None
    incomplete_details: Any = None

    @property
    def marker(self) -> str | None:
        """The marker of the create, if the gateway echoes it."""
        return self.metadata.get(MARKER) if isinstance(self.metadata, dict) else None

    @property
    def reason(self) -> str | None:
        """Why the response is incomplete."""
        details = self.incomplete_details
        return details.get("reason") if isinstance(details, dict) else None


class SteerField(msgspec.Struct, gc=False):
    """The steer that a `response.steer.*` event is about."""

    previous_response_id: str = ""
    id: str | None = None
    input: Any = None


class ServerEvent(msgspec.Struct, gc=False):
    """One server event. -1 and None stand for an absent field.

    No field that a check reads may be either on the wire. The text of a part or call has one of
    several names, by the type of the event (text_checks.py).
    """

    type: str
    sequence_number: int = -1
    stream_id: str | None = None
    output_index: int = -1
    content_index: int = -1
    summary_index: int = -1
    item_id: str | None = None
    delta: Any = None
    text: Any = None
    refusal: Any = None
    arguments: Any = None
    input: Any = None
    code: Any = None
    item: Any = None
    response: ResponseField | None = None
    error: Any = None
    steer: SteerField | None = None


#: Reads one frame; raises msgspec.MsgspecError (a ValueError) for anything but an event.
read_event = msgspec.json.Decoder(ServerEvent).decode


def error_code(event: ServerEvent) -> str:
    """Return the code under which an `error` or `response.failed` event is counted."""
    error = event.error if event.response is None else event.response.error
    if isinstance(error, dict):
        return str(error.get("code") or error.get("type") or "unknown")
    return str(event.code or "unknown")
