"""A TLS client by hand: the test says which bytes of a handshake go out, and when it reads."""

from __future__ import annotations

import ssl
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from tests.support.raw_client import tcp

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.support.raw_client import Raw


class TlsClient:
    """One connection; `raw` has its bytes as they are on the wire."""

    def __init__(self, raw: Raw, trusted: ssl.SSLContext) -> None:
        self.raw = raw
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = trusted.wrap_bio(self._incoming, self._outgoing, server_hostname="127.0.0.1")

    def hello(self) -> bytes:
        """The first bytes of a handshake, which are not sent yet."""
        try:
            self.tls.do_handshake()
        except ssl.SSLWantReadError:
            return self._outgoing.read()
        raise AssertionError("a handshake takes two")

    async def finish(self, behind: bytes = b"") -> None:
        """Carry on with a handshake whose first bytes were sent; `behind` goes with its last."""
        while True:
            data = await self.raw.read(1 << 16)
            assert data, "the connection ended within the handshake"
            self._incoming.write(data)
            try:
                self.tls.do_handshake()
            except ssl.SSLWantReadError:
                await self._flush()
            else:
                break
        if behind:
            self.tls.write(behind)
        await self._flush()

    async def write(self, data: bytes) -> None:
        """Bytes as they are, within TLS."""
        self.tls.write(data)
        await self._flush()

    async def read(self) -> bytes:
        """What comes next; none at the end, whether that was said or not."""
        while True:
            try:
                return self.tls.read(1 << 16)
            except (ssl.SSLZeroReturnError, ssl.SSLEOFError):
                return b""
            except ssl.SSLWantReadError:
                data = await self.raw.read(1 << 16)
                if not data:
                    self._incoming.write_eof()
                self._incoming.write(data)

    async def answer(self) -> bytes:
        """All up to the end of a body of known length, or of the connection."""
        got = b""
        while True:
            head, found, body = got.partition(b"\r\n\r\n")
            size = head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0]
            if found and size and len(body) >= int(size):
                return got
            data = await self.read()
            if not data:
                return got
            got += data

    async def _flush(self) -> None:
        if data := self._outgoing.read():
            await self.raw.write(data)


@asynccontextmanager
async def secured(
    port: int, trusted: ssl.SSLContext, *, receive_buffer: int | None = None
) -> AsyncIterator[TlsClient]:
    """A connection whose handshake is over."""
    async with tcp(port, receive_buffer=receive_buffer) as raw:
        client = TlsClient(raw, trusted)
        await raw.write(client.hello())
        await client.finish()
        yield client
