"""Judges the head of a request, before anything else sees it. Pure (protocol.md 1)."""

from __future__ import annotations

import binascii
import re
from http import HTTPStatus
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from gateway.client.refusal import UpgradeRefused

if TYPE_CHECKING:
    from gateway.client.auth import Headers

#: The blank line at the end of a head; the parser refuses the form without CR, and says so.
HEAD_END: Final = re.compile(rb"\n\r?\n")
#: Bytes of a line and number of header lines that the WebSocket library takes.
MAX_LINE: Final = 8192
MAX_LINES: Final = 128
#: The only version of the WebSocket protocol (RFC 6455).
VERSION: Final = b"13"
#: One host, with a port or without (RFC 9112, 3.2; RFC 3986, 3.2.2). No name of a host has a comma,
#: which is what a proxy puts between two Host headers.
_HOST: Final = re.compile(
    rb"(?:\[[0-9A-Za-z.:~!$&'()*+;=_%-]+\]|(?:[0-9A-Za-z._~!$&'()*+;=-]|%[0-9A-Fa-f]{2})+)"
    rb"(?::[0-9]{0,5})?"
)
#: What stands before the host in a target that is a whole URL.
_SCHEME: Final = re.compile(rb"(?:https?|wss?)://", re.IGNORECASE)
VERSION_HEADER: Final = {"Sec-WebSocket-Version": "13"}


def too_large(message: str) -> UpgradeRefused:
    """Return the refusal of a head that is too large."""
    return UpgradeRefused(
        HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, "request_head_too_large", message
    )


def invalid(message: str, headers: dict[str, str] | None = None) -> UpgradeRefused:
    """Return the refusal of a malformed request."""
    return UpgradeRefused(HTTPStatus.BAD_REQUEST, "invalid_http_request", message, headers)


def no_request() -> UpgradeRefused:
    """Return the refusal of what is no request at all."""
    return invalid("This is no request of HTTP/1.1.")


def check(method: str, url: bytes, version: str, headers: Headers) -> None:
    """Check a head.

    Args:
        method: The request's method.
        url: What was asked for.
        version: Version of HTTP, such as 1.1.
        headers: All headers.

    Raises:
        UpgradeRefused: The head is no head of HTTP/1.1 or 1.0, or it is too large, or the WebSocket
            library would not take it for an upgrade.
    """
    _check_request(url, version, headers)
    if is_websocket(headers):
        _check_upgrade(method, version, headers)


def _check_request(url: bytes, version: str, headers: Headers) -> None:
    """Check what every request needs."""
    if version not in ("1.1", "1.0"):
        raise no_request()
    if len(url) > MAX_LINE - len(b"OPTIONS  HTTP/1.1\r\n"):
        raise too_large(f"The request line is longer than {MAX_LINE} bytes.")
    if len(headers) > MAX_LINES:
        raise too_large(f"There are more than {MAX_LINES} header lines.")
    if any(len(name) + len(value) + 4 > MAX_LINE for name, value in headers):
        raise too_large(f"A header line is longer than {MAX_LINE} bytes.")
    _check_target(url)
    hosts = _values(headers, b"host")
    if len(hosts) > 1 or (not hosts and version == "1.1"):
        raise invalid("A request needs one Host header.")
    if not all(_HOST.fullmatch(host) for host in hosts):
        raise invalid("The Host header is no host.")
    if any(value.lower() != b"chunked" for value in _values(headers, b"transfer-encoding")):
        raise invalid("The only Transfer-Encoding that is known here is chunked.")


def _check_target(url: bytes) -> None:
    """Check the form of what is asked for: a path, `*` or a whole URL."""
    if b"#" in url:
        raise invalid("A request has no fragment.")
    if url.startswith((b"/", b"*")):
        return
    scheme = _SCHEME.match(url)
    if scheme is None or not _HOST.fullmatch(
        re.split(rb"[/?]", url[scheme.end() :], maxsplit=1)[0]
    ):
        raise invalid("The URL that is asked for is none of HTTP.")


def body_length(headers: Headers) -> int | None:
    """Return the bytes of a request's body; None if it is chunked."""
    if _values(headers, b"transfer-encoding"):
        return None
    return int(next(iter(_values(headers, b"content-length")), b"0"))


def origin_form(url: bytes) -> bytes:
    """Return the path and query of a target that may be a whole URL (RFC 9112, 3.2.2)."""
    if url.startswith(b"/"):
        return url
    parts = urlsplit(url)
    return (parts.path or b"/") + (b"?" + parts.query if parts.query else b"")


def is_websocket(headers: Headers) -> bool:
    """Return whether a request asks for an upgrade to a WebSocket."""
    options = b",".join(_values(headers, b"connection")).lower().split(b",")
    upgrades = b",".join(_values(headers, b"upgrade")).lower().split(b",")
    return b"upgrade" in [one.strip() for one in options] and [one.strip() for one in upgrades] == [
        b"websocket"
    ]


def _check_upgrade(method: str, version: str, headers: Headers) -> None:
    """Check the head of an upgrade, whose Host is checked (RFC 6455, 4.2.1)."""
    if version != "1.1":
        raise invalid("An upgrade to a WebSocket needs HTTP/1.1.")
    if method != "GET":
        message = "An upgrade to a WebSocket is a GET."
        raise UpgradeRefused(405, "method_not_allowed", message, {"Allow": "GET"})
    if _values(headers, b"transfer-encoding"):
        raise invalid("An upgrade to a WebSocket has no Transfer-Encoding.")
    if any(value.strip(b"0") for value in _values(headers, b"content-length")):
        raise UpgradeRefused(
            HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
            "request_body_too_large",
            "An upgrade to a WebSocket has no body.",
        )
    if len(_values(headers, b"origin")) > 1:
        raise invalid("An upgrade has one Origin header at most.")
    _check_websocket(headers)


def _check_websocket(headers: Headers) -> None:
    versions = _values(headers, b"sec-websocket-version")
    if len(versions) != 1:
        raise invalid("An upgrade needs one Sec-WebSocket-Version header.", VERSION_HEADER)
    if versions[0] != VERSION:
        raise UpgradeRefused(
            HTTPStatus.UPGRADE_REQUIRED,
            "unsupported_websocket_version",
            "The only version of the WebSocket protocol is 13.",
            {"Upgrade": "websocket", **VERSION_HEADER},
        )
    keys = _values(headers, b"sec-websocket-key")
    if len(keys) != 1 or not _is_key(keys[0]):
        raise invalid("An upgrade needs one Sec-WebSocket-Key header: 16 bytes in base64.")


def _is_key(key: bytes) -> bool:
    try:
        return len(binascii.a2b_base64(key, strict_mode=True)) == 16
    except binascii.Error:
        return False


def _values(headers: Headers, name: bytes) -> list[bytes]:
    return [value for header, value in headers if header == name]
