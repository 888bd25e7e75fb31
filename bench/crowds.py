"""Clients that send many frames at once, each small enough to be read at once (D33)."""

from __future__ import annotations

import asyncio
import json
from time import perf_counter
from typing import TYPE_CHECKING, Final

from websockets.asyncio.client import connect
from websockets.frames import Frame, Opcode

if TYPE_CHECKING:
    from collections.abc import Callable

#: How many clients send at once.
CLIENTS: Final = 6
_END: Final = b'{"type":"the end"}'
_HEAD: Final = b'{"type":"response.create","model":"m",'
_STEER: Final = b'{"type":"response.steer","previous_response_id":"resp_0","input":"x"}'


def _many(frame: bytes, count: int) -> list[bytes]:
    return [frame] * count


#: The frames that each client sends in one write.
CROWDS: Final[dict[str, Callable[[], list[bytes]]]] = {
    "frames of 64 KB": lambda: _many(_HEAD + b'"input":[[%b0]]}' % (b"[]," * 21_000), 20),
    "objects of 64 KB": lambda: _many(_HEAD + b'"input":[%b{}]}' % (b'{"a":0},' * 8000), 4),
    "empty frames": lambda: _many(b"", 4000),
    "creates that are refused": lambda: _many(b'{"type":"response.create"}', 2000),
    "warm-ups": lambda: _many(_HEAD + b'"input":"x","generate":false}', 500),
    "cancels": lambda: _many(b'{"type":"response.cancel","stream_id":"a"}', 4000),
    "steers": lambda: _many(_STEER, 2000),
    "pings": lambda: [],
}


async def send_crowd(port: int, name: str) -> float:
    """Have all clients send, and return the slowest answer of `/health` meanwhile, in ms.

    Args:
        port: The gateway's.
        name: Of the crowd.
    """
    wire = b"".join(_masked(frame) for frame in CROWDS[name]())
    if name == "pings":
        wire = _masked(b"x" * 100, Opcode.PING) * 4000
    asking = asyncio.create_task(_slowest(port))
    async with asyncio.TaskGroup() as group:
        for _ in range(CLIENTS):
            group.create_task(_client(port, wire + _masked(_END)))
    asking.cancel()
    return await asking


async def _client(port: int, wire: bytes) -> None:
    url = f"ws://127.0.0.1:{port}/v1/responses"
    async with connect(url, max_size=None, ping_interval=None) as client:
        client.transport.write(wire)
        while True:
            event = json.loads(await client.recv())
            if "the end" in event.get("error", {}).get("message", ""):
                return


async def _slowest(port: int) -> float:
    """Ask for the gateway's health on and on, until this is cancelled."""
    slowest = 0.0
    try:
        while True:
            start = perf_counter()
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            try:
                writer.write(b"GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
                await reader.read()
            finally:
                writer.close()
            slowest = max(slowest, perf_counter() - start)
            await asyncio.sleep(0.005)
    except asyncio.CancelledError:
        return slowest * 1000


def _masked(payload: bytes, opcode: Opcode = Opcode.TEXT) -> bytes:
    return Frame(opcode, payload).serialize(mask=True)
