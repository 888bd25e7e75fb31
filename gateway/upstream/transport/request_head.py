"""The head of an HTTP request, and which headers may be in it. Pure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from urllib.parse import unquote_plus

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gateway.upstream.transport.route import Route

_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VALUE = re.compile(r"[\t\x20-\x7e\x80-\xff]*")
_PATH = re.compile(r"/[\x21-\x7e]*")
_QUERY = re.compile(r"[\x21\x22\x24-\x7e]*")

#: Headers that belong to one hop or frame the body: only the gateway sets them.
RESERVED_HEADERS = frozenset(
    {
        "accept-encoding",
        "connection",
        "content-length",
        "expect",
        "host",
        "keep-alive",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)
_DEFAULTS = {
    "user-agent": "multilane",
    "accept": "text/event-stream",
    "content-type": "application/json",
}


def is_sendable(name: str, value: str) -> bool:
    """Return whether a header of that name and value can go on the wire."""
    return bool(_NAME.fullmatch(name) and _VALUE.fullmatch(value))


def head(
    route: Route, path: str, headers: Mapping[str, str], length: int, method: str = "POST"
) -> bytes:
    """Return the head of a request.

    Args:
        route: Where the backend is.
        path: The path below the base URL.
        headers: They override the defaults, except for RESERVED_HEADERS.
        length: The length of the body in bytes.
        method: The HTTP method.

    Raises:
        ValueError: The path or a header cannot go on the wire. The message has the header's name,
            not its value.
    """
    fields = {**_DEFAULTS, **sendable_headers(headers), "content-length": str(length)}
    return _written(route, f"{method} {_target(route, path)}{route.query}", fields)


def bare_head(
    route: Route, request: tuple[str, str, str], headers: Mapping[str, str], length: int | None
) -> bytes:
    """Return the head of a request without default headers.

    Args:
        route: Where the backend is.
        request: The method, the path below the base URL, and the query without its question mark.
            A parameter that the base URL has as well is left out.
        headers: All but RESERVED_HEADERS are sent.
        length: The length of the body in bytes; None if it is not known, and the body is chunked.

    Raises:
        ValueError: It cannot go on the wire (see `head`).
    """
    method, path, query = request
    fields = sendable_headers(headers)
    if length is None:
        fields["transfer-encoding"] = "chunked"
    elif length or method not in ("GET", "HEAD", "DELETE"):
        fields["content-length"] = str(length)
    line = f"{method} {_target(route, path)}{_joined(route.query, query)}"
    return _written(route, line, fields)


def _target(route: Route, path: str) -> str:
    if not _PATH.fullmatch(path):
        raise ValueError(f"{path!r} is no request path")
    return f"{route.origin}{route.prefix}{path}"


def _joined(own: str, query: str) -> str:
    """Return the query of the base URL with what a request adds to it."""
    if not query:
        return own
    if not _QUERY.fullmatch(query):
        raise ValueError(f"{query!r} is no query")
    taken = {_name(one) for one in own[1:].split("&")} if own else set()
    added = [one for one in query.split("&") if _name(one) not in taken]
    return "&".join([own, *added]) if own else f"?{'&'.join(added)}"


def _name(parameter: str) -> str:
    return unquote_plus(parameter.partition("=")[0])


def _written(route: Route, request: str, fields: dict[str, str]) -> bytes:
    if route.proxy is not None and route.proxy.authorization and not route.tunnelled:
        fields["proxy-authorization"] = route.proxy.authorization
    lines = [
        f"{request} HTTP/1.1",
        f"host: {route.host_header}",
        "accept-encoding: identity",
        *(f"{name}: {value}" for name, value in fields.items()),
    ]
    return "\r\n".join([*lines, "", ""]).encode("latin-1")


def sendable_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """Return the headers with lower-case names, without RESERVED_HEADERS. Raises ValueError."""
    fields = {}
    for name, value in headers.items():
        if not is_sendable(name, value):
            raise ValueError(f"header {name!r} cannot be sent")
        fields[name.lower()] = value
    return {name: value for name, value in fields.items() if name not in RESERVED_HEADERS}
