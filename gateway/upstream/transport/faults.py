"""An HTTP answer that is no event stream -> the UpstreamFault that says why. Pure."""

from __future__ import annotations

import re
from html import unescape
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

import msgspec

from lanes.errors import UpstreamFault
from lanes.stream.backend_errors import code_of, prose, type_of

if TYPE_CHECKING:
    from collections.abc import Mapping

_MAX_TEXT = 500
_MAX_MESSAGE = 8192

_FORWARDED = frozenset({"retry-after", "retry-after-ms", "x-request-id"})
#: What a browser shows of a page is what is left without these.
_MARKUP = re.compile(
    r"<!--.*?(?:-->|\Z)|<(script|style)\b.*?(?:</\1\s*>|\Z)|<[^>]*(?:>|\Z)", re.I | re.S
)


class TransientFault(UpstreamFault):
    """A fault before anything was relayed, which another try after `pause` seconds may not meet.

    `pause` is None where the backend named no time.
    """

    pause: float | None = None


class BackendSilent(UpstreamFault):
    """No answer in time."""


class BackendAnswered(UpstreamFault):
    """The backend's own answer, which was no event stream."""


class TransientAnswer(BackendAnswered, TransientFault):
    """One that another try may not meet."""


class SocketFull(TransientAnswer):
    """The backend takes no more on this socket, and may on another."""


def unreachable(
    message: str, *, status: int = 502, kind: type[UpstreamFault] = UpstreamFault
) -> UpstreamFault:
    """Return the fault of a backend that was not reached, broke off (502) or was silent (504)."""
    return kind(message, code=code_of(status, "", None, None), status=status, type="server_error")


def another(fault: UpstreamFault, kind: type[UpstreamFault] | None = None) -> UpstreamFault:
    """The same fault once more, for another one to raise and add to; `kind` changes its type."""
    made = (kind or type(fault)).__new__(kind or type(fault), *fault.args)
    made.__dict__.update(fault.__dict__)
    return made


def refusal(status: int, headers: Mapping[str, str], body: bytes) -> UpstreamFault:
    """Return the fault for an answer that is not 2xx, or is 2xx and no event stream.

    `headers` have lower-case names; `body` may be cut short. Understands the error bodies of all
    known backends; the message is never empty, and only allow-listed headers go on. It is a
    Transient for 502, 503, 504 and a 429 that says when to come back.
    """
    fields = _fields(headers, body)
    message = fields.pop("message") or _default_message(status, headers)
    shown = status
    if status < 400:
        shown = 502
        kind = headers.get("content-type") or "no content type"
        kind += f" ({headers['content-encoding']})" if "content-encoding" in headers else ""
        message = f"The backend answered {status} with {kind} instead of an event stream: {message}"
    pause = retry_after(headers)
    again = status in (502, 503, 504) or (status == 429 and pause is not None)
    fault = (TransientAnswer if again else BackendAnswered)(
        message[:_MAX_MESSAGE],
        code=code_of(shown, message, fields.get("code"), fields.get("type")),
        status=shown,
        type=type_of(shown, fields.get("type")),
        param=_string(fields.get("param")),
        headers=_forwarded(headers) or None,
    )
    if isinstance(fault, TransientFault):
        fault.pause = pause
    return fault


def _forwarded(headers: Mapping[str, str]) -> dict[str, str]:
    return {
        name: value
        for name, value in headers.items()
        if name in _FORWARDED or name.startswith("x-ratelimit-")
    }


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds an answer asks to wait, or None if it names no number of them."""
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        text = headers.get(name, "")
        if re.fullmatch(r"\d{1,12}(?:\.\d{1,12})?", text, re.ASCII):
            return float(text) * unit
    return None


def _fields(headers: Mapping[str, str], body: bytes) -> dict[str, Any]:
    """Find message, type, code and param in a body, wherever its backend puts them."""
    if headers.get("content-encoding", "identity").lower() != "identity":
        return {"message": ""}  # we asked for none, and what it holds is anyone's guess
    try:
        value = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return {"message": _text(body, headers.get("content-type", ""))}
    if isinstance(value, list) and value:  # Google's proxies wrap the object
        value = value[0]
    if not isinstance(value, dict):
        return {"message": prose(value)}
    error = value.get("error")
    inner = error if isinstance(error, dict) else value
    fields = {name: inner.get(name) for name in ("type", "code", "param")}
    texts = (inner.get("message"), value.get("message"), error, value.get("detail"), value)
    fields["message"] = next(filter(None, map(prose, texts)), "")
    return fields


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


def _string(value: object) -> str | None:
    return value if isinstance(value, str) and value else None
