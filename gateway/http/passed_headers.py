"""Which headers go on with a request that is passed on, and which come back. Pure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from gateway.client.auth import Headers

#: Those of the client that describe the body, and the answer it wants.
_SENT: Final = frozenset({b"accept", b"accept-language", b"content-type", b"range"})
#: Those of the backend that describe the answer. Others are of one hop, or about the operator.
_RETURNED: Final = frozenset(
    {"accept-ranges", "cache-control", "content-disposition", "content-encoding"}
    | {"content-language", "content-range", "content-type", "etag", "last-modified"}
    | {"openai-model", "openai-processing-ms", "openai-version", "retry-after", "retry-after-ms"}
    | {"x-request-id", "x-should-retry"}
)
_RATE_LIMIT: Final = re.compile(r"x-ratelimit-[a-z0-9-]{1,52}")
_PLAIN: Final = re.compile(r"[\t\x20-\x7e]*")


def sent_headers(headers: Headers, relayed: Mapping[str, str], *, unpacked: bool) -> dict[str, str]:
    """Return the headers of the request to the backend.

    Args:
        headers: The client's.
        relayed: What a create would send of them.
        unpacked: Whether the body is no longer packed as they say.
    """
    wanted = _SENT if unpacked else _SENT | {b"content-encoding"}
    own = {
        name.decode(): value.decode("latin-1")
        for name, value in headers
        if name in wanted and _PLAIN.fullmatch(value.decode("latin-1"))
    }
    return {"accept": "*/*", **own, **relayed}


def returned_headers(headers: Mapping[str, str]) -> list[tuple[bytes, bytes]]:
    """Return the headers of the answer to the client; a backend's are its own up to here."""
    kept = [(name.encode(), value.encode()) for name, value in _kept(headers.items())]
    if headers.get("content-type", "").startswith("text/event-stream"):
        kept.append((b"x-accel-buffering", b"no"))
    return kept


def _kept(headers: Iterable[tuple[str, str]]) -> Iterable[tuple[str, str]]:
    for name, value in headers:
        if (name in _RETURNED or _RATE_LIMIT.fullmatch(name)) and _PLAIN.fullmatch(value):
            yield name, value
