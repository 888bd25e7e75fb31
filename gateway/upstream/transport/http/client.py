"""The HTTP client of one backend: event streams, and small requests with a whole answer."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from gateway.upstream.transport import defaults, request_head
from gateway.upstream.transport.faults import (
    BackendSilent,
    StaleConnection,
    TransientFault,
    answer_fault,
    backend_fault,
)
from gateway.upstream.transport.http.answer_body import AnswerBody, is_readable, unpacked
from gateway.upstream.transport.http.outgoing import Upload
from gateway.upstream.transport.http.pool import HttpPool
from gateway.upstream.transport.http.reply import HttpReply
from gateway.upstream.transport.http.stream import HttpStream
from gateway.upstream.transport.retries import retry, retry_after
from gateway.upstream.transport.route import parse_route
from lanes.errors import UpstreamFault

if TYPE_CHECKING:
    import ssl
    from collections.abc import Mapping

    from gateway.upstream.transport.http.connection import HttpConnection
    from gateway.upstream.transport.http.outgoing import OutgoingRequest

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
    """Sends requests to one backend over connections that it keeps and reuses.

    Nothing limits how long a stream takes as a whole.

    Args:
        base_url: The backend's URL.
        connect_timeout: Seconds to connect, TLS included.
        first_byte_timeout: Seconds of silence before the body.
        idle_timeout: Seconds of silence within the body.
        max_event_bytes: The largest event.
        retries: How often a request is tried again while nothing of its answer was relayed.
        keep_idle: Seconds for which an idle connection is kept, if the backend keeps it as long.
        tls: Replaces the default context.
        proxies: Scheme -> URL; replaces the proxies of the environment.

    Raises:
        ValueError: The URL is not a base URL.
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
        self._route = parse_route(base_url, proxies)
        self._first_byte_timeout = first_byte_timeout
        self._idle_timeout = idle_timeout
        self._max_event_bytes = max_event_bytes
        self._retries = retries
        self.pool = HttpPool(
            self._route, connect_timeout=connect_timeout, keep_idle=keep_idle, tls=tls
        )

    async def post(self, path: str, body: bytes, headers: Mapping[str, str]) -> HttpStream:
        """Send one request and wait for the head of its event stream.

        The caller must relay, release or close the stream. Cancelling closes the connection.

        Args:
            path: The path below the base URL.
            body: The JSON of the request.
            headers: The headers of the request.

        Raises:
            UpstreamFault: The backend cannot be reached, is silent or answers anything but an event
                stream.
            ValueError: A header cannot be sent.
        """
        message = [request_head.head(self._route, path, headers, len(body)), body]
        try:
            return await self._attempt(message)
        except TransientFault as fault:
            return await retry_after(fault, lambda: self._attempt(message), self._retries)

    async def fetch(
        self,
        method: str,
        path: str,
        headers: Mapping[str, str],
        body: bytes = b"",
        *,
        timeout: float = 10.0,
        beside: bool = False,
    ) -> FetchedAnswer:
        """Send one small request and return its whole answer, whatever its status is.

        It is sent once; a GET once more after a stale connection. The body is cut off after 4 MiB.

        Args:
            method: The HTTP method.
            path: The path below the base URL.
            headers: The headers of the request.
            body: The JSON of the request, if it has any.
            timeout: Seconds for the whole answer.
            beside: Whether the path is beside the `/v1` of the base URL.

        Raises:
            UpstreamFault: The backend cannot be reached, breaks off, or is not done in time.
        """
        route = self._route
        if beside:
            route = replace(route, prefix=route.prefix.removesuffix("/v1"))
        message = [request_head.head(route, path, headers, len(body), method), body]
        try:
            async with asyncio.timeout(timeout):
                try:
                    reply = await self._exchange(message)
                except StaleConnection:
                    if method != "GET":
                        raise
                    reply = await self._exchange(message)
                answer_body = await _read(reply, _MAX_ANSWER_BYTES)
        except TimeoutError:
            text = f"The backend did not answer within {timeout:g} seconds."
            raise backend_fault(text, status=504, kind=BackendSilent) from None
        return FetchedAnswer(reply.status, reply.headers, answer_body)

    async def pass_on(self, request: OutgoingRequest) -> HttpReply:
        """Send a request as it is and wait for the head of its answer, whatever its status is.

        The caller must read or close the answer. It is sent again if nothing came of it and its
        body is whole.

        Args:
            request: The request.

        Raises:
            UpstreamFault: The backend cannot be reached, breaks off or is silent.
            ValueError: The path, the query or a header cannot be sent.
        """
        line = (request.method, request.path, request.query)
        head = request_head.bare_head(self._route, line, request.headers, request.length)
        message = [head, request.start]
        if request.upload is None:
            return await retry(lambda: self._exchange(message), self._retries)
        connection = await self.pool.acquire(fresh=True)
        upload = Upload(connection, chunked=request.length is None)
        reply = self._send(connection, message, whole=False)
        request.upload(upload)
        return await _headed(reply)

    async def aclose(self) -> None:
        """Close all connections; streams still relayed end with an UpstreamFault."""
        await self.pool.aclose()

    async def _attempt(self, message: list[bytes]) -> HttpStream:
        reply = await self._exchange(message)
        if reply.status < 300 and is_readable(reply.headers):
            return HttpStream(reply, AnswerBody(reply.status, reply.headers, self._max_event_bytes))
        raise await _answer_fault(reply)

    async def _exchange(self, message: list[bytes]) -> HttpReply:
        """Send a request and wait for the head of its answer."""
        connection = await self.pool.acquire()
        try:
            return await _headed(self._send(connection, message))
        except StaleConnection:
            self.pool.close_idle()  # they have been idle for longer than this one
            raise

    def _send(
        self, connection: HttpConnection, message: list[bytes], *, whole: bool = True
    ) -> HttpReply:
        reply = HttpReply(
            connection, first_byte_timeout=self._first_byte_timeout, idle_timeout=self._idle_timeout
        )
        try:
            connection.send(message, reply, whole=whole)
        except BaseException:
            reply.close()
            raise
        return reply


async def _headed(reply: HttpReply) -> HttpReply:
    """Wait for the head of an answer, which is closed if none comes."""
    try:
        await reply.head()
    except BaseException:
        reply.close()
        raise
    return reply


async def _answer_fault(reply: HttpReply) -> UpstreamFault:
    """Read the error body within its limits, and return the fault; part of a body will do."""
    body = bytearray()
    with suppress(TimeoutError, UpstreamFault):
        async with asyncio.timeout(_ERROR_SECONDS):
            await _read(reply, _MAX_ERROR_BYTES, body)
    return answer_fault(reply.status, *unpacked(reply.headers, bytes(body)))


async def _read(reply: HttpReply, limit: int, into: bytearray | None = None) -> bytes:
    """Return up to `limit` bytes of the body; `into` keeps what arrived when reading fails."""
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
