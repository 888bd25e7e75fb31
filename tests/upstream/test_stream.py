"""One stream over a real socket: relay, pause, release, close, and every way it breaks off."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import anyio
import pytest
from anyio.lowlevel import checkpoint

from lanes.errors import UpstreamFault
from tests.support.raw_http_server import (
    END,
    HEAD,
    Sink,
    asked,
    chunk,
    event,
    opened,
    post,
    soon,
    until,
)

if TYPE_CHECKING:
    from gateway.upstream.transport.http.client import HttpClient
    from lanes.ports import Event
    from tests.support.raw_http_server import RawHttpServer


async def test_a_read_is_one_call(server: RawHttpServer, client: HttpClient) -> None:
    stream, peer = await opened(server, client)
    sink = Sink()
    relaying = asyncio.create_task(stream.relay(sink))
    for number in range(3):
        peer.send(chunk(number * 2) + chunk(number * 2 + 1))
        await sink.have(number * 2 + 2)
    peer.send(END)
    await soon(relaying)
    assert [len(events) for events in sink.reads] == [2, 2, 2]
    assert sink.numbers == [0, 1, 2, 3, 4, 5]
    assert (client.pool.size, client.pool.idle) == (1, 1)


async def test_events_with_the_head_and_before_relay_are_kept(
    server: RawHttpServer, client: HttpClient
) -> None:
    posting, peer = await asked(server, client)
    peer.send(HEAD + chunk(0))
    stream = await posting
    peer.send(chunk(1) + chunk(2) + END)
    sink = Sink()
    await soon(stream.relay(sink))
    assert sink.numbers == [0, 1, 2]
    assert client.pool.idle == 1


async def test_a_whole_answer_in_one_read(server: RawHttpServer, client: HttpClient) -> None:
    posting = asyncio.create_task(post(client))
    await server.serve(HEAD + chunk(0, 1) + END)
    stream = await posting
    assert client.pool.idle == 1
    sink = Sink()
    await soon(stream.relay(sink))
    assert sink.numbers == [0, 1]
    stream.close()
    assert (client.pool.size, client.pool.idle) == (1, 1)


@pytest.mark.parametrize("framing", [b"content-length: %d\r\n", b"connection: close\r\n", b""])
async def test_bodies_without_chunks(
    server: RawHttpServer, client: HttpClient, framing: bytes
) -> None:
    """With a length, or ended by closing; the last event lacks its blank line."""
    posting, peer = await asked(server, client)
    body = event(0) + event(1)[:-1]
    framing = framing % len(body) if b"%" in framing else framing
    peer.send(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n" + framing + b"\r\n" + body)
    if b"length" not in framing:
        peer.close()
    sink = Sink()
    await soon((await posting).relay(sink))
    assert sink.numbers == [0, 1]
    assert client.pool.idle == (1 if b"length" in framing else 0)


@pytest.mark.parametrize("how", ["close", "reset", "garbage", "short"])
async def test_a_body_that_breaks_off(server: RawHttpServer, client: HttpClient, how: str) -> None:
    posting, peer = await asked(server, client)
    if how == "short":
        peer.send(b"HTTP/1.1 200 OK\r\ncontent-length: 999\r\n\r\n" + event(0))
    else:
        peer.send(HEAD + chunk(0))
    stream, sink = await posting, Sink()
    relaying = asyncio.create_task(stream.relay(sink))
    await sink.have(1)
    match how:
        case "reset":
            peer.reset()
        case "garbage":
            peer.send(chunk(1) + b"zz\r\n")
        case _:
            peer.close()
    with pytest.raises(UpstreamFault, match=r"closed the connection|no HTTP") as caught:
        await soon(relaying)
    assert (caught.value.status, caught.value.code) == (502, "server_error")
    assert sink.numbers == ([0, 1] if how == "garbage" else [0])
    assert client.pool.idle == 0


async def test_what_a_sink_raises_comes_out_of_relay(
    server: RawHttpServer, client: HttpClient
) -> None:
    stream, peer = await opened(server, client)

    def sink(_: list[Event]) -> None:
        raise LookupError("mine")

    relaying = asyncio.create_task(stream.relay(sink))
    peer.send(chunk(0))
    with pytest.raises(LookupError, match="mine"):
        await soon(relaying)
    assert await peer.gone()


async def test_a_sink_may_raise_when_all_is_over(server: RawHttpServer, client: HttpClient) -> None:
    posting = asyncio.create_task(post(client))
    await server.serve(HEAD + chunk(0) + END)
    stream = await posting

    def sink(_: list[Event]) -> None:
        raise LookupError("mine")

    with pytest.raises(LookupError, match="mine"):
        await soon(stream.relay(sink))


async def test_close_ends_relay_and_the_connection(
    server: RawHttpServer, client: HttpClient
) -> None:
    stream, peer = await opened(server, client)
    sink = Sink()
    relaying = asyncio.create_task(stream.relay(sink))
    peer.send(chunk(0))
    await sink.have(1)
    stream.close()
    stream.close()
    await soon(relaying)
    assert await peer.gone()
    for late in (stream.pause, stream.resume, stream.release):
        late()


async def test_close_from_within_the_sink(server: RawHttpServer, client: HttpClient) -> None:
    stream, peer = await opened(server, client)
    sink = Sink()

    def once(events: list[Event]) -> None:
        sink(events)
        if len(sink.reads) == 2:
            stream.close()

    relaying = asyncio.create_task(stream.relay(once))
    peer.send(chunk(0))
    await sink.have(1)
    peer.send(chunk(1) + END)
    await soon(relaying)
    assert sink.numbers == [0, 1]
    assert await peer.gone()


async def test_cancelling_relay_closes(server: RawHttpServer, client: HttpClient) -> None:
    stream, peer = await opened(server, client)
    async with anyio.create_task_group() as group:
        group.start_soon(stream.relay, Sink())
        await checkpoint()
        group.cancel_scope.cancel()
    assert await peer.gone()


async def test_pause_stops_the_flow(server: RawHttpServer, client: HttpClient) -> None:
    stream, peer = await opened(server, client)
    sink = Sink()
    relaying = asyncio.create_task(stream.relay(sink))
    peer.send(chunk(0))
    await sink.have(1)
    stream.pause()
    stream.pause()
    many = b"%x\r\ndata: %s\n\n\r\n" % (65536 + 8, b"7" * 65536)
    total = 512

    async def flood() -> None:
        for _ in range(total):
            peer.send(many)
            await peer.writer.drain()
        peer.send(END)

    flooding = asyncio.create_task(flood())
    done, _ = await asyncio.wait([flooding, relaying], timeout=0.3)
    assert not done
    assert len(sink.reads) == 1
    stream.resume()
    await soon(relaying)
    await flooding
    assert sum(map(len, sink.reads)) == 1 + total


async def test_pause_before_relay_holds(server: RawHttpServer, client: HttpClient) -> None:
    stream, peer = await opened(server, client)
    stream.pause()
    sink = Sink()
    relaying = asyncio.create_task(stream.relay(sink))
    peer.send(chunk(0) + END)
    done, _ = await asyncio.wait([relaying], timeout=0.05)
    assert not done
    assert not sink.reads
    stream.resume()
    await soon(relaying)
    assert sink.numbers == [0]


async def test_release_keeps_the_connection_if_the_body_ends(
    server: RawHttpServer, client: HttpClient
) -> None:
    stream, peer = await opened(server, client)
    sink = Sink()
    relaying = asyncio.create_task(stream.relay(sink))
    peer.send(chunk(0))
    await sink.have(1)
    stream.pause()
    stream.release()
    await soon(relaying)
    assert client.pool.idle == 0
    peer.send(chunk(1) + END)
    await until(lambda: client.pool.idle == 1)
    stream.close()  # it is no longer its connection, and none of these may touch it
    stream.pause()
    again = asyncio.create_task(post(client))
    await peer.request()
    stream.close()
    peer.send(HEAD + chunk(2) + END)
    await soon((await again).relay(later := Sink()))
    assert (sink.numbers, later.numbers) == ([0], [2])
    assert (client.pool.size, client.pool.idle) == (1, 1)


async def test_release_closes_if_the_body_goes_on(
    server: RawHttpServer, client: HttpClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.upstream.transport.http.reply._DRAIN_SECONDS", 0.05)
    stream, peer = await opened(server, client)
    relaying = asyncio.create_task(stream.relay(Sink()))
    await checkpoint()
    stream.release()
    await soon(relaying)
    peer.send(chunk(1))
    assert await peer.gone()


async def test_a_stream_nobody_relays_can_be_left(
    server: RawHttpServer, client: HttpClient
) -> None:
    stream, peer = await opened(server, client)
    stream.close()
    assert await peer.gone()
    await soon(stream.relay(Sink()))


async def test_aclose_ends_what_runs(server: RawHttpServer, client: HttpClient) -> None:
    stream, peer = await opened(server, client)
    relaying = asyncio.create_task(stream.relay(Sink()))
    await checkpoint()
    await client.aclose()
    with pytest.raises(UpstreamFault, match="shutting down"):
        await soon(relaying)
    assert await peer.gone()
    assert client.pool.size == 0
    with pytest.raises(UpstreamFault, match="shutting down"):
        await post(client)
