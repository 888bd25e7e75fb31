"""What a backend's errors become inside a response (protocol.md 4)."""

from __future__ import annotations

import re
from typing import Any

from lanes.errors import Fault, UpstreamFault

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
_OVERFLOW_CODES = ("context_length_exceeded", "exceed_context_size_error")
_OVERFLOW_WORDS = re.compile(
    r"context (length|window|size)|maximum context|\bmax_model_len\b|\bn_ctx\b", re.IGNORECASE
)


def is_overflow(message: str, *codes: object) -> bool:
    """Whether an error says that the input is longer than the model's context."""
    known = any(code in _OVERFLOW_CODES for code in codes)
    return known or _OVERFLOW_WORDS.search(message) is not None


def reported(event: dict[str, Any]) -> UpstreamFault:
    """The fault that an error event tells of: flat, nested, bare or a string."""
    error = event.get("error")
    if isinstance(error, str):
        error = {"message": error}
    if not isinstance(error, dict):
        error = event
    message = error.get("message")
    if not isinstance(message, str) or not message:
        message = "The upstream reported an error without a message."
    code, kind, param = error.get("code"), error.get("type"), error.get("param")
    if is_overflow(message, code, kind):
        code = "context_length_exceeded"
    status = _status(error.get("code")) or _status(event.get("status")) or _implied(code, kind)
    return UpstreamFault(
        message,
        status=status,
        code=code if isinstance(code, str) and code else _code(status),
        type=kind if isinstance(kind, str) and kind not in ("", "error") else "server_error",
        param=param if isinstance(param, str) else None,
    )


def _status(number: object) -> int | None:
    if isinstance(number, int) and not isinstance(number, bool) and 400 <= number <= 599:
        return number
    return None


def _implied(code: object, kind: object) -> int:
    """The status of an error that names none."""
    if code == "rate_limit_exceeded":
        return 429
    return 400 if kind == "invalid_request_error" or code == "context_length_exceeded" else 500


def _code(status: int) -> str:
    return "rate_limit_exceeded" if status == 429 else "server_error"


def response_error(fault: Fault) -> dict[str, Any]:
    """`response.error`: the code from the SDK's closed list, the original kept in the message."""
    if fault.code in ERROR_CODES:
        return {"code": fault.code, "message": fault.message}
    if is_overflow(fault.message, fault.code, fault.type):
        return {"code": "invalid_prompt", "message": fault.message}
    code = _code(fault.status)
    note = f" ({fault.code})" if fault.code and fault.code not in fault.message else ""
    return {"code": code, "message": fault.message + note}
