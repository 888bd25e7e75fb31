"""A relay between gateway and backend that breaks connections, for the soak."""

from __future__ import annotations

import asyncio
import random
from contextlib import suppress

#: Seconds between two breaks of a connection to the backend.
_BREAKS = 0.7


class Relay:
    """Stands between gateway and backend, and breaks a connection now and then."""

    def __init__(self, backend: int) -> None:
        self._backend = backend
        self._writers: set[asyncio.StreamWriter] = set()
        self.breaks = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Relay one connection in both directions until either end closes it."""
        self._writers.add(writer)
        with suppress(OSError):
            inner, outer = await asyncio.open_connection("127.0.0.1", self._backend)
            both = [
                asyncio.create_task(self._pump(reader, outer)),
                asyncio.create_task(self._pump(inner, writer)),
            ]
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
            for task in both:
                task.cancel()
            outer.transport.abort()
        self._writers.discard(writer)
        writer.close()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await reader.read(1 << 16):
                writer.write(data)
                await writer.drain()

    async def breaking(self) -> None:
        """Break one connection after the other."""
        while True:
            await asyncio.sleep(_BREAKS)
            if self._writers:
                random.choice(list(self._writers)).transport.abort()
                self.breaks += 1
