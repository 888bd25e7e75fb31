"""The faults of a backend, made from its HTTP answer or from what broke. Pure."""

from __future__ import annotations

import re
from html import unescape
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

import msgspec

from lanes.errors import UpstreamFault
from lanes.stream.backend_errors import code_of, name_of, prose, type_of

if TYPE_CHECKING:
    from collections.abc import Mapping

_MAX_TEXT = 500
_MAX_MESSAGE = 8192

#: The headers that the client gets: these first, then those of the rate limits.
_FORWARDED = ("retry-after", "retry-after-ms", "x-request-id")
_RATE_LIMIT = re.compile(r"x-ratelimit-[!#$%&'*+.^_`|~0-9a-z-]{1,52}")
_UNPRINTABLE = re.compile(r"[^\x20-\x7e]+")
#: How many of them, the characters of one value, and of all names and values.
_MAX_HEADERS = 32
_MAX_VALUE = 1024
_MAX_HEADER_CHARS = 8192
#: What a browser does not show of a page: comments, scripts, styles and tags.
_MARKUP = re.compile(
    r"<!--.*?(?:-->|\Z)|<(script|style)\b.*?(?:</\1\s*>|\Z)|<[^>]*(?:>|\Z)", re.I | re.S
)


class TransientFault(UpstreamFault):
    """A fault before anything was relayed; another try after `pause` seconds may succeed.

    `pause` is None where the backend named no time.
    """

    pause: float | None = None


class StaleConnection(TransientFault):
    """A kept connection closed within a moment of the request; a fresh one may work (D28)."""

    pause = 0.0


class BackendSilent(UpstreamFault):
    """The backend did not answer in time."""


class BackendAnswered(UpstreamFault):
    """The backend answered, but not with an event stream."""

    answered = True


class TransientAnswer(BackendAnswered, TransientFault):
    """The backend answered with an error that another try may not meet."""


class SocketFull(TransientAnswer):
    """The backend accepts no more responses on this socket, but may on another."""


class FaultHolder:
    """What waits for an answer in vain keeps why, until somebody asks."""

    _fault: Exception | None = None

    def _raise_fault(self) -> None:
        """Raise the fault that there is, and let go of it: its frames refer to this object."""
        assert self._fault is not None
        try:
            raise self._fault
        finally:
            self._fault = None


def backend_fault(
    message: str, *, status: int = 502, kind: type[UpstreamFault] = UpstreamFault
) -> UpstreamFault:
    """Return the fault of a backend that cannot be reached, breaks off or is silent.

    Args:
        message: What happened, for the client.
        status: 502 if it cannot be reached or breaks off, 504 if it is silent.
        kind: The type of the fault.
    """
    return kind(message, code=code_of(status, "", None, None), status=status, type="server_error")


def copy_fault(fault: UpstreamFault, kind: type[UpstreamFault] | None = None) -> UpstreamFault:
    """Return a copy, for another task to raise and add to; `kind` changes its type."""
    copy = (kind or type(fault)).__new__(kind or type(fault), *fault.args)
    copy.__dict__.update(fault.__dict__)
    return copy


def answer_fault(status: int, headers: Mapping[str, str], body: bytes) -> UpstreamFault:
    """Return the fault for an answer that is not 2xx, or is 2xx but not an event stream.

    It understands the error bodies of all known backends. The message is never empty, and only
    allow-listed headers are kept. The fault is a TransientFault for 502, 503, 504, and for a 429
    that says when to come back.

    Args:
        status: The HTTP status.
        headers: The headers, with lower-case names.
        body: The body, which may be cut short.
    """
    fields = _fields(headers, body)
    page = fields.pop("page", "") if status < 300 else ""
    message = fields.pop("message") or _default_message(status, headers)
    reported_status = status if 400 <= status < 600 else 502  # others are no error of HTTP
    if status < 400:
        content = headers.get("content-type") or "no content type"
        content += f" ({headers['content-encoding']})" if "content-encoding" in headers else ""
        said = f"The backend answered {status} with {content} instead of an event stream"
        message = f"{said}." if page else f"{said}: {message}"
    pause = retry_after(headers)
    transient = status in (502, 503, 504) or (status == 429 and pause is not None)
    fault = (TransientAnswer if transient else BackendAnswered)(
        message[:_MAX_MESSAGE],
        code=code_of(reported_status, message, fields.get("code"), fields.get("type")),
        status=reported_status,
        type=type_of(reported_status, fields.get("type")),
        param=name_of(fields.get("param")),
        headers=_forwarded(headers) or None,
    )
    fault.logged = f"The backend answered {status} and {len(body)} bytes that are no event stream."
    if isinstance(fault, TransientFault):
        fault.pause = pause
    return fault


def _forwarded(headers: Mapping[str, str]) -> dict[str, str]:
    """Return the headers that the client gets, few, short and printable."""
    names = (*_FORWARDED, *filter(_RATE_LIMIT.fullmatch, headers))
    forwarded: dict[str, str] = {}
    room = _MAX_HEADER_CHARS
    for name in names:
        value = _UNPRINTABLE.sub(" ", headers.get(name, "")[:_MAX_VALUE]).strip()
        room -= len(name) + len(value)
        if room < 0 or len(forwarded) == _MAX_HEADERS:
            break
        if value:
            forwarded[name] = value
    return forwarded


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Return how many seconds an answer asks to wait, or None if it names no number."""
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        text = headers.get(name, "")
        if re.fullmatch(r"\d{1,12}(?:\.\d{1,12})?", text, re.ASCII):
            return float(text) * unit
    return None


def _fields(headers: Mapping[str, str], body: bytes) -> dict[str, Any]:
    """Return message, type, code and param of a body, wherever the backend puts them."""
    if headers.get("content-encoding", "identity").lower() != "identity":
        return {"message": ""}  # the request allowed no encoding, so the body cannot be read
    try:
        value = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        text = _text(body, headers.get("content-type", ""))
        return {"message": text, "page": text}
    if isinstance(value, list) and value:  # Google's proxies wrap the object
        value = value[0]
    if not isinstance(value, dict):
        return {"message": prose(value)}
    error = value.get("error")
    inner = error if isinstance(error, dict) else value
    fields = {name: inner.get(name) for name in ("type", "code", "param")}
    texts = (inner.get("message"), value.get("message"), error, value.get("detail"), value)
    message = next(filter(None, map(prose, texts)), "")
    fields["message"] = " ".join(filter(None, (message, _quoted(inner.get("metadata")))))
    return fields


def _quoted(metadata: object) -> str:
    """Return what a router (OpenRouter) quotes of the error of the provider behind it."""
    raw = metadata.get("raw") if isinstance(metadata, dict) else None
    return str(_fields({}, raw.encode())["message"]) if isinstance(raw, str) and raw else ""


def _text(body: bytes, content_type: str) -> str:
    text = body.decode(errors="replace")
    if "html" in content_type.lower() or text.lstrip()[:1] == "<":
        text = unescape(_MARKUP.sub(" ", text))
    return " ".join(text.split())[:_MAX_TEXT]


def _default_message(status: int, headers: Mapping[str, str]) -> str:
    if 300 <= status < 400:
        return f"redirects are not followed (to {headers.get('location') or 'nowhere'})"
    try:
        return f"The backend answered {status} {HTTPStatus(status).phrase}."
    except ValueError:
        return f"The backend answered {status}."
