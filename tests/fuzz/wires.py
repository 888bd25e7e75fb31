"""Fuzzers of connections: a client's and a backend's, on a transport of which all is known."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import logging
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, cast

import uvicorn
from uvicorn.server import ServerState

from gateway.client.http_protocol import ClientHttp
from gateway.client.peers import Peers
from gateway.client.socket import ClientSocket
from gateway.upstream.transport.http.answer_body import AnswerBody
from gateway.upstream.transport.http.connection import HttpConnection
from gateway.upstream.transport.http.reply import HttpReply
from gateway.upstream.transport.http.stream import HttpStream
from gateway.upstream.transport.route import parse_route
from gateway.upstream.transport.websocket.connection import UpstreamSocket
from gateway.upstream.transport.websocket.handshake import Handshake
from gateway.upstream.transport.websocket.limits import WebSocketCapacity, WebSocketLimits
from lanes.errors import UpstreamFault
from tests.support.hang_guard import HANG

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lanes.ports import Event

LIMIT: Final = 1 << 20
KEY: Final = b"x3JJHMbDL1EzLkh9GBhXDw=="
UPGRADE: Final = (
    b"GET /v1/responses HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: " + KEY + b"\r\n\r\n"
)


class Wire(asyncio.Transport):
    """A transport to nowhere: the fuzzer hands bytes over and sees what is written."""

    def __init__(self, protocol: asyncio.Protocol) -> None:
        super().__init__({"peername": ("192.0.2.1", 5), "sockname": ("192.0.2.2", 80)})
        self._protocol: asyncio.BaseProtocol = protocol
        self._closing = False
        self._lost = False
        self.written = bytearray()
        protocol.connection_made(self)

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._protocol = protocol

    def get_protocol(self) -> asyncio.BaseProtocol:
        return self._protocol

    def is_closing(self) -> bool:
        return self._closing

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        """The peer goes on sending."""

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written += data

    def writelines(self, list_of_data: Any) -> None:
        self.written += b"".join(list_of_data)

    def get_write_buffer_size(self) -> int:
        return 0

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Nothing is buffered."""

    def pause_reading(self) -> None:
        """Bytes come all the same: a read that was under way does, too."""

    def resume_reading(self) -> None:
        """See `pause_reading`."""

    def close(self) -> None:
        if not self._closing:
            self._closing = True
            asyncio.get_running_loop().call_soon(self._lose)

    abort = close

    def _lose(self) -> None:
        if not self._lost:
            self._lost = True
            self._protocol.connection_lost(None)

    async def feed(self, pieces: list[bytes]) -> None:
        """Hand the pieces over, each in a turn of its own, then end the connection."""
        for piece in pieces:
            if not self._closing:
                protocol = self._protocol
                assert isinstance(protocol, asyncio.Protocol)
                protocol.data_received(piece)
                await asyncio.sleep(0)
        if not self._closing:
            protocol = self._protocol
            assert isinstance(protocol, asyncio.Protocol)
            if not protocol.eof_received():
                self.close()
        self.close()
        await asyncio.sleep(0)
        self._lose()


def _pieces(size: int, data: bytes) -> list[bytes]:
    step = size or len(data) or 1
    return [data[at : at + step] for at in range(0, len(data), step)]


class _Errors(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(self.format(record))


@contextmanager
def _nothing_breaks() -> Iterator[None]:
    """Within it nothing is logged as an error, and no callback of the loop raises."""
    heard = _Errors()
    names = ("uvicorn.error", "asyncio", "multilane")
    for name in names:
        logging.getLogger(name).addHandler(heard)
    try:
        yield
    finally:
        for name in names:
            logging.getLogger(name).removeHandler(heard)
    assert not heard.lines, heard.lines[0]


async def _app(scope: Any, receive: Any, send: Any) -> None:
    """Answers requests, and accepts each socket and reads it to its end."""
    if scope["type"] == "http":
        while (await receive()).get("more_body"):
            pass
        await send({"type": "http.response.start", "status": 426, "headers": []})
        await send({"type": "http.response.body", "body": b"{}"})
        return
    assert (await receive())["type"] == "websocket.connect"
    await send({"type": "websocket.accept"})
    while (message := await receive())["type"] != "websocket.disconnect":
        assert message["type"] == "websocket.receive"


_config: Final = uvicorn.Config(
    _app,
    http=cast("type[asyncio.Protocol]", ClientHttp),
    ws=ClientSocket,
    ws_max_size=LIMIT,
    ws_ping_interval=None,
    ws_per_message_deflate=False,
    lifespan="off",
    log_config=None,
    access_log=False,
)
_config.load()


async def _serve(pieces: list[bytes]) -> bytes:
    state = ServerState()
    loop = asyncio.get_running_loop()
    given = {"config": _config, "server_state": state, "app_state": {}, "_loop": loop}
    peers = Peers(1, 1, [])
    wire = Wire(ClientHttp(peers, 1 << 16, 10.0, **given))
    await wire.feed(pieces)
    async with asyncio.timeout(HANG):
        await asyncio.gather(*state.tasks)
    assert not state.connections
    assert peers.open == 0
    return bytes(wire.written)


def door(data: bytes) -> None:
    """A client's bytes before any upgrade: answered by HTTP or not at all, and cleaned up."""
    size = data[0] if data else 0
    with _nothing_breaks():
        written = asyncio.run(_serve(_pieces(size, data[1:])))
    assert written.startswith(b"HTTP/1.") or not written


def client_socket(data: bytes) -> None:
    """A client's bytes after the upgrade: the application hears of messages and of one end."""
    size = data[0] if data else 0
    with _nothing_breaks():
        written = asyncio.run(_serve([UPGRADE, *_pieces(size, data[1:])]))
    assert written.startswith(b"HTTP/1.1 101 ")


async def _answered(pieces: list[bytes]) -> None:
    idle: list[HttpConnection] = []
    lost: list[HttpConnection] = []
    connection = HttpConnection(idle.append, lost.append, 15.0)
    wire = Wire(connection)
    reply = HttpReply(connection, first_byte_timeout=60, idle_timeout=60)
    connection.send([b"request"], reply)
    events: list[Event] = []

    async def relay() -> None:
        try:
            await reply.head()
            assert reply.status >= 200
            await HttpStream(reply, AnswerBody(reply.status, reply.headers, LIMIT)).relay(
                events.extend
            )
        except UpstreamFault:
            pass
        finally:
            reply.close()

    relaying = asyncio.create_task(relay())
    await wire.feed(pieces)
    async with asyncio.timeout(HANG):
        await relaying
    assert len(lost) == 1
    assert len(idle) <= 1
    assert connection.closed


def answers(data: bytes) -> None:
    """A backend's answer over HTTP: it ends once, well or with the backend's fault."""
    size = data[0] if data else 0
    with _nothing_breaks():
        asyncio.run(_answered(_pieces(size, data[1:])))


def accepting(request: bytes) -> bytes:
    """A good answer to an upgrade."""
    key = request.partition(b"Sec-WebSocket-Key: ")[2].partition(b"\r\n")[0]
    digest = hashlib.sha1(key + b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11").digest()
    return (
        b"HTTP/1.1 101 X\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        b"Sec-WebSocket-Accept: %b\r\n\r\n" % base64.b64encode(digest)
    )


async def _joined(flags: int, pieces: list[bytes]) -> None:
    limits = WebSocketLimits(max_event=LIMIT, lanes=1 if flags & 2 else 16)
    ends: list[UpstreamSocket] = []
    lost: list[UpstreamSocket] = []
    socket = UpstreamSocket(
        Handshake(parse_route("http://a/v1", {}), "/responses", {}, LIMIT),
        limits,
        WebSocketCapacity(limits.lanes),
        ends.append,
        lost.append,
        native=bool(flags & 4),
    )
    lanes = [socket.take() for _ in range(min(limits.lanes, 2))]
    events: list[Event] = []

    async def relay(lane: Any) -> None:
        try:
            await socket.opened()
        except UpstreamFault:
            lane.leave()
            return
        stream = lane.begin(b'"input":"hi"}')
        try:
            await stream.head()
            await stream.relay(events.extend)
        except UpstreamFault:
            pass
        finally:
            stream.close()

    relaying = [asyncio.create_task(relay(lane)) for lane in lanes]
    wire = Wire(socket)
    upgrade = [] if flags & 1 else [accepting(bytes(wire.written))]
    await wire.feed([*upgrade, *pieces])
    async with asyncio.timeout(HANG):
        await asyncio.gather(*relaying)
    assert (len(ends), len(lost)) == (1, 1)
    assert socket.ended
    assert socket.busy == 0


def upstream_socket(data: bytes) -> None:
    """A backend's bytes on a shared socket: each response on it ends, and so does the socket."""
    flags, size = (*data[:2], 0, 0)[:2]
    with _nothing_breaks():
        asyncio.run(_joined(flags, _pieces(size, data[2:])))
