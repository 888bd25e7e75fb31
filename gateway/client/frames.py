"""Pure: what a client sent -> a create, a steer, a cancel, or the error to answer with."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from gateway.client.create_fields import FIELDS, wrong_type
from lanes.codec import decode
from lanes.errors import ClientFault
from lanes.frames import CANCEL, Cancel, Create
from lanes.history.entries import COMPACTION_TRIGGER
from steering.frames import Steer

_STREAM_ID = re.compile(r"[A-Za-z0-9_.-]{1,256}")
#: Keys that never go upstream: the envelope, and `stream`, which is implicit here.
_ENVELOPE = frozenset({"type", "stream_id", "generate", "event_id", "stream"})
_NOT_UTF8 = "a string is not UTF-8"
#: The decoder's messages, in words for whoever wrote the frame.
_REASONS = {
    "Input data was truncated": "it ends too early, or holds half of a surrogate pair",
    "Number out of range": "a number is out of range",
    "Integer value out of range": "a number is out of range",
    "Invalid UTF-8 encoded string": _NOT_UTF8,
}


@dataclass(frozen=True, slots=True)
class FrameRefusal:
    """An `error` event that answers a frame, on the frame's lane if it named a valid one."""

    fault: ClientFault
    stream_id: str | None = None

    @property
    def not_utf8(self) -> bool:
        """Whether the decoder found a string that is not UTF-8."""
        return self.fault.code == "invalid_json" and _NOT_UTF8 in self.fault.message


def read(data: bytes, default_model: str | None = None) -> Create | Steer | Cancel | FrameRefusal:
    """Read one frame (protocol.md 1, 2, 6). `default_model` serves a create without a `model`.

    The frame is parsed once, so what is checked here is what is forwarded, also with double keys.
    """
    try:
        frame = parse(data, "frame")
    except ClientFault as fault:
        return FrameRefusal(fault.bare())
    kind = frame.get("type")
    if kind == "response.steer":
        return Steer(frame, len(data))
    if kind == CANCEL:
        return read_cancel(frame)
    if kind != "response.create":
        return FrameRefusal(unknown_type(kind), lane_of(frame))
    return read_create(frame, len(data), default_model)


def parse(data: bytes, what: str) -> dict[str, Any]:
    """Return the JSON object in `data`. `what` names it in the message of a ClientFault."""
    try:
        value = decode(data)
    except ValueError as error:
        raise not_json(error, what) from None
    if not isinstance(value, dict):
        raise not_an_object(what)
    return value


def not_json(error: ValueError, what: str) -> ClientFault:
    """Return the fault of what the decoder refused."""
    reason = str(error).removeprefix("JSON is malformed: ")
    reason = _REASONS.get(reason.partition(" - at")[0], reason)
    return client_fault(f"The {what} is not valid JSON: {reason}.", "invalid_json")


def not_an_object(what: str) -> ClientFault:
    """Return the fault of what is JSON, and no object."""
    return client_fault(f"The {what} must be a JSON object.", "invalid_request_error")


def read_create(
    frame: dict[str, Any], size: int, default_model: str | None
) -> Create | FrameRefusal:
    """Return the create in a frame, once it is checked (see `create_of`)."""
    stream_id = lane_of(frame)
    if "stream_id" in frame and stream_id is None:
        return _not_a_lane()
    try:
        return create_of(frame, size, default_model, stream_id)
    except ClientFault as fault:
        return FrameRefusal(fault.bare(), stream_id)


def read_cancel(frame: dict[str, Any]) -> Cancel | FrameRefusal:
    """Return what a `response.cancel` names, once it is checked (protocol.md 5)."""
    stream_id, response_id = lane_of(frame), frame.get("response_id")
    if frame.get("stream_id") is not None and stream_id is None:
        return _not_a_lane()
    if response_id is not None and not isinstance(response_id, str):
        wrong = wrong_type("response_id", "a string or null", response_id)
        return FrameRefusal(wrong, stream_id)
    return Cancel(response_id, stream_id)


def _not_a_lane() -> FrameRefusal:
    message = "stream_id must be 1 to 256 characters of A-Z, a-z, 0-9, '_', '.' and '-'."
    return FrameRefusal(client_fault(message, code="invalid_stream_id", param="stream_id"))


def create_of(
    fields: dict[str, Any],
    size: int,
    default_model: str | None,
    stream_id: str | None = None,
    *,
    background: bool = False,
) -> Create:
    """Return the create that an object asks for, over a socket or HTTP (protocol.md 2).

    Args:
        fields: What the client sent.
        size: Its length in bytes.
        default_model: Serves a create without a `model`.
        stream_id: Its lane.
        background: Whether it may run in the background.

    Raises:
        ClientFault: A field that the gateway uses itself has a wrong value.
    """
    body = {key: value for key, value in fields.items() if key not in _ENVELOPE}
    if body.get("model") is None and default_model is not None:
        body["model"] = default_model
    generate = fields.get("generate", True)
    _check({**body, "generate": generate})
    if body.get("background") and not background:
        message = "'background' must not be true: it is not supported over WebSocket."
        raise client_fault(message, "invalid_value", "background")
    compacts, parent = _take_trigger(body, generate=generate), body.get("previous_response_id")
    return Create(stream_id, body, parent, generate=generate, size=size, compacts=compacts)


def _take_trigger(body: dict[str, Any], *, generate: bool) -> bool:
    """Take the compaction trigger off the end of the input; return whether there was one."""
    given = body.get("input")
    kinds = [item.get("type") for item in given] if isinstance(given, list) else []
    if COMPACTION_TRIGGER not in kinds:
        return False
    if (place := kinds.index(COMPACTION_TRIGGER)) < len(kinds) - 1:
        message = "A compaction_trigger must be the last item of 'input'."
        raise client_fault(message, "invalid_value", f"input[{place}]")
    if not generate:
        message = "'generate' must not be false: a warm-up compacts nothing."
        raise client_fault(message, "invalid_value", "generate")
    body["input"] = body["input"][:-1]
    return True


def lane_of(frame: dict[str, Any]) -> str | None:
    """Return the lane that a frame names, if it names a valid one."""
    stream_id = frame.get("stream_id")
    valid = isinstance(stream_id, str) and _STREAM_ID.fullmatch(stream_id)
    return stream_id if valid else None


def unknown_type(kind: object) -> ClientFault:
    """Return the fault of a frame that is no create, steer or cancel."""
    allowed = "Allowed: response.create, response.steer, response.cancel."
    if kind is None:
        return client_fault(f"'type' is missing. {allowed}", "missing_required_parameter", "type")
    if not isinstance(kind, str):
        return client_fault(f"'type' must be a string. {allowed}", "invalid_type", "type")
    return client_fault(f"Unknown type {kind[:64]!r}. {allowed}", "invalid_value", "type")


def _check(fields: dict[str, Any]) -> None:
    """Check the fields of a create. Raises ClientFault."""
    if fields.get("model") is None:
        message = (
            "'model' is missing, and this gateway has no default model."
            " GET /v1/models lists what can be asked for."
        )
        raise client_fault(message, "missing_required_parameter", "model")
    for key, value in fields.items():
        field = FIELDS.get(key)
        if field is not None and type(value) not in field.fine:
            field.check(key, value)
    if fields.get("previous_response_id") is not None and fields.get("conversation") is not None:
        message = "'previous_response_id' and 'conversation' cannot be used together."
        raise client_fault(message, "invalid_value", "conversation")


def client_fault(message: str, code: str, param: str | None = None) -> ClientFault:
    """Return a fault of the client's.

    Args:
        message: What was wrong and what is allowed.
        code: The machine-readable code.
        param: The key that is wrong.
    """
    return ClientFault(message, code=code, param=param)
