"""A backend's errors in its stream, and what they become in a response (protocol.md 4)."""

from __future__ import annotations

import re
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from lanes.codec import encode
from lanes.errors import Fault, UpstreamFault
from lanes.stream.schema import of, record

if TYPE_CHECKING:
    from collections.abc import Mapping

#: The codes that `response.error` may have, by the official SDK.
ERROR_CODES = frozenset(
    {
        "server_error",
        "rate_limit_exceeded",
        "invalid_prompt",
        "data_residency_mismatch",
        "bio_policy",
        "misalignment_policy_violation",
        "vector_store_timeout",
        "invalid_image",
        "invalid_image_format",
        "invalid_base64_image",
        "invalid_image_url",
        "image_too_large",
        "image_too_small",
        "image_parse_error",
        "image_content_policy_violation",
        "invalid_image_mode",
        "image_file_too_large",
        "unsupported_image_media_type",
        "empty_image_file",
        "failed_to_download_image",
        "image_file_not_found",
    }
)
#: The statuses that those have as errors of their own; all others speak of the request: 400.
_FAILURES = {"server_error": 502, "vector_store_timeout": 502, "rate_limit_exceeded": 429}
#: The longest message of a fault, the longest JSON in it, and the longest code, type and param, in
#: characters. The backend's longer names are none.
_MAX_MESSAGE = 8192
_MAX_TEXT = 500
_MAX_NAME = 256
#: How an error says that the input is longer than the model's context.
#: The code of every error that says so.
OVERFLOW = "context_length_exceeded"
_OVERFLOW_CODES = (OVERFLOW, "exceed_context_size_error")
_OVERFLOW_WORDS = re.compile(
    r"context (length|window|size)|maximum context|\bmax_model_len\b|\bn_ctx\b", re.IGNORECASE
)
#: The statuses with which these words count; elsewhere they mean less (a 429 for tokens a minute).
_OVERFLOW_STATUSES = frozenset({400, 413, 422, 500})
#: The code of an error that has none, by its status.
_CODES = {
    401: "invalid_api_key",
    403: "permission_denied",
    404: "not_found",
    408: "timeout",
    413: "request_too_large",
    429: "rate_limit_exceeded",
    504: "timeout",
}
#: The type of an error that has none, by its status.
_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    429: "rate_limit_error",
}
#: The status of an error that names none, by its code or its type.
_STATUSES = {name: status for names in (_CODES, _TYPES) for status, name in names.items()} | {
    "model_not_found": 404,
    "insufficient_quota": 429,
    "overloaded_error": 503,
}
#: MiniMax's numbers of errors, which it puts beside the answer -> their status; others are 500.
_BESIDE_STATUSES = {1002: 429, 1004: 401, 1008: 429, 1026: 400, 1027: 400, 1039: 429, 2013: 400}
#: Values of `code` that say that all is well, beside a message.
_WELL = frozenset({"0", "200", "ok", "success"})
#: The keys of an error in the reference's form.
_FIELDS = frozenset({"type", "code", "message", "param"})
#: The keys that hold the message in other forms.
_MESSAGE_KEYS = ("detail", "errors", "msg", "status_msg")
#: The keys of `response.error` besides code and message, by the official SDK.
_DETAILS = {
    "param": of(str),
    "type": of(str),
    "misalignment": record(
        {},
        {
            **dict.fromkeys(("detailed_explanation", "error_type", "review_target"), of(str)),
            "steer": record({"message": of(str)}),
        },
    ),
}


class ReportedFault(UpstreamFault):
    """A fault that the backend itself reports in its stream.

    `details` holds the keys of its error that `response.error` may have besides code and message.
    """

    details: Mapping[str, Any] = MappingProxyType({})
    answered = True


def name_of(value: object) -> str | None:
    """Return a code, type or param as a backend writes one, None if it is no such name."""
    return value if isinstance(value, str) and 0 < len(value) <= _MAX_NAME else None


def code_of(status: int, message: str, code: object, kind: object) -> str:
    """Return the code of a backend's error: its own if that is a word, else one by the status.

    Args:
        status: The HTTP status.
        message: The message, which may show that the input is too long for the context.
        code: The error's own code.
        kind: The error's own type.
    """
    if _overflows(status, message, code, kind):
        return _OVERFLOW_CODES[0]
    name = name_of(code)
    if name is not None and not name.isdecimal():
        return name
    return _CODES.get(status, "server_error" if status >= 500 else "invalid_request_error")


def type_of(status: int, kind: object) -> str:
    """Return the type of a backend's error: its own if that is a string, else one by the status."""
    name = name_of(kind)
    if name is not None and name != "error":
        return name
    return _TYPES.get(status, "server_error" if status >= 500 else "invalid_request_error")


def is_error_event(name: str | None, kind: str, event: Mapping[str, Any]) -> bool:
    """Return whether an event reports an error, in whatever shape.

    Args:
        name: Its `event:` line, if there was one.
        kind: Its type, empty if it has none.
        event: All of it.
    """
    if kind in ("error", "response.error") or event.get("error") or event.get("error_type"):
        return True
    if _beside(event):
        return True
    if kind.startswith("response."):
        return False
    if name == "error" or event.get("object") == "error" or event.get("success") is False:
        return True
    if str(event.get("code")).lower() in _WELL:
        return False
    return bool(_message(event)) and (
        not kind or "code" in event or _status(event.get("status")) is not None
    )


def reported_fault(event: dict[str, Any]) -> ReportedFault:
    """Return the fault in an error event: flat, nested, bare, a string or a list."""
    error = event.get("error") or _beside(event)
    if isinstance(error, list) and error:
        error = error[0]
    text = prose(error) if isinstance(error, str) else ""
    if not isinstance(error, dict):
        error = event
    elif error.keys() - _FIELDS:
        text = _message(error) or _message(event) or prose(error)
    message = text or _message(error) or _message(event)
    message = message[:_MAX_MESSAGE] or "The upstream reported an error without a message."
    own_code, kind, param = error.get("code"), _kind(error), error.get("param")
    own_status = _status(own_code) or _status(event.get("status"))
    own_status = own_status or _BESIDE_STATUSES.get(_number(error.get("status_code")))
    status = own_status or _implied(own_code, kind)
    code = code_of(status, message, own_code, kind)
    if own_status is None and code in _OVERFLOW_CODES:
        status = 400
    fault = ReportedFault(
        message,
        status=status,
        code=code,
        type=type_of(status, kind),
        param=name_of(param),
    )
    typed = {**error, "type": kind}
    fault.details = {
        key: value
        for key, fits in _DETAILS.items()
        if fits(value := typed.get(key)) and len(encode(value)) <= _MAX_MESSAGE
    }
    return fault


def response_error(fault: Fault) -> dict[str, Any]:
    """Return `response.error`: a code of the SDK's closed list, the original one in the message."""
    details = fault.details if isinstance(fault, ReportedFault) else {}
    if fault.code in ERROR_CODES:
        return {"code": fault.code, "message": fault.message, **details}
    if _overflows(fault.status, fault.message, fault.code, fault.type):
        return {"code": "invalid_prompt", "message": fault.message, **details}
    code = "rate_limit_exceeded" if fault.status == 429 else "server_error"
    note = f" ({fault.code})" if fault.code and fault.code not in fault.message else ""
    return {"code": code, "message": fault.message + note, **details}


def failure(error: Mapping[str, Any]) -> UpstreamFault:
    """Return the fault of a response that failed, from its `response.error`."""
    code = error.get("code") or "server_error"
    status = _FAILURES.get(code, 400)
    kind = _TYPES.get(status, "server_error")
    return UpstreamFault(error["message"], code=code, status=status, type=kind)


def prose(value: object) -> str:
    """Return a string, or FastAPI's `detail` list, as a message; of anything else its JSON."""
    if isinstance(value, str):
        return value.strip()
    if isinstance(value, list) and value and all(isinstance(item, dict) for item in value):
        return "; ".join(filter(None, map(_detail, value)))
    return encode(value).decode()[:_MAX_TEXT] if value else ""


def _beside(event: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the error that MiniMax puts beside an answer; 0 is none."""
    told = event.get("base_resp")
    code = told.get("status_code") if isinstance(told, dict) else None
    return told if isinstance(told, dict) and type(code) is int and code else None


def _number(value: object) -> int:
    return value if isinstance(value, int) else 0


def _detail(item: dict[str, Any]) -> str:
    text = item.get("msg") or item.get("message")
    place = item.get("loc")
    if not isinstance(text, str):
        return prose(item)
    return f"{'.'.join(map(str, place))}: {text}" if isinstance(place, list) else text


def _message(error: Mapping[str, Any]) -> str:
    """Return the message of an error, under any of the keys for it."""
    message = error.get("message")
    texts = (message if isinstance(message, str) else None, *map(error.get, _MESSAGE_KEYS))
    return next(filter(None, map(prose, texts)), "")


def _kind(error: dict[str, Any]) -> str | None:
    """Return the type of an error; the type of its event is none."""
    kind = error.get("type")
    if not isinstance(kind, str) or kind == "error" or kind.startswith("response."):
        kind = error.get("error_type")
    return kind if isinstance(kind, str) and kind else None


def _status(number: object) -> int | None:
    if isinstance(number, str) and number.isdecimal() and len(number) == 3:
        number = int(number)
    if isinstance(number, int) and not isinstance(number, bool) and 400 <= number <= 599:
        return number
    return None


def _implied(*names: object) -> int:
    statuses = (_STATUSES[name] for name in names if isinstance(name, str) and name in _STATUSES)
    return next(statuses, 500)


def _overflows(status: int, message: str, *codes: object) -> bool:
    """Return whether an error says that the input is longer than the model's context."""
    if any(code in _OVERFLOW_CODES for code in codes):
        return True
    return status in _OVERFLOW_STATUSES and _OVERFLOW_WORDS.search(message) is not None
