"""The HTTP client of one backend: streams, retried while nothing was relayed, and small asks."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gateway.upstream.transport import defaults, request_head
from gateway.upstream.transport.faults import BackendSilent, refusal, unreachable
from gateway.upstream.transport.http.connection import Stale
from gateway.upstream.transport.http.pool import HttpPool
from gateway.upstream.transport.http.reply import Reply
from gateway.upstream.transport.http.sse import SseSplitter
from gateway.upstream.transport.http.stream import EventStream
from gateway.upstream.transport.retries import retried
from gateway.upstream.transport.route import route
from lanes.errors import UpstreamFault

if TYPE_CHECKING:
    import ssl
    from collections.abc import Mapping

_MAX_ERROR_BYTES = 64 * 1024
_ERROR_SECONDS = 5.0
_MAX_ANSWER_BYTES = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class FetchedAnswer:
    """A whole answer; `headers` have lower-case names."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class HttpClient:
    """Speaks to the backend at `base_url`; times are seconds. Connections are kept and reused.

    There is no limit on the whole of a stream: `connect_timeout` bounds reaching the backend,
    `first_byte_timeout` the silence before the body, `idle_timeout` the silence within it. A
    request is tried again up to `retries` times while nothing of its answer was passed on. `tls`
    replaces the default context, `proxies` (scheme -> URL) those of the environment.

    Raises ValueError on a bad URL.
    """

    def __init__(
        self,
        base_url: str,
        *,
        connect_timeout: float = defaults.CONNECT_TIMEOUT,
        first_byte_timeout: float = defaults.FIRST_BYTE_TIMEOUT,
        idle_timeout: float = defaults.IDLE_TIMEOUT,
        max_event_bytes: int = defaults.MAX_EVENT_BYTES,
        retries: int = defaults.RETRIES,
        keep_idle: float = 15.0,
        tls: ssl.SSLContext | None = None,
        proxies: Mapping[str, str] | None = None,
    ) -> None:
        self._route = route(base_url, proxies)
        self._first_byte = first_byte_timeout
        self._idle = idle_timeout
        self._max_event_bytes = max_event_bytes
        self._retries = retries
        self.pool = HttpPool(
            self._route, connect_timeout=connect_timeout, keep_idle=keep_idle, tls=tls
        )

    async def post(self, path: str, body: bytes, headers: Mapping[str, str]) -> EventStream:
        """Send one request and wait for the head of its event stream.

        The stream is the caller's to relay, release or close. Raises UpstreamFault when the
        backend cannot be reached, is silent or answers anything but an event stream, and
        ValueError on a header that cannot be sent. Cancelling it closes the connection.
        """
        message = [request_head.head(self._route, path, headers, len(body)), body]
        return await retried(lambda: self._attempt(message), self._retries)

    async def fetch(
        self,
        method: str,
        path: str,
        headers: Mapping[str, str],
        body: bytes = b"",
        *,
        timeout: float = 10.0,
    ) -> FetchedAnswer:
        """Send one small request and read its whole answer, whatever its status is.

        Never tried again. Raises UpstreamFault when the backend cannot be reached, breaks off, or
        is not done within `timeout` seconds; a body is cut off after 4 MiB.
        """
        message = [request_head.head(self._route, path, headers, len(body), method), body]
        try:
            async with asyncio.timeout(timeout):
                try:
                    reply = await self._exchange(message)
                except Stale:
                    reply = await self._exchange(message, fresh=True)
                got = await _read(reply, _MAX_ANSWER_BYTES)
        except TimeoutError:
            text = f"The backend did not answer within {timeout:g} seconds."
            raise unreachable(text, status=504, kind=BackendSilent) from None
        return FetchedAnswer(reply.status, reply.headers, got)

    async def aclose(self) -> None:
        """Close all connections; streams still relayed end with an UpstreamFault."""
        await self.pool.aclose()

    async def _attempt(self, message: list[bytes]) -> EventStream:
        try:
            reply = await self._exchange(message)
        except Stale:
            reply = await self._exchange(message, fresh=True)
        if reply.status < 300 and _is_stream(reply.headers):
            return EventStream(reply, SseSplitter(self._max_event_bytes))
        raise await _refusal(reply)

    async def _exchange(self, message: list[bytes], *, fresh: bool = False) -> Reply:
        """Send, and wait for the head."""
        connection = await self.pool.acquire(fresh=fresh)
        reply = Reply(connection, first_byte=self._first_byte, idle=self._idle)
        try:
            connection.send(message, reply)
            await reply.head()
        except BaseException:
            reply.close()
            raise
        return reply


async def _refusal(reply: Reply) -> UpstreamFault:
    """Read what the backend has to say, within bounds; what came of it has to do."""
    body = bytearray()
    with suppress(TimeoutError, UpstreamFault):
        async with asyncio.timeout(_ERROR_SECONDS):
            await _read(reply, _MAX_ERROR_BYTES, body)
    return refusal(reply.status, reply.headers, bytes(body))


async def _read(reply: Reply, limit: int, into: bytearray | None = None) -> bytes:
    """Read a body, `limit` bytes of it at most; `into` keeps what came when reading it failed."""
    body = bytearray() if into is None else into

    def take(data: bytes) -> None:
        body.extend(data[: limit - len(body)])
        if len(body) >= limit:
            reply.close()

    try:
        reply.start(take)
        await reply.end()
    finally:
        reply.close()
    return bytes(body)


def _is_stream(headers: Mapping[str, str]) -> bool:
    """Whether the body may be server-sent events; some backends say text/plain, or nothing."""
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    encoding = headers.get("content-encoding", "identity").lower()
    return encoding == "identity" and not kind.endswith(("html", "json", "xml"))
