"""A WebSocket from its head, which the door has judged, until it is admitted or refused.

It depends on names that uvicorn does not promise to keep (D3); tests/wire/test_uvicorn_names.py
lists each one and its use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from gateway.client.paced_writer import PacedWriter
from gateway.client.refusal import UpgradeRefused, http_response
from gateway.client.request_head import invalid

if TYPE_CHECKING:
    import asyncio

    from gateway.client.peers import Visit

#: Seconds the peer has to answer a close frame before the connection is torn down.
CLOSE_TIMEOUT: Final = 5.0


class ClientHandshake(WebSocketsSansIOProtocol):
    """The handshake of one WebSocket: whatever its end, its answer is HTTP and arrives (D32)."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.close_timeout = CLOSE_TIMEOUT
        self.writer: PacedWriter
        self._visit: Visit | None = None
        self._early = b""
        self._denial: tuple[int, dict[str, str]] | None = None
        self._refused = False

    @property
    def peer(self) -> str | None:
        """The address at the other end of the connection, which may be a proxy's."""
        address = self.transport.get_extra_info("peername")
        return str(address[0]) if isinstance(address, tuple | list) else None

    def take_over(self, transport: asyncio.Transport, visit: Visit | None, early: bytes) -> None:
        """Begin on a connection whose head was read; nothing more is read until it is admitted.

        Args:
            transport: The connection's, with reading paused.
            visit: Its place in the count of its address.
            early: What the client sent behind the head, before it was admitted.
        """
        self._visit, self._early = visit, early
        self.connection_made(transport)
        self.writer = PacedWriter(transport, self.loop)

    def data_received(self, data: bytes) -> None:
        """Give bytes to the WebSocket library, which may refuse the head."""
        if self._refused:
            return
        if self.handshake_initiated and not self.handshake_complete:
            self._early += data  # a read that was under way
            return
        super().data_received(data)
        if self.conn.handshake_exc is not None and not self.handshake_complete:
            self.refuse(invalid("This is no upgrade to a WebSocket."))

    def handle_connect(self, event: Any) -> None:
        """Start the application, unless the WebSocket library refuses the head."""
        if self.conn.accept(event).status_code == 101:
            super().handle_connect(event)

    async def send(self, message: Any) -> None:
        """Accept the upgrade, or refuse it over HTTP."""
        kind = message["type"]
        if kind == "websocket.http.response.start":
            headers = {name.decode(): value.decode("latin-1") for name, value in message["headers"]}
            self._denial = message["status"], headers
        elif kind == "websocket.http.response.body" and self._denial is not None:
            self._end_handshake(http_response(*self._denial, message["body"]))
        else:
            await super().send(message)
            if kind == "websocket.accept":
                self._admitted()

    def send_500_response(self) -> None:
        """Refuse an upgrade on which the application failed."""
        if not self.handshake_complete:
            self.refuse(UpgradeRefused(500, "server_error", "The gateway failed."))

    def shutdown(self) -> None:
        """Refuse an upgrade as the server stops."""
        if self._refused:
            self.transport.close()
        else:
            message = "The gateway is shutting down."
            self.refuse(UpgradeRefused(503, "server_shutting_down", message))

    def connection_lost(self, exc: Exception | None) -> None:
        """Release what belongs to a connection that is gone."""
        super().connection_lost(exc)
        if self._visit is not None:
            self._visit.leave()

    def refuse(self, refusal: UpgradeRefused) -> None:
        """Answer the upgrade with a refusal, and count it."""
        if self._visit is not None:
            self._visit.refused(refusal)
        self._end_handshake(refusal.response())

    def linger(self) -> None:
        """Go on reading, so that no reset overtakes our last bytes, until `close_timeout`."""
        self.close_sent = True
        self.stop_keepalive()
        self.writer.unwatch()
        if self.close_timer is None:
            self.close_timer = self.loop.call_later(self.close_timeout, self.transport.abort)

    def _admitted(self) -> None:
        """Go on reading: the client has its answer, and has shown its key."""
        if self._visit is not None:
            self._visit.keyed()
        early, self._early = self._early, b""
        if not self.transport.is_closing():
            self.transport.resume_reading()
            if early:
                self.data_received(early)

    def _end_handshake(self, response: bytes) -> None:
        if self.handshake_complete or self.disconnected:
            return
        self._refused = self.handshake_complete = True
        self._early = b""
        self.queue.put_nowait({"type": "websocket.disconnect", "code": 1006})
        self.transport.write(response)
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self.linger()
        self.transport.resume_reading()
