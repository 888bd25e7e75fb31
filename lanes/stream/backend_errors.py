"""What a backend's errors become inside a response (protocol.md 4)."""

from __future__ import annotations

import re
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from lanes.codec import encode
from lanes.errors import Fault, UpstreamFault
from lanes.stream.schema import of, record

if TYPE_CHECKING:
    from collections.abc import Mapping

#: All that `response.error.code` may be, by the official SDK.
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
_MAX_MESSAGE = 8192
_MAX_TEXT = 500
_OVERFLOW_CODES = ("context_length_exceeded", "exceed_context_size_error")
_OVERFLOW_WORDS = re.compile(
    r"context (length|window|size)|maximum context|\bmax_model_len\b|\bn_ctx\b", re.IGNORECASE
)


#: Where words may tell of it; else they are in passing (a 429 for tokens a minute).
_OVERFLOW_STATUSES = frozenset({400, 413, 422, 500})
_CODES = {
    401: "invalid_api_key",
    403: "permission_denied",
    404: "not_found",
    408: "timeout",
    413: "request_too_large",
    429: "rate_limit_exceeded",
    504: "timeout",
}
_FIELDS = frozenset({"type", "code", "message", "param"})
#: Where errors say what is wrong, but for `message`.
_SAID = ("detail", "errors", "msg")
_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    429: "rate_limit_error",
}
#: The status of an error that names none, by its code or its type.
_STATUSES = {name: status for names in (_CODES, _TYPES) for status, name in names.items()}
#: What a response's error may hold besides code and message, by the official SDK.
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


class Reported(UpstreamFault):
    """What the backend itself says in its stream.

    `details` is what its error holds for `response.error` besides code and message.
    """

    details: Mapping[str, Any] = MappingProxyType({})


def code_of(status: int, message: str, code: object, kind: object) -> str:
    """The code of a backend's error: its own; what is no word comes from the status."""
    if _overflows(status, message, code, kind):
        return _OVERFLOW_CODES[0]
    if isinstance(code, str) and code and not code.isdecimal():
        return code
    return _CODES.get(status, "server_error" if status >= 500 else "invalid_request_error")


def type_of(status: int, kind: object) -> str:
    """The type of a backend's error: its own; what is no string comes from the status."""
    if isinstance(kind, str) and kind not in ("", "error"):
        return kind
    return _TYPES.get(status, "server_error" if status >= 500 else "invalid_request_error")


def tells_error(name: str | None, kind: str, event: Mapping[str, Any]) -> bool:
    """Whether an event of that `event:` line and type tells of an error, in whatever shape."""
    if kind in ("error", "response.error") or event.get("error") or event.get("error_type"):
        return True
    if kind.startswith("response."):
        return False
    if name == "error" or event.get("object") == "error" or event.get("success") is False:
        return True
    return bool(_told(event)) and (
        not kind or "code" in event or _status(event.get("status")) is not None
    )


def reported(event: dict[str, Any]) -> Reported:
    """The fault that an error event tells of: flat, nested, bare, a string or a list."""
    error = event.get("error")
    if isinstance(error, list) and error:
        error = error[0]
    text = prose(error) if isinstance(error, str) else ""
    if not isinstance(error, dict):
        error = event
    elif error.keys() - _FIELDS:
        text = _told(error) or _told(event) or prose(error)
    message = text or _told(error) or _told(event)
    message = message[:_MAX_MESSAGE] or "The upstream reported an error without a message."
    told, kind, param = error.get("code"), _kind(error), error.get("param")
    said = _status(told) or _status(event.get("status"))
    status = said or _implied(told, kind)
    code = code_of(status, message, told, kind)
    if said is None and code in _OVERFLOW_CODES:
        status = 400
    fault = Reported(
        message,
        status=status,
        code=code,
        type=type_of(status, kind),
        param=param if isinstance(param, str) else None,
    )
    found = {**error, "type": kind}
    fault.details = {key: found[key] for key, fits in _DETAILS.items() if fits(found.get(key))}
    return fault


def prose(value: object) -> str:
    """Make a message of a string or of FastAPI's `detail` list; of anything else, its JSON."""
    if isinstance(value, str):
        return value.strip()
    if isinstance(value, list) and value and all(isinstance(item, dict) for item in value):
        return "; ".join(filter(None, map(_detail, value)))
    return encode(value).decode()[:_MAX_TEXT] if value else ""


def _detail(item: dict[str, Any]) -> str:
    text = item.get("msg") or item.get("message")
    place = item.get("loc")
    if not isinstance(text, str):
        return prose(item)
    return f"{'.'.join(map(str, place))}: {text}" if isinstance(place, list) else text


def _told(error: Mapping[str, Any]) -> str:
    """What an error says, under any of the keys for it."""
    message = error.get("message")
    texts = (message if isinstance(message, str) else None, *map(error.get, _SAID))
    return next(filter(None, map(prose, texts)), "")


def _kind(error: dict[str, Any]) -> str | None:
    """The type of an error; that of the event in which it is told is none."""
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
    known = (_STATUSES[name] for name in names if isinstance(name, str) and name in _STATUSES)
    return next(known, 500)


def _overflows(status: int, message: str, *codes: object) -> bool:
    """Whether an error says that the input is longer than the model's context."""
    if any(code in _OVERFLOW_CODES for code in codes):
        return True
    return status in _OVERFLOW_STATUSES and _OVERFLOW_WORDS.search(message) is not None


def response_error(fault: Fault) -> dict[str, Any]:
    """`response.error`: the code from the SDK's closed list, the original kept in the message."""
    details = fault.details if isinstance(fault, Reported) else {}
    if fault.code in ERROR_CODES:
        return {"code": fault.code, "message": fault.message, **details}
    if _overflows(fault.status, fault.message, fault.code, fault.type):
        return {"code": "invalid_prompt", "message": fault.message, **details}
    code = "rate_limit_exceeded" if fault.status == 429 else "server_error"
    note = f" ({fault.code})" if fault.code and fault.code not in fault.message else ""
    return {"code": code, "message": fault.message + note, **details}
