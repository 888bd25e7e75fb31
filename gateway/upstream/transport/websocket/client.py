"""The WebSocket client of one backend, with the face of `HttpClient.post`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from gateway.upstream.transport.faults import SocketFull
from gateway.upstream.transport.request_head import checked
from gateway.upstream.transport.retries import retried
from gateway.upstream.transport.route import route
from gateway.upstream.transport.websocket.limits import SocketLimits
from gateway.upstream.transport.websocket.pool import UpstreamSocketPool
from lanes.codec import encode

if TYPE_CHECKING:
    import ssl
    from collections.abc import Mapping

    from gateway.upstream.transport.websocket.lane import UpstreamLane
    from gateway.upstream.transport.websocket.stream import SocketStream

#: Headers that are about one request's trace or about bodies: a shared socket has neither.
_LEFT_OUT = frozenset({"traceparent", "tracestate", "accept", "content-type"})
_fields = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


class SocketClient:
    """Speaks to the backend at `base_url` over pooled sockets.

    A response is asked for up to `retries` + 1 times while none of it was passed on. With `native`
    its stream can be steered. `tls` replaces the default context, `proxies` (scheme -> URL) those
    of the environment.

    Raises ValueError on a bad URL.
    """

    def __init__(
        self,
        base_url: str,
        terms: SocketLimits | None = None,
        *,
        retries: int = 2,
        native: bool = False,
        tls: ssl.SSLContext | None = None,
        proxies: Mapping[str, str] | None = None,
    ) -> None:
        self._retries = retries
        self.links = UpstreamSocketPool(
            route(base_url, proxies), terms or SocketLimits(), native=native, tls=tls
        )

    async def post(self, path: str, body: bytes, headers: Mapping[str, str]) -> SocketStream:
        """Ask for one response and wait for its first event; `body` is that of a POST.

        The stream is the caller's to relay, release or close. Raises UpstreamFault when the
        backend cannot be reached, is silent or refuses, and ValueError on a header that cannot be
        sent.
        """
        shown = {name: value for name, value in checked(headers).items() if name not in _LEFT_OUT}
        fields = _fields(body)
        fields.pop("stream", None)  # implied
        create = encode(fields)[1:]
        return await retried(lambda: self._attempt(path, create, shown), self._retries)

    async def aclose(self) -> None:
        """Close all sockets; streams still relayed end with an UpstreamFault."""
        await self.links.aclose()

    async def _attempt(self, path: str, create: bytes, headers: Mapping[str, str]) -> SocketStream:
        """One try; that a socket which has served takes no more is none, and soon known of all."""
        while True:
            lane = await self.links.lane(path, headers)
            try:
                return await self._ask(lane, create)
            except SocketFull:
                if not lane.proven:
                    raise

    async def _ask(self, lane: UpstreamLane, create: bytes) -> SocketStream:
        stream = lane.begin(create)
        try:
            await stream.head()
        except BaseException:
            stream.close()
            raise
        return stream
