"""A raw WebSocket client that keeps what it saw and has every frame judged.

    async with connect(base_url) as client:
        await client.create("a", input="hi")
        events = await client.until("response.completed", lane="a")

Events of other lanes that arrive meanwhile are kept for whoever asks for them next.
"""

from __future__ import annotations

import json
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import anyio
from websockets.asyncio.client import ClientConnection
from websockets.asyncio.client import connect as open_socket
from websockets.exceptions import ConnectionClosed

from tests.support.hang_guard import HANG
from tests.support.judge import StreamJudge
from tests.support.judge_response import TERMINALS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping

Event = dict[str, Any]


class _AnyLane:
    """Stands for every lane; None is the default lane."""


ANY = _AnyLane()


class Client:
    """`transcript` is every event received so far, in wire order."""

    def __init__(self, socket: ClientConnection, judge: StreamJudge | None) -> None:
        self.socket = socket
        self.judge = judge
        self.transcript: list[Event] = []
        self._unclaimed: list[Event] = []

    async def send(self, frame: Event | str | bytes) -> None:
        """A dict as JSON, a string as a text frame, bytes as a binary frame."""
        await self.socket.send(json.dumps(frame) if isinstance(frame, dict) else frame)

    async def send_at_once(self, *frames: Event) -> None:
        """Text frames that the gateway gets in one read."""
        protocol = self.socket.protocol
        for frame in frames:
            protocol.send_text(json.dumps(frame).encode())
        self.socket.transport.write(b"".join(protocol.data_to_send()))

    async def create(self, lane: str | None = None, /, **extra: Any) -> None:
        """`response.create` with the least that is needed; `extra` adds and overrides."""
        frame = {"type": "response.create", "model": "m", "store": False, "input": "hi", **extra}
        await self.send(frame if lane is None else {**frame, "stream_id": lane})

    async def steer(self, target: object, value: Any, **extra: Any) -> None:
        """`response.steer`; `extra` is what must not be there."""
        frame = {"type": "response.steer", "previous_response_id": target, "input": value}
        await self.send({**frame, **extra})

    async def cancel(self, **names: Any) -> None:
        """`response.cancel` of what `names` says."""
        await self.send({"type": "response.cancel", **names})

    async def event(self, lane: str | _AnyLane | None = ANY, timeout: float = HANG) -> Event:
        """The oldest event (of this lane) that nobody asked for yet; waits for it."""
        with anyio.fail_after(timeout):
            while True:
                for at, event in enumerate(self._unclaimed):
                    if _on(lane)(event):
                        return self._unclaimed.pop(at)
                self._unclaimed.append(await self.receive())

    async def until(
        self, *types: str, lane: str | _AnyLane | None = ANY, timeout: float = HANG
    ) -> list[Event]:
        """All events (of this lane) up to the first with one of these types, and that one."""
        seen: list[Event] = []
        with anyio.fail_after(timeout):
            while not seen or seen[-1]["type"] not in types:
                seen.append(await self.event(lane, timeout))
        return seen

    async def ended(self, lane: str | _AnyLane | None = ANY) -> Event:
        """The response object of the next terminal event (of this lane)."""
        response: Event = (await self.until(*TERMINALS, lane=lane))[-1]["response"]
        return response

    async def error(self, lane: str | _AnyLane | None = ANY) -> Event:
        """The next `error` event (of this lane)."""
        return (await self.until("error", lane=lane))[-1]

    async def heard(self) -> None:
        """The gateway has taken each frame that was sent so far: it answers them in order."""
        await self.send("heard?")
        with anyio.fail_after(HANG):
            while (event := await self.receive())["type"] != "error":
                self._unclaimed.append(event)
        assert event["error"]["code"] == "invalid_json", event

    def lane(self, name: str | None) -> list[Event]:
        """What was seen of one lane so far."""
        return [event for event in self.transcript if _on(name)(event)]

    async def receive(self) -> Event:
        """One frame off the wire: strict JSON in a text frame, judged."""
        frame = await self.socket.recv()
        if not isinstance(frame, str):
            raise AssertionError(f"not a text frame: {frame!r}")
        frame.encode()  # raises on a lone surrogate
        event = json.loads(frame, parse_constant=_refuse, object_pairs_hook=_pairs)
        assert isinstance(event, dict), frame
        self.transcript.append(event)
        if self.judge is not None:
            self.judge.receive(event)
        return event

    async def closed(self, timeout: float = HANG) -> tuple[int, str]:
        """Read on until the gateway closes; its close code and reason."""
        with anyio.fail_after(timeout):
            while True:
                try:
                    self._unclaimed.append(await self.receive())
                except ConnectionClosed as closing:
                    got = closing.rcvd
                    return (got.code, got.reason) if got is not None else (1006, "")

    def abort(self) -> None:
        """Leave without a word: no close frame, the TCP connection just ends."""
        self.socket.transport.abort()


@asynccontextmanager
async def connect(
    base_url: str,
    *,
    path: str = "/responses",
    headers: Mapping[str, str] | None = None,
    judged: bool = True,
    **options: Any,
) -> AsyncIterator[Client]:
    """Open a socket to the gateway at `base_url` (`http://…/v1`); `options` go to websockets."""
    url = base_url.replace("http", "ws", 1) + path
    defaults: dict[str, Any] = {"max_size": None, "compression": None, "proxy": None}
    async with open_socket(url, additional_headers=headers, **defaults | options) as socket:
        yield Client(socket, StreamJudge() if judged else None)


def _on(lane: str | _AnyLane | None) -> Callable[[Event], bool]:
    return lambda event: isinstance(lane, _AnyLane) or event.get("stream_id") == lane


def _refuse(constant: str) -> None:
    raise AssertionError(f"{constant} is not JSON")


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        raise AssertionError(f"a key twice: {[key for key, _ in pairs]}")
    return made
