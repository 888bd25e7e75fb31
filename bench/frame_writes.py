"""The effect of D12: frames written at the end of the loop's turn, against one write an event.

In each turn of the event loop 1, 4 or 16 lanes of one connection get an event, and the frames go
over a real socket pair. D12's own figures are of a whole gateway under `multilane load`; these are
of the part that the outbox decides.
"""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from typing import TYPE_CHECKING, cast

from bench.measure import Case, main
from gateway.client.outbox import SocketOutbox
from lanes.codec import encode
from lanes.events import Stamp

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AsyncExitStack

TITLE = "D12, outbox to socket, one event"
_LANES = (1, 4, 16)
_HEAD = b'{"type":"response.output_text.delta","item_id":"msg_0123456789","output_index":0,"delta":'


class _Writer(asyncio.Protocol):
    """Implements `FrameWriter` over a transport, and counts the writes."""

    def __init__(self) -> None:
        self.writes = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def write_frames(self, frames: bytes) -> None:
        self.writes += 1
        self._transport.write(frames)


def _drain(peer: socket.socket) -> None:
    while peer.recv(1 << 20):
        pass


def _writing(name: str, lanes: int, *, at_once: bool) -> Case:
    async def measure(count: int) -> float:
        near, far = socket.socketpair()
        reader = threading.Thread(target=_drain, args=(far,))
        reader.start()
        near.setblocking(False)  # noqa: FBT003
        transport, writer = await asyncio.get_running_loop().create_connection(_Writer, sock=near)
        outbox = SocketOutbox(writer)
        puts = [_put(outbox, f"lane-{lane}", at_once=at_once) for lane in range(lanes)]
        turns = max(1, count // lanes)
        started = time.thread_time_ns()
        for _ in range(turns):
            for put in puts:
                put()
            await asyncio.sleep(0)  # the turn ends
        spent = time.thread_time_ns() - started
        expected = turns * lanes if at_once else turns
        assert writer.writes in (expected, expected - 1), f"{writer.writes} writes"
        transport.close()
        await asyncio.to_thread(reader.join)
        far.close()
        return spent / 1000 / (turns * lanes)

    return Case(name, measure)


def _put(outbox: SocketOutbox, lane: str, *, at_once: bool) -> Callable[[], None]:
    stamp, body = Stamp(lane), _HEAD + encode("of the sea and the wind, " * 4)

    def put() -> None:
        outbox.put(stamp, body)
        if at_once:
            outbox.flush()

    return put


async def cases(_: AsyncExitStack) -> list[Case]:
    """Return the rows."""
    rows: list[Case] = []
    for lanes in _LANES:
        place = f"{lanes} events a turn" if lanes > 1 else "1 event a turn"
        rows.append(_writing(f"one write an event, {place}", lanes, at_once=True))
        rows.append(_writing(f"one write a turn, {place}", lanes, at_once=False))
    return rows


if __name__ == "__main__":
    main(TITLE, cases, count=20_000)
