"""A backend that speaks this protocol, of which the test says every frame."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import anyio
from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed

from gateway.upstream.transport.websocket.client import WebSocketClient
from gateway.upstream.transport.websocket.limits import WebSocketLimits
from tests.support.hang_guard import HANG

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine

    from websockets.http11 import Request, Response

    from gateway.upstream.transport.websocket.stream import WebSocketStream

Frame = dict[str, Any]


class SocketPeer:
    """One socket, seen from the backend. `frames` is all that came."""

    def __init__(self, socket: ServerConnection) -> None:
        self.socket = socket
        self.frames: list[Frame] = []

    @property
    def headers(self) -> dict[str, str]:
        assert self.socket.request is not None
        return {name.lower(): value for name, value in self.socket.request.headers.raw_items()}

    async def frame(self) -> Frame:
        """The next frame of the gateway."""
        with anyio.fail_after(HANG):
            frame: Frame = json.loads(await self.socket.recv())
        self.frames.append(frame)
        return frame

    async def asked(self) -> str | None:
        """The lane of the next create."""
        frame = await self.frame()
        assert frame["type"] == "response.create", frame
        lane: str | None = frame.get("stream_id")
        return lane

    async def steered(self) -> Frame:
        """The next steer."""
        frame = await self.frame()
        assert frame["type"] == "response.steer", frame
        return frame

    async def say(self, kind: str, lane: str | None = None, **fields: Any) -> None:
        """One event."""
        where = {} if lane is None else {"stream_id": lane}
        await self.socket.send(json.dumps({"type": kind, **where, **fields}))

    async def created(
        self, lane: str | None, name: str = "up1", previous: str | None = None
    ) -> None:
        response = {"id": name, "previous_response_id": previous}
        await self.say("response.created", lane, response=response)

    async def delta(self, lane: str | None, text: str) -> None:
        await self.say("response.output_text.delta", lane, delta=text)

    async def ended(self, lane: str | None, how: str = "completed", **response: Any) -> None:
        await self.say(f"response.{how}", lane, response={"status": how, **response})

    async def error(self, lane: str | None, code: str, status: int = 400, **extra: Any) -> None:
        error_body = {"type": "t", "code": code, "message": f"it is {code}", "param": None, **extra}
        await self.say("error", lane, status=status, error=error_body)

    async def gone(self) -> int:
        """Wait until the gateway has closed; its close code, 1006 without one."""
        with anyio.fail_after(HANG):
            try:
                while True:
                    self.frames.append(json.loads(await self.socket.recv()))
            except ConnectionClosed as closed:
                return closed.rcvd.code if closed.rcvd is not None else 1006


class SocketUpstream:
    """`answer` may refuse an upgrade; `play`, if there is any, says the frames of each socket."""

    def __init__(self) -> None:
        self.port = 0
        self.peers: list[SocketPeer] = []
        self.answer: Callable[[ServerConnection, Request], Response | None] = lambda *_: None
        self.play: Callable[[SocketPeer], Coroutine[Any, Any, None]] | None = None
        self._new: asyncio.Queue[SocketPeer] = asyncio.Queue()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    async def accept(self) -> SocketPeer:
        """The next socket nobody has asked for yet."""
        with anyio.fail_after(HANG):
            return await self._new.get()

    async def serve(self, socket: ServerConnection) -> None:
        peer = SocketPeer(socket)
        self.peers.append(peer)
        self._new.put_nowait(peer)
        if self.play is not None:
            await self.play(peer)
        await socket.wait_closed()


@asynccontextmanager
async def running(**options: Any) -> AsyncIterator[SocketUpstream]:
    server = SocketUpstream()

    def answer(socket: ServerConnection, request: Request) -> Response | None:
        return server.answer(socket, request)

    async with serve(
        server.serve,
        "127.0.0.1",
        0,
        process_request=answer,
        compression=None,
        ping_interval=None,
        close_timeout=0.1,
        **{"max_size": None, **options},
    ) as listening:
        server.port = next(iter(listening.sockets)).getsockname()[1]
        yield server


@asynccontextmanager
async def client(server: SocketUpstream, **options: Any) -> AsyncIterator[WebSocketClient]:
    """`native`, `retries` and what Terms has."""
    own = {name: options.pop(name) for name in ("native", "retries") if name in options}
    one = WebSocketClient(server.url, WebSocketLimits(**options), proxies={}, **own)
    try:
        yield one
    finally:
        await one.aclose()


async def post(one: WebSocketClient, text: str = "hi", **headers: str) -> WebSocketStream:
    with anyio.fail_after(HANG):
        body = json.dumps({"model": "m", "input": text, "stream": True, "store": False})
        shown = {name.replace("_", "-"): value for name, value in headers.items()}
        return await one.post("/responses", body.encode(), shown)


class Opened:
    """A response under way: its stream, where it is relayed to, and its other end."""

    def __init__(self, peer: SocketPeer, lane: str | None, stream: WebSocketStream) -> None:
        self.peer, self.lane, self.stream = peer, lane, stream
        self.events: list[Frame] = []
        self.reads: list[int] = []
        self._changed = asyncio.Event()
        self.relaying = asyncio.create_task(stream.relay(self._take))

    def _take(self, events: list[tuple[str | None, bytes]]) -> None:
        self.events += [json.loads(data) for _, data in events]
        self.reads.append(len(events))
        self._changed.set()

    @property
    def texts(self) -> list[str]:
        return [event["delta"] for event in self.events if "delta" in event]

    async def have(self, *texts: str) -> None:
        """Wait until just these deltas have come."""
        with anyio.fail_after(HANG):
            while len(self.texts) < len(texts):
                self._changed.clear()
                await self._changed.wait()
        assert self.texts == list(texts)

    async def says(self, *texts: str) -> None:
        for text in texts:
            await self.peer.delta(self.lane, text)

    async def over(self) -> None:
        """Wait for the end of its relay. Raises what that raises."""
        with anyio.fail_after(HANG):
            await self.relaying

    async def finish(self) -> None:
        await self.peer.ended(self.lane)
        await self.over()
        assert self.events[-1]["type"] == "response.completed"


async def asked(
    server: SocketUpstream, one: WebSocketClient, peer: SocketPeer | None = None, **headers: str
) -> tuple[asyncio.Task[WebSocketStream], SocketPeer, str | None]:
    """A create that has arrived: on this socket, or on a new one."""
    posting = asyncio.create_task(post(one, **headers))
    peer = peer or await server.accept()
    return posting, peer, await peer.asked()


async def opened(
    server: SocketUpstream, one: WebSocketClient, peer: SocketPeer | None = None, **headers: str
) -> Opened:
    """A response that has begun."""
    posting, peer, lane = await asked(server, one, peer, **headers)
    await peer.created(lane)
    with anyio.fail_after(HANG):
        return Opened(peer, lane, await posting)
