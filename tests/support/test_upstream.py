"""The fake upstream does what it is told, when it is told."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING

import anyio
import pytest

from tests.support.events import reply
from tests.support.upstream import ScriptedUpstream, upstream

if TYPE_CHECKING:
    from tests.support.exchange import Exchange


async def _ask(
    fake: ScriptedUpstream, body: bytes = b'{"input":"hi"}'
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    port = int(fake.url.split(":")[2].split("/")[0])
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    head = f"POST /v1/responses HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n"
    writer.write(head.encode() + body)
    return reader, writer


async def test_each_chunk_waits_for_the_test() -> None:
    async with upstream() as fake:
        reader, writer = await _ask(fake)
        exchange = await fake.next()
        assert (exchange.path, exchange.body) == ("/v1/responses", {"input": "hi"})
        assert exchange.input == [{"role": "user", "content": "hi"}]
        await exchange.send(b"one")
        assert await reader.readuntil(b"\r\n\r\n")
        assert await reader.readuntil(b"one\r\n") == b"3\r\none\r\n"
        with pytest.raises(TimeoutError), anyio.fail_after(0.02):
            await reader.read(1)
        await exchange.send(b"two")
        assert await reader.readuntil(b"two\r\n") == b"3\r\ntwo\r\n"
        await exchange.end()
        assert await reader.readuntil(b"\r\n\r\n") == b"0\r\n\r\n"
        writer.close()


async def test_it_sees_who_hangs_up() -> None:
    async with upstream() as fake:
        _, writer = await _ask(fake)
        exchange = await fake.next()
        await exchange.send(b"one")
        writer.close()
        await exchange.hang()
        with pytest.raises(ConnectionError):
            await exchange.send(b"two")


async def test_refusals_cuts_and_resets() -> None:
    async with upstream() as fake:
        reader, writer = await _ask(fake)
        await (await fake.next()).reply(429, {"error": {}}, {"retry-after": "7"})
        head = await reader.readuntil(b"\r\n\r\n")
        assert b" 429 " in head
        assert b"retry-after: 7" in head
        assert await reader.readexactly(13) == b'{"error": {}}'
        writer.close()
        reader, writer = await _ask(fake)
        exchange = await fake.next()
        await exchange.send(b"one")
        exchange.cut()
        assert (await reader.read()).endswith(b"one\r\n")
        writer.close()
        reader, writer = await _ask(fake)
        (await fake.next()).reset()
        with pytest.raises(ConnectionResetError):
            await reader.read()
        writer.close()


async def test_a_script_plays_by_itself() -> None:
    gate = anyio.Event()

    def script(exchange: Exchange) -> list[bytes | anyio.Event]:
        return [*reply(exchange.body["input"]), gate]

    async with upstream(script) as fake:
        reader, writer = await _ask(fake)
        await reader.readuntil(b"response.completed")
        gate.set()
        assert (await reader.readuntil(b"0\r\n\r\n")).endswith(b"0\r\n\r\n")
        writer.close()


async def test_one_connection_serves_many_requests() -> None:
    async with upstream(lambda exchange: [b"x"]) as fake:
        reader, writer = await _ask(fake)
        await reader.readuntil(b"0\r\n\r\n")
        body = json.dumps({"input": [1]}).encode()
        writer.write(b"POST /v1/responses HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % len(body))
        writer.write(body)
        await reader.readuntil(b"0\r\n\r\n")
        assert [exchange.input for exchange in fake.exchanges][1] == [1]
        assert fake.connections == 1
        writer.close()
