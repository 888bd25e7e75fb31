"""The frames of steering: `response.steer`, its answers, what carries steers (protocol.md 5)."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from steering.errors import SteerErrorCode, SteerFault

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Set

    from steering.targets import Submission

_FRAME_KEYS = frozenset({"type", "previous_response_id", "input"})
#: What else a frame may have on a connection that asked for it.
_EXTENDED_KEYS = frozenset({"event_id"})
_EVENT_ID = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_MESSAGE_KEYS = frozenset({"type", "role", "content"})
#: What a successor does not inherit.
_OWN = frozenset({"input", "previous_response_id"})
_PARTS = frozenset({"input_text", "input_image", "input_file"})


@dataclass(frozen=True, slots=True)
class Steer:
    """A `response.steer` frame as it came, not yet checked.

    Attributes:
        frame: The JSON of the frame.
        size: Its length in bytes.
    """

    frame: dict[str, Any]
    size: int = 0

    @property
    def event_id(self) -> str | None:
        """The client's own name for it, if the frame has one."""
        event_id: str | None = self.frame.get("event_id")
        return event_id

    @property
    def digest(self) -> bytes:
        """A digest of the values that a resend must have, too."""
        return digest_of(self.frame.get("input"))

    @property
    def target(self) -> str | None:
        """The id of the response it is for; None if it names none."""
        target = self.frame.get("previous_response_id")
        return target if isinstance(target, str) and target else None

    def messages(self, *, extended: bool = False) -> list[dict[str, Any]]:
        """Return its input as typed user messages.

        Args:
            extended: Whether its connection takes more than the reference has.

        Raises:
            SteerFault: The frame is wrong (`invalid_input`).
        """
        allowed = _FRAME_KEYS | _EXTENDED_KEYS if extended else _FRAME_KEYS
        extra = self.frame.keys() - allowed
        if extra:
            also = ", ".join(sorted(allowed - {"type"}))
            raise _invalid(f"response.steer takes no {_names(extra)}; allowed: {also}.")
        event_id = self.frame.get("event_id")
        if event_id is not None and not (
            isinstance(event_id, str) and _EVENT_ID.fullmatch(event_id)
        ):
            raise _invalid("event_id must be 1 to 64 characters of A-Z, a-z, 0-9, '_', '.', '-'.")
        if self.target is None:
            raise _invalid("previous_response_id must be the id of a response, a string.")
        value = self.frame.get("input")
        if isinstance(value, str) and value:
            return [_message([{"type": "input_text", "text": value}])]
        if not isinstance(value, list) or not value:
            raise _invalid(
                "input must be a non-empty string or a non-empty array of user messages."
            )
        return [_checked(index, message) for index, message in enumerate(value)]


def _checked(index: int, message: object) -> dict[str, Any]:
    where = f"input[{index}]"
    if not isinstance(message, dict):
        raise _invalid(f"{where} must be a user message, an object.")
    if message.get("type", "message") != "message" or message.get("role") != "user":
        raise _invalid(f"{where} must be a message of role user; nothing else can steer.")
    extra = message.keys() - _MESSAGE_KEYS
    if extra:
        raise _invalid(f"{where} has {_names(extra)}; allowed: type, role, content.")
    content = message.get("content")
    if isinstance(content, list) and content:
        for position, part in enumerate(content):
            _check_part(f"{where}.content[{position}]", part)
    elif not isinstance(content, str) or not content:
        raise _invalid(f"{where}.content must be a non-empty string or array of parts.")
    return _message(content)


def _check_part(where: str, part: object) -> None:
    kind = part.get("type") if isinstance(part, dict) else None
    if not isinstance(kind, str) or kind not in _PARTS:
        raise _invalid(f"{where} must be an input_text, input_image or input_file part.")
    if isinstance(part, dict) and kind == "input_text" and not isinstance(part.get("text"), str):
        raise _invalid(f"{where}.text must be a string.")


def _message(content: object) -> dict[str, Any]:
    return {"type": "message", "role": "user", "content": content}


def _names(keys: Set[str]) -> str:
    return ", ".join(repr(key[:64]) for key in sorted(keys))


def _invalid(message: str) -> SteerFault:
    return SteerFault(SteerErrorCode.INVALID_INPUT, message)


def digest_of(value: object) -> bytes:
    """Return a digest of a JSON value, whatever the order of its keys."""
    return hashlib.sha256(msgspec.json.encode(value, order="sorted")).digest()


def accepted(submission: Submission) -> dict[str, Any]:
    """Return `response.steer.accepted`: the gateway owns the input."""
    effective = None if submission.effective is None else submission.effective.id
    return told_accepted(submission.id, submission.named.id, effective)


def told_accepted(steer_id: str, named: str, effective: str | None) -> dict[str, Any]:
    """Return `response.steer.accepted`.

    Args:
        steer_id: The submission's id.
        named: The response that the client named.
        effective: The response that it was taken for, if that is another one.
    """
    steer = {"id": steer_id, "previous_response_id": named}
    if effective is not None:
        steer["effective_response_id"] = effective
    return {"type": "response.steer.accepted", "steer": steer}


def pending(submission: Submission, required: list[dict[str, Any]]) -> dict[str, Any]:
    """Return `response.steer.pending`: the input waits for the client's tool outputs.

    `required` are the stubs of these outputs.
    """
    return told_pending(submission.id, submission.told.id, required)


def told_pending(steer_id: str, target: str, required: Any) -> dict[str, Any]:
    """Return `response.steer.pending`.

    Args:
        steer_id: The submission's id.
        target: The response that waits for the client.
        required: The stubs of what it waits for.
    """
    return {
        "type": "response.steer.pending",
        "steer": {"id": steer_id, "previous_response_id": target},
        "reason": "waiting_for_required_input",
        "required_input": required,
    }


def failed(
    fault: SteerFault, target: str | None, value: object, steer_id: str | None = None
) -> dict[str, Any]:
    """Return `response.steer.failed`.

    Args:
        fault: Why the submission failed.
        target: The response it was for, if it named one.
        value: Its input, which goes back to the client as it came.
        steer_id: Its id, if it was accepted.
    """
    steer: dict[str, Any] = {"previous_response_id": target or "", "input": value}
    if steer_id is not None:
        steer["id"] = steer_id
    error = {"type": "invalid_request_error", "code": str(fault.code), "message": fault.message}
    return {"type": "response.steer.failed", "error": error, "steer": steer}


def inherited(parent: Mapping[str, Any], parent_id: str) -> dict[str, Any]:
    """Return the body of a successor: its parent's settings and lineage, without input.

    The steers are the input; they are bound to the create and come with it.
    """
    settings = {key: value for key, value in parent.items() if key not in _OWN}
    return {**settings, "previous_response_id": parent_id}


def steers_first(
    bound: Iterable[Submission], items: Iterable[dict[str, Any]]
) -> list[dict[str, Any]]:
    """Return the input of a create that carries steers: these in order, then its own items."""
    return [*(message for one in bound for message in one.messages), *items]
