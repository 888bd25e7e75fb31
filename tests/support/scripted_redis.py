"""A server that speaks the protocol of a Redis and answers what a test wants, sense or not."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    #: The words of a command, the first in capitals; the bytes to answer it with.
    Script = Callable[[list[bytes]], bytes]


@asynccontextmanager
async def scripted_redis(answer: Script) -> AsyncIterator[str]:
    """Serve until the block ends; yields the URL."""
    peers: dict[asyncio.Task[None] | None, asyncio.StreamWriter] = {}

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        peers[asyncio.current_task()] = writer
        try:
            while True:
                words = await _command(reader)
                words[0] = words[0].upper()
                writer.write(answer(words))
                await writer.drain()
        except (asyncio.IncompleteReadError, OSError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield f"redis://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        for writer in peers.values():
            writer.transport.abort()
        await asyncio.gather(*(task for task in peers if task is not None))


async def _command(reader: asyncio.StreamReader) -> list[bytes]:
    count = int((await reader.readuntil(b"\r\n"))[1:])
    words = []
    for _ in range(count):
        length = int((await reader.readuntil(b"\r\n"))[1:])
        words.append((await reader.readexactly(length + 2))[:-2])
    return words


def bulk(data: bytes) -> bytes:
    """A string as the protocol writes it."""
    return b"$%d\r\n%b\r\n" % (len(data), data)
