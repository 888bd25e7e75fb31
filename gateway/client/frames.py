"""Pure: what a client sent -> a create, a steer, a cancel, or the error to answer with."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lanes.codec import decode
from lanes.errors import ClientFault
from lanes.frames import CANCEL, Cancel, Create
from lanes.history.entries import COMPACTION_TRIGGER
from steering.frames import Steer

if TYPE_CHECKING:
    from collections.abc import Callable

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
_MAX_PAIRS, _MAX_KEY, _MAX_VALUE = 16, 64, 512
#: Tools of one create, since each snapshot holds all of them.
_MAX_TOOLS = 1024


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
        wrong = _wrong("response_id", "a string or null", response_id)
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
    _check(fields, body)
    if body.get("background") and not background:
        message = "'background' must not be true: it is not supported over WebSocket."
        raise client_fault(message, "invalid_value", "background")
    generate = fields.get("generate", True)
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


def _check(frame: dict[str, Any], body: dict[str, Any]) -> None:
    """Check what the gateway itself uses; ranges and vendor fields are the upstream's to judge."""
    if body.get("model") is None:
        message = (
            "'model' is missing, and this gateway has no default model."
            " GET /v1/models lists what can be asked for."
        )
        raise client_fault(message, "missing_required_parameter", "model")
    for key, check in _CHECKS.items():
        source = frame if key == "generate" else body
        if key in source:
            check(key, source[key])
    if body.get("previous_response_id") is not None and body.get("conversation") is not None:
        message = "'previous_response_id' and 'conversation' cannot be used together."
        raise client_fault(message, "invalid_value", "conversation")


def _typed(wanted: str, *types: type, null: bool = False) -> Callable[[str, object], None]:
    def check(key: str, value: object) -> None:
        if not isinstance(value, types) and not (null and value is None):
            raise _wrong(key, wanted, value)

    return check


def _objects(key: str, value: object) -> None:
    for index, entry in enumerate(value if isinstance(value, list) else ()):
        if not isinstance(entry, dict):
            raise _wrong(f"{key}[{index}]", "an object", entry)


def check_items(key: str, value: object) -> None:
    """Check an array of items. Raises ClientFault."""
    _typed("an array of objects", list)(key, value)
    _objects(key, value)


def _input(key: str, value: object) -> None:
    _typed("a string or an array of objects", str, list)(key, value)
    _objects(key, value)


def _tools(key: str, value: object) -> None:
    _typed("an array of objects or null", list, null=True)(key, value)
    if isinstance(value, list) and len(value) > _MAX_TOOLS:
        message = f"'{key}' has {len(value)} tools; at most {_MAX_TOOLS} are allowed."
        raise client_fault(message, "invalid_value", key)
    _objects(key, value)


def check_metadata(key: str, value: object) -> None:
    """Check pairs of a client's. Raises ClientFault."""
    if value is None:
        return
    if not isinstance(value, dict):
        raise _wrong(key, "an object of strings or null", value)
    if len(value) > _MAX_PAIRS:
        message = f"'{key}' has {len(value)} pairs; at most {_MAX_PAIRS} are allowed."
        raise client_fault(message, "invalid_value", key)
    for name, text in value.items():
        if not isinstance(text, str):
            raise _wrong(f"{key}.{name[:_MAX_KEY]}", "a string", text, param=key)
        if len(name) > _MAX_KEY or len(text) > _MAX_VALUE:
            message = f"'{key}' allows {_MAX_KEY} characters a key and {_MAX_VALUE} a value."
            raise client_fault(message, "invalid_value", key)


def _conversation(key: str, value: object) -> None:
    _typed("a string, an object with an id, or null", str, dict, null=True)(key, value)
    if isinstance(value, dict) and not isinstance(value.get("id"), str):
        raise _wrong(f"{key}.id", "a string", value.get("id"))


def _management(key: str, value: object) -> None:
    _typed("an array of objects or null", list, null=True)(key, value)
    _objects(key, value)
    for index, entry in enumerate(value if isinstance(value, list) else ()):
        threshold = entry.get("compact_threshold")
        if threshold is not None and type(threshold) is not int:
            name = f"{key}[{index}].compact_threshold"
            raise _wrong(name, "an integer or null", threshold)


_CHECKS: dict[str, Callable[[str, object], None]] = {
    "model": _typed("a string", str),
    "input": _input,
    "previous_response_id": _typed("a string or null", str, null=True),
    "conversation": _conversation,
    "context_management": _management,
    "tools": _tools,
    "generate": _typed("a boolean", bool),
    "store": _typed("a boolean or null", bool, null=True),
    "background": _typed("a boolean or null", bool, null=True),
    "metadata": check_metadata,
}


def _wrong(key: str, wanted: str, value: object, *, param: str | None = None) -> ClientFault:
    message = f"'{key}' must be {wanted}, not {_json_type(value)}."
    return client_fault(message, "invalid_type", param or key)


def _json_type(value: object) -> str:
    names: dict[type, str] = {dict: "an object", list: "an array", str: "a string"}
    names |= {bool: "a boolean", type(None): "null"}
    return names.get(type(value), "a number")


def client_fault(message: str, code: str, param: str | None = None) -> ClientFault:
    """Return a fault of the client's.

    Args:
        message: What was wrong and what is allowed.
        code: The machine-readable code.
        param: The key that is wrong.
    """
    return ClientFault(message, code=code, param=param)
