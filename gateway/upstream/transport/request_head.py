"""The head of a request. Pure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gateway.upstream.transport.route import Route

_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VALUE = re.compile(r"[\t\x20-\x7e\x80-\xff]*")
_PATH = re.compile(r"/[\x21-\x7e]*")

#: What belongs to one hop, or frames the body: ours to say, whoever asks.
SPOKEN_FOR = frozenset(
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


def sendable(name: str, value: str) -> bool:
    """Whether a header of that name and value can go on the wire."""
    return bool(_NAME.fullmatch(name) and _VALUE.fullmatch(value))


def head(
    route: Route, path: str, headers: Mapping[str, str], length: int, method: str = "POST"
) -> bytes:
    """Return the head of a request with a body of `length` bytes.

    `headers` win over our defaults and lose against what frames the message. Raises ValueError
    when one of them (its name is told, its value is not) or the path cannot go on the wire.
    """
    if not _PATH.fullmatch(path):
        raise ValueError(f"{path!r} is no request path")
    fields = {**_DEFAULTS, **checked(headers), "content-length": str(length)}
    if route.proxy is not None and route.proxy.authorization and not route.tunnelled:
        fields["proxy-authorization"] = route.proxy.authorization
    lines = [
        f"{method} {route.target(path)} HTTP/1.1",
        f"host: {route.host_header}",
        "accept-encoding: identity",
        *(f"{name}: {value}" for name, value in fields.items()),
    ]
    return "\r\n".join([*lines, "", ""]).encode("latin-1")


def checked(headers: Mapping[str, str]) -> dict[str, str]:
    """The headers with lower-case names, without those that are ours to say. Raises ValueError."""
    fields = {}
    for name, value in headers.items():
        if not sendable(name, value):
            raise ValueError(f"header {name!r} cannot be sent")
        fields[name.lower()] = value
    return {name: value for name, value in fields.items() if name not in SPOKEN_FOR}
