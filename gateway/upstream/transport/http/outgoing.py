"""A request that is passed on as it is, whole or as its body comes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from gateway.upstream.transport.http.connection import HttpConnection


@dataclass(frozen=True, slots=True)
class OutgoingRequest:
    """What is sent to a backend without being understood.

    Attributes:
        method: The HTTP method.
        path: The path below the base URL.
        query: The query without its question mark.
        headers: All headers but those of a single hop.
        body: The body, or its beginning.
        length: Bytes of the whole body; None if they are not known.
        upload: Called, once, with what takes the rest of the body; None if `body` is all.
    """

    method: str
    path: str
    query: str
    headers: Mapping[str, str]
    body: bytes
    length: int | None
    upload: Callable[[Upload], None] | None = None

    @property
    def start(self) -> bytes:
        """The first bytes of the body as they are sent."""
        return self.body if self.length is not None else _chunk(self.body)


class Upload:
    """Takes the rest of a request's body, as fast as the backend does.

    Args:
        connection: Carries the request.
        chunked: Whether each piece is a chunk of HTTP/1.1.
    """

    def __init__(self, connection: HttpConnection, *, chunked: bool) -> None:
        self._connection = connection
        self._chunked = chunked

    async def send(self, data: bytes, *, last: bool) -> None:
        """Send a piece. It is dropped if the backend has answered already, or has gone.

        Args:
            data: The piece.
            last: Whether nothing comes after it.
        """
        if self._chunked:
            data = _chunk(data) + (b"0\r\n\r\n" if last else b"")
        await self._connection.send_more(data, last=last)


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data) if data else b""
