"""A gateway's socket without a gateway: answers every create by the script, lanes side by side."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from websockets.asyncio.server import ServerConnection, serve

from tests.load.script import Events, answer

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncIterator, Callable

    from websockets.http11 import Request, Response


class Stub:
    """Plants a fault in the `at`th create, or refuses it with an error event."""

    def __init__(self) -> None:
        self.creates: list[dict[str, Any]] = []
        self.pongs = 0
        self.busy = asyncio.Event()  # fifty creates have come
        self.at = 5
        self.spoil: Callable[[Events], None] = lambda events: None
        self.error: dict[str, Any] | None = None
        self.gate: Callable[[ServerConnection, Request], Response | None] = lambda *_: None
        self.fragment = False
        self.hang_up = False

    async def serve(self, connection: ServerConnection) -> None:
        """One connection."""
        lanes: dict[str, asyncio.Lock] = {}
        await (await connection.ping())
        self.pongs += 1
        async with asyncio.TaskGroup() as group:
            async for message in connection:
                create = json.loads(message)
                self.creates.append(create)
                if len(self.creates) == 50:
                    self.busy.set()
                lane = lanes.setdefault(create["stream_id"], asyncio.Lock())
                group.create_task(self._answer(connection, lane, create, len(self.creates)))

    async def _answer(
        self, connection: ServerConnection, lane: asyncio.Lock, create: dict[str, Any], number: int
    ) -> None:
        async with lane:
            events = answer(create, number)
            if number == self.at:
                if self.hang_up:
                    await connection.close(1011, "on purpose")
                if self.error:
                    events = [{**self.error, "stream_id": create["stream_id"]}]
                self.spoil(events)
            for event in events:
                await self._send(connection, json.dumps(event))
                await asyncio.sleep(0)  # the other lanes' turn

    async def _send(self, connection: ServerConnection, text: str) -> None:
        if self.fragment:
            await connection.send([text[:10], text[10:]])
        else:
            await connection.send(text)


@asynccontextmanager
async def running(stub: Stub, secure: ssl.SSLContext | None = None) -> AsyncIterator[str]:
    """Serve on a free loopback port; gives the URL."""
    server = await serve(
        stub.serve, "127.0.0.1", 0, process_request=lambda c, r: stub.gate(c, r), ssl=secure
    )
    async with server:
        port = next(iter(server.sockets)).getsockname()[1]
        yield f"{'wss' if secure else 'ws'}://127.0.0.1:{port}/v1/responses"
