"""The door of a TCP connection by TLS: counted from accept on, plain HTTP behind it (D49)."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, Final, cast

from gateway.client.handshake import CLOSE_TIMEOUT
from gateway.client.http_protocol import CROWDED_TIMEOUT
from gateway.client.refusal import UpgradeRefused

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable

    from gateway.client.http_protocol import ClientHttp
    from gateway.client.peers import Peers, Visit

log = logging.getLogger("multilane")

#: The first byte of a handshake: the type of its record (RFC 8446, 5.1).
_HANDSHAKE_RECORD: Final = 0x16


class TlsHandshake(asyncio.Protocol):
    """One connection from accept to the end of its handshake, which has the time of a head.

    A server of the event loop's that speaks TLS says nothing of a connection before its handshake
    is over. So this one is plain, and asks for TLS when the first bytes are there: whoever sends
    something else is told so.

    Args:
        door: Makes the protocol behind it.
        context: Returns the certificate in force.
        peers: Counts the connection.
        timeout: Seconds for the handshake and the first head together.
        uvicorn: What uvicorn gives to a protocol.
    """

    def __init__(
        self,
        door: Callable[..., ClientHttp],
        context: Callable[[], ssl.SSLContext],
        peers: Peers,
        timeout: float,
        **uvicorn: Any,
    ) -> None:
        self._make_door = door
        self._context = context
        self._peers = peers
        self._timeout = timeout
        self._uvicorn = uvicorn
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport
        self._visit: Visit | None = None
        self._until = 0.0
        self._deadline: asyncio.TimerHandle | None = None
        self._handshake: asyncio.Task[None] | None = None
        self._refused = False
        #: What came behind the handshake before its end was known here.
        self._early = bytearray()
        self._door: ClientHttp | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Count the connection, and give it its time."""
        # uvloop's transports are no subclass of asyncio's.
        self._transport = transport = cast("asyncio.Transport", transport)
        address = transport.get_extra_info("peername")
        self._visit = visit = self._peers.enter(str(address[0]) if address else None)
        timeout = min(CROWDED_TIMEOUT, self._timeout) if visit.crowded else self._timeout
        self._until = self._loop.time() + timeout
        self._deadline = self._loop.call_later(timeout, self._end)
        self._uvicorn["server_state"].connections.add(self)
        if self._peers.overfull:
            transport.abort()  # to say why would take a handshake

    def data_received(self, data: bytes) -> None:
        """Begin the handshake, or refuse what is none; keep what comes behind it."""
        if self._handshake is not None:
            self._early += data
        elif data[0] != _HANDSHAKE_RECORD and not self._refused:
            self._refuse()
        elif not self._refused:
            self._transport.pause_reading()
            self._handshake = self._loop.create_task(self._shake_hands(data))
            self._handshake.add_done_callback(self._shaken)

    def connection_lost(self, exc: Exception | None) -> None:
        """Release what belongs to a connection that is gone."""
        if self._door is not None:
            self._door.connection_lost(exc)
        self._leave()

    def shutdown(self) -> None:
        """Close as the server stops: nothing was asked yet."""
        self._end()

    async def _shake_hands(self, first: bytes) -> None:
        """Hand the connection to HTTP once it is secure.

        Args:
            first: What was read of the handshake.
        """
        # Before TLS begins, and so before it reads on: `start_tls` calls later what it calls.
        self._loop.call_soon(self._feed, first)
        try:
            secure: asyncio.Transport | None = await self._loop.start_tls(
                self._transport,
                self,
                self._context(),
                server_side=True,
                ssl_handshake_timeout=2 * self._timeout,  # ours comes first
                ssl_shutdown_timeout=CLOSE_TIMEOUT,
            )
        except OSError as error:  # no handshake, or its client left
            log.debug("no TLS with a client: %s", getattr(error, "reason", None) or error)
            secure = None
        visit = self._visit
        if secure is None or visit is None or secure.is_closing() or self._transport.is_closing():
            return
        self._visit = None
        self._leave()
        self._door = door = self._make_door(**self._uvicorn)
        secure.set_protocol(door)
        door.begin(secure, visit, max(0.0, self._until - self._loop.time()))
        if self._early:
            door.data_received(bytes(self._early))

    def _shaken(self, _handshake: asyncio.Task[None]) -> None:
        """Drop a connection of which nothing became."""
        if self._door is None:
            self._transport.abort()
            self._leave()

    def _end(self) -> None:
        """Drop the connection; a handshake has callbacks under way that want it to be there."""
        if self._handshake is None:
            self._transport.abort()
        else:
            self._handshake.cancel()

    def _feed(self, first: bytes) -> None:
        """Give TLS the bytes that were read before it was there."""
        tls: Any = self._transport.get_protocol()
        buffer = memoryview(tls.get_buffer(len(first)))
        buffer[: len(first)] = first
        tls.buffer_updated(len(first))

    def _refuse(self) -> None:
        """Answer what is no TLS in plain HTTP, most likely what was asked in.

        It is not counted among the refusals: the image's health check asks in this way as well.
        """
        self._refused = True
        message = "This port speaks TLS: its URLs begin with https:// and wss://."
        self._transport.write(UpgradeRefused(400, "tls_required", message).response())
        self._transport.write_eof()
        self._stop_deadline()
        self._deadline = self._loop.call_later(CLOSE_TIMEOUT, self._transport.abort)

    def _leave(self) -> None:
        """Stop counting the connection here, which is gone or HTTP's from now on. Idempotent."""
        self._stop_deadline()
        self._uvicorn["server_state"].connections.discard(self)
        if self._visit is not None:
            self._visit.leave()
            self._visit = None

    def _stop_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
