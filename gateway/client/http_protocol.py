"""The door of every TCP connection: counted from accept on, plain HTTP until it is upgraded.

It depends on names that uvicorn does not promise to keep (D3); tests/wire/test_uvicorn_names.py
lists each one and its use.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from gateway.client.http_reading import HttpReading
from gateway.client.paced_writer import PacedWriter, WaterMarks
from gateway.client.peers import EXTENSION
from gateway.client.reading_stage import Stage
from gateway.client.refusal import UpgradeRefused
from gateway.client.request_head import origin_form
from gateway.client.socket import ClientSocket

if TYPE_CHECKING:
    from collections.abc import Callable

    from gateway.client.peers import Peers, Visit

#: Seconds for a socket whose address has too many sockets without a key.
CROWDED_TIMEOUT: Final = 1.0
#: Seconds after which a client may try again if there is no room for it.
RETRY_AFTER: Final = "5"


def no_room(message: str) -> UpgradeRefused:
    """Return the refusal of a client for which there is no room."""
    return UpgradeRefused(429, "too_many_connections", message, {"Retry-After": RETRY_AFTER})


class ClientHttp(HttpReading):
    """One connection of a client, up to its upgrade or through its plain requests (D32).

    An ASGI application finds it in its scope's extensions (`EXTENSION`), and may write parts of a
    response straight to the transport, as it does on a `ClientSocket`: after
    `http.response.start` and before the last `http.response.body`, bounded by the same marks.

    Args:
        peers: Counts this connection.
        max_head: Bytes of a request's head.
        timeout: Seconds for a head, and for each part of a body.
        uvicorn: What uvicorn gives to a protocol.
    """

    def __init__(self, peers: Peers, max_head: int, timeout: float, **uvicorn: Any) -> None:
        super().__init__(max_head, timeout, **uvicorn)
        self._peers = peers
        self._visit: Visit | None = None
        self._writer: PacedWriter | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Count the connection, and give it its time."""
        address = transport.get_extra_info("peername")
        visit = self._peers.enter(str(address[0]) if isinstance(address, tuple) else None)
        timeout = min(CROWDED_TIMEOUT, self._timeout) if visit.crowded else self._timeout
        self.begin(transport, visit, timeout)
        if self._peers.overfull:
            self.refuse(no_room(f"The gateway has {self._peers.max_sockets} connections."))
            transport.close()

    def begin(self, transport: asyncio.Transport, visit: Visit, timeout: float) -> None:
        """Begin on a connection that is counted already.

        Args:
            transport: The connection's.
            visit: Its place in the count of its address.
            timeout: Seconds for the first head.
        """
        super().connection_made(transport)
        self._visit = visit
        self.start_deadline(timeout)

    def connection_lost(self, exc: Exception | None) -> None:
        """Release what belongs to a connection that is gone."""
        self.stop_deadline()
        self._unset_keepalive_if_required()
        super().connection_lost(exc)
        if self._visit is not None:
            self._visit.leave()
        if self._writer is not None:
            self._writer.close()
        self._forget()

    def shutdown(self) -> None:
        """Close as the server stops, after the answer that is under way.

        A request whose body is not whole by then is refused, as nobody waits for it any more.
        """
        if self._stage is Stage.OVER:
            self.transport.close()
        elif self._stage is Stage.BODY:
            message = "The gateway is shutting down."
            self.refuse(UpgradeRefused(503, "server_shutting_down", message))
        else:
            super().shutdown()

    # For the application

    def keyed(self) -> None:
        """Stop counting the connection against its address: its client has shown a key."""
        if self._visit is not None:
            self._visit.keyed()

    def bound(self, marks: WaterMarks) -> None:
        """Bound the unsent data; a client that takes nothing of it in time is dropped (D10)."""
        if self._writer is None:
            self._writer = PacedWriter(self.transport, self.loop)
        self._writer.bound(marks, self.transport.abort)

    def write(self, data: bytes) -> None:
        """Write a part of a response's body as it is, unless the connection is closing.

        Without a Content-Length the body is chunked, and the caller writes whole chunks.
        """
        over = self._stage is Stage.OVER or self.transport.is_closing()
        if self._writer is not None and not over:
            self._writer.write(data)

    def cut(self) -> None:
        """Close in the middle of a response, so that it does not look whole."""
        self.transport.close()

    @property
    def unsent(self) -> int:
        """Bytes that the kernel has not taken yet."""
        return self.transport.get_write_buffer_size()

    def pause_writing(self) -> None:
        """Report that the transport is over the high-water mark."""
        super().pause_writing()
        if self._writer is not None:
            self._writer.full()

    def resume_writing(self) -> None:
        """Report that the transport is below the low-water mark."""
        super().resume_writing()
        if self._writer is not None:
            self._writer.room()

    # For what is read

    def judge(self) -> None:
        """Take the client's address from a trusted proxy."""
        scope: Any = self.scope
        scope["extensions"] = {EXTENSION: self}
        if self._visit is not None and self._visit.proxied:
            host = self._visit.forwarded(self.headers)
            scope["client"] = scope["client"] if host is None else (host, 0)

    def on_headers_complete(self) -> None:
        """Start the answer; its end is ours, so that it arrives."""
        super().on_headers_complete()
        if not self._should_upgrade():
            self.cycle.transport = _Outlet(self.transport, self.linger)

    def impatient(self) -> UpgradeRefused | None:
        """Return the refusal of a client whose address has too many that show no key."""
        if self._visit is None or not self._visit.crowded:
            return None
        return no_room("Your address has too many connections that wait to be let in.")

    def refuse(self, refusal: UpgradeRefused) -> None:
        """Answer with a refusal, and count it."""
        if self._visit is not None:
            self._visit.refused(refusal)
        super().refuse(refusal)

    def upgrade(self, early: bytes) -> None:
        """Hand the connection to a WebSocket, with the bytes that came behind the head."""
        self._unset_keepalive_if_required()
        self.connections.discard(self)
        scope: Any = self.scope
        socket = ClientSocket(self.config, self.server_state, self.app_state)
        head = [b"GET %b HTTP/1.1\r\n" % origin_form(self.url)]
        head += [b"%b: %b\r\n" % one for one in self.headers if one[0] != b"content-length"]
        self.transport.pause_reading()
        self.transport.set_protocol(socket)
        socket.take_over(self.transport, self._visit, early)
        socket.client = scope["client"]
        socket.scheme = "wss" if scope["scheme"] == "https" else "ws"
        self._visit = None
        self._forget()
        socket.data_received(b"".join([*head, b"\r\n"]))

    def _forget(self) -> None:
        """Drop what refers back to this protocol."""
        self.cycle = self.scope = self.parser = None  # type: ignore[assignment]
        self.pipeline.clear()


class _Outlet(asyncio.Transport):
    """The transport as an answer sees it: closing it waits until the client has read."""

    def __init__(self, transport: asyncio.Transport, close: Callable[[], None]) -> None:
        super().__init__()
        self._transport = transport
        self._close = close

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Write to the transport."""
        self._transport.write(data)

    def close(self) -> None:
        """Close once the client does."""
        self._close()

    def is_closing(self) -> bool:
        """Return whether the transport closes."""
        return self._transport.is_closing()
