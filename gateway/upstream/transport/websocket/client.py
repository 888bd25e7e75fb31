"""The WebSocket client of one backend, with the same `post` as `HttpClient`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from gateway.upstream.transport import defaults
from gateway.upstream.transport.faults import SocketFull
from gateway.upstream.transport.request_head import sendable_headers
from gateway.upstream.transport.retries import retry
from gateway.upstream.transport.route import parse_route
from gateway.upstream.transport.websocket.limits import WebSocketLimits
from gateway.upstream.transport.websocket.pool import UpstreamSocketPool
from lanes.codec import encode
from lanes.cpu_thread import run_in_cpu_thread
from lanes.frames import STEER_FOLLOW
from lanes.long_strings import LongStrings

if TYPE_CHECKING:
    import ssl
    from collections.abc import Mapping

    from gateway.upstream.transport.websocket.lane import UpstreamLane
    from gateway.upstream.transport.websocket.stream import WebSocketStream

#: Headers of one request's trace or of a body: a shared socket has neither.
_REQUEST_HEADERS = frozenset({"traceparent", "tracestate", "accept", "content-type"})
#: Bytes of a request from which on its fields are separated aside (D33).
_LARGE = 256 * 1024
_fields = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


def _create_of(body: bytes) -> bytes:
    """Return the fields of a create without the opening brace, in steps that are all short."""
    strings = LongStrings()
    fields = _fields(strings.cut(body) if len(body) > _LARGE else body)
    fields.pop("stream", None)  # implied
    create = encode(fields)[1:]
    return strings.restore(create) if len(body) > _LARGE else create


class WebSocketClient:
    """Sends creates to one backend over pooled sockets.

    Args:
        base_url: The backend's URL, with http or https.
        limits: The limits of its sockets.
        retries: How often a create is sent again while nothing of its response was relayed.
        native: Whether the backend itself can steer the streams.
        tls: The context to use, as for `HttpClient`.
        proxies: The proxies to use, as for `HttpClient`.

    Raises ValueError if the URL is not a base URL.
    """

    def __init__(
        self,
        base_url: str,
        limits: WebSocketLimits | None = None,
        *,
        retries: int = defaults.RETRIES,
        native: bool = False,
        tls: ssl.SSLContext | None = None,
        proxies: Mapping[str, str] | None = None,
    ) -> None:
        self._retries = retries
        # A gateway that steers must not take a steer for a successor that is not wanted here.
        self._own_headers = {STEER_FOLLOW: "off"} if native else {}
        self.sockets = UpstreamSocketPool(
            parse_route(base_url, proxies), limits or WebSocketLimits(), native=native, tls=tls
        )

    async def post(self, path: str, body: bytes, headers: Mapping[str, str]) -> WebSocketStream:
        """Send one create and wait for the first event of its response.

        The caller must relay, release or close the stream.

        Args:
            path: The path below the base URL.
            body: The JSON that a POST would carry.
            headers: The headers of the upgrade; only requests with the same ones share a socket.

        Raises:
            UpstreamFault: The backend cannot be reached, is silent or refuses the create.
            ValueError: A header cannot be sent.
        """
        upgrade_headers = {
            name: value
            for name, value in sendable_headers(headers).items()
            if name not in _REQUEST_HEADERS
        } | self._own_headers
        large = len(body) > _LARGE
        create = await run_in_cpu_thread(_create_of, body) if large else _create_of(body)
        return await retry(lambda: self._attempt(path, create, upgrade_headers), self._retries)

    async def aclose(self) -> None:
        """Close all sockets; streams still relayed end with an UpstreamFault."""
        await self.sockets.aclose()

    async def _attempt(
        self, path: str, create: bytes, headers: Mapping[str, str]
    ) -> WebSocketStream:
        """Send the create until a socket takes it; a full socket in use costs no retry (D25)."""
        while True:
            lane = await self.sockets.lane(path, headers)
            try:
                return await self._begin(lane, create)
            except SocketFull:
                if not lane.proven:
                    raise

    async def _begin(self, lane: UpstreamLane, create: bytes) -> WebSocketStream:
        stream = lane.begin(create)
        try:
            await stream.head()
        except BaseException:
            stream.close()
            raise
        return stream
