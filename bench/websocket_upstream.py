"""The table of D25: one delta from the upstream's read to the client's frame, over both transports.

The clients connect to servers in this process; then the reads are handed to their protocols
directly, so that neither the kernel nor the loop is measured.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from websockets.asyncio.server import serve
from websockets.client import ClientProtocol
from websockets.frames import Frame, Opcode
from websockets.protocol import OPEN
from websockets.uri import parse_uri

from bench.measure import Case, main, stepping
from bench.pipeline import Pipeline, delta, opening, sse
from gateway.upstream.transport.http.client import HttpClient
from gateway.upstream.transport.websocket.client import WebSocketClient
from lanes.codec import decode, encode

if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import AsyncExitStack

    from websockets.asyncio.server import ServerConnection

TITLE = "D25, one text delta, read to frame"
_BURSTS = (64, 8, 1)
_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


def _frame(event: dict[str, Any]) -> bytes:
    return Frame(Opcode.TEXT, encode(event)).serialize(mask=False)


class _Captured:
    """Keeps the protocol of the next connection that the loop opens."""

    def __init__(self) -> None:
        self.protocol: asyncio.Protocol | None = None
        loop: Any = asyncio.get_running_loop()
        connect = loop.create_connection

        async def capturing(factory: Any, *arguments: Any, **options: Any) -> Any:
            transport, self.protocol = await connect(factory, *arguments, **options)
            loop.create_connection = connect
            return transport, self.protocol

        loop.create_connection = capturing

    def case(self, name: str, data: bytes, burst: int, pipeline: Pipeline) -> Case:
        """Return the case of one read of `burst` events for the captured protocol."""
        assert self.protocol is not None, "no connection was opened"
        take, flush = self.protocol.data_received, pipeline.outbox.flush

        def step() -> None:
            take(data)
            flush()

        before = pipeline.writer.writes
        step()
        assert pipeline.writer.writes == before + 1, "the read makes no frame"
        return stepping(name, step, burst)


async def _relaying(stream: Any, stack: AsyncExitStack) -> Pipeline:
    """Relay a stream into a new pipeline until the end, and take what is there already."""
    pipeline = Pipeline()
    task = asyncio.create_task(stream.relay(pipeline.sink))

    async def stop() -> None:
        stream.close()
        await task

    stack.push_async_callback(stop)
    for _ in range(20):
        await asyncio.sleep(0.001)
    pipeline.outbox.flush()
    return pipeline


async def _http(stack: AsyncExitStack) -> tuple[_Captured, Pipeline]:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(_HEAD + _chunk(b"".join(sse(event) for event in opening())))
        await reader.read()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    await stack.enter_async_context(server)
    client = HttpClient(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")
    stack.push_async_callback(client.aclose)
    captured = _Captured()
    return captured, await _relaying(await client.post("/", b"", {}), stack)


async def _websocket(stack: AsyncExitStack) -> tuple[_Captured, Pipeline, str | None]:
    lane: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()

    async def answer(connection: ServerConnection) -> None:
        create = decode(str(await connection.recv()).encode())
        name = create.get("stream_id")
        for event in opening():
            await connection.send(encode(_on(name, event)), text=True)
        lane.set_result(name)
        await connection.wait_closed()

    server = await stack.enter_async_context(serve(answer, "127.0.0.1", 0, compression=None))
    client = WebSocketClient(f"http://127.0.0.1:{next(iter(server.sockets)).getsockname()[1]}")
    stack.push_async_callback(client.aclose)
    captured = _Captured()
    stream = await client.post("/", encode({"model": "model-name", "input": "hi"}), {})
    return captured, await _relaying(stream, stack), await lane


def _on(lane: str | None, event: dict[str, Any]) -> dict[str, Any]:
    return event if lane is None else {**event, "stream_id": lane}


def _parser(data: bytes, burst: int) -> Case:
    """Return the case of websockets' own parser alone."""
    protocol = ClientProtocol(parse_uri("ws://127.0.0.1/"), max_size=None)
    protocol.state = OPEN

    def step() -> None:
        protocol.receive_data(data)
        assert len(protocol.events_received()) == burst

    protocol.parser = protocol.parse()  # past the handshake
    next(protocol.parser)
    return stepping(f"websockets' parser alone, {burst} a read", step, burst)


async def cases(stack: AsyncExitStack) -> Sequence[Case]:
    """Return the rows."""
    http, http_pipeline = await _http(stack)
    socket, socket_pipeline, lane = await _websocket(stack)
    event, frame = sse(delta()), _frame(_on(lane, delta()))
    rows: list[Case] = []
    for burst in _BURSTS:
        data = _chunk(event) * burst
        rows.append(http.case(f"HTTP, {burst} a read", data, burst, http_pipeline))
    for burst in _BURSTS:
        name = f"WebSocket, as built, {burst} a read"
        rows.append(socket.case(name, frame * burst, burst, socket_pipeline))
    return [*rows, *(_parser(frame * burst, burst) for burst in _BURSTS)]


if __name__ == "__main__":
    main(TITLE, cases)
