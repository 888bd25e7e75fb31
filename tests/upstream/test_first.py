"""Looking at a stream's first events before it is relayed: nothing is lost, doubled or late."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from lanes.errors import UpstreamFault
from tests.support.raw_http_server import END, HEAD, Sink, asked, chunk, event, opened, soon, until

if TYPE_CHECKING:
    from gateway.upstream.transport.http.client import HttpClient
    from tests.support.raw_http_server import RawHttpServer


async def test_they_are_relayed_before_what_follows(
    server: RawHttpServer, client: HttpClient
) -> None:
    stream, peer = await opened(server, client)
    looking = asyncio.create_task(stream.first())
    peer.send(chunk(0) + chunk(1))
    assert [data for _, data in await looking] == [b"0", b"1"]
    peer.send(chunk(2))
    connection = stream._reply._connection
    assert connection is not None
    assert connection._transport is not None
    assert not connection._transport.is_reading()  # it waits until somebody relays
    sink = Sink()
    relaying = asyncio.create_task(stream.relay(sink))
    await sink.have(3)
    peer.send(chunk(3) + END)
    await soon(relaying)
    assert sink.numbers == [0, 1, 2, 3]
    assert client.pool.idle == 1


async def test_half_an_event_is_waited_for(server: RawHttpServer, client: HttpClient) -> None:
    posting, peer = await asked(server, client)
    peer.send(b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n: hold on\n\n" + event(0)[:-3])
    stream = await posting
    looking = asyncio.create_task(stream.first())
    await until(lambda: bool(stream._body.splitter._pending))
    assert not looking.done()
    peer.send(event(0)[-3:] + event(1)[:4])
    assert [data for _, data in await looking] == [b"0"]
    peer.send(event(1)[4:])
    peer.close()
    sink = Sink()
    await soon(stream.relay(sink))
    assert sink.numbers == [0, 1]


@pytest.mark.parametrize(("body", "numbers"), [(b"", []), (b"event: x\ndata: 5\n", [5])])
async def test_a_body_that_ends_first(
    body: bytes, numbers: list[int], server: RawHttpServer, client: HttpClient
) -> None:
    """Its last event may lack the blank line."""
    posting, peer = await asked(server, client)
    peer.send(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body))
    stream = await posting
    assert [int(data) for _, data in await stream.first()] == numbers
    sink = Sink()
    await soon(stream.relay(sink))
    assert sink.numbers == numbers


@pytest.mark.parametrize("how", ["close", "reset"])
async def test_one_that_breaks_off_before_any(
    how: str, server: RawHttpServer, client: HttpClient
) -> None:
    stream, peer = await opened(server, client)
    looking = asyncio.create_task(stream.first())
    peer.close() if how == "close" else peer.reset()
    with pytest.raises(UpstreamFault):
        await looking
    await until(lambda: client.pool.size == 0)


async def test_one_that_breaks_off_after_the_first(
    server: RawHttpServer, client: HttpClient
) -> None:
    stream, peer = await opened(server, client)
    looking = asyncio.create_task(stream.first())
    peer.send(chunk(0))
    await looking
    peer.reset()
    sink = Sink()
    with pytest.raises(UpstreamFault):
        await stream.relay(sink)
    assert sink.numbers == [0]


async def test_whoever_stops_looking_closes_it(server: RawHttpServer, client: HttpClient) -> None:
    stream, peer = await opened(server, client)
    looking = asyncio.create_task(stream.first())
    await asyncio.sleep(0)
    looking.cancel()
    assert await peer.gone()
    assert client.pool.size == 0


@pytest.mark.parametrize("how", ["close", "release"])
async def test_a_sink_that_wants_no_more_than_the_first(
    how: str, server: RawHttpServer, client: HttpClient
) -> None:
    stream, peer = await opened(server, client)
    looking = asyncio.create_task(stream.first())
    peer.send(chunk(0))
    await looking
    peer.send(chunk(1))
    got = []

    def sink(events: list[tuple[str | None, bytes]]) -> None:
        got.extend(events)
        getattr(stream, how)()

    await soon(stream.relay(sink))
    assert [data for _, data in got] == [b"0"]


async def test_what_the_sink_raises_at_the_first(server: RawHttpServer, client: HttpClient) -> None:
    stream, peer = await opened(server, client)
    looking = asyncio.create_task(stream.first())
    peer.send(chunk(0))
    await looking

    def sink(_: object) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await stream.relay(sink)
    assert await peer.gone()


async def test_an_event_that_is_too_large(server: RawHttpServer, client: HttpClient) -> None:
    client._max_event_bytes = 1024
    posting, peer = await asked(server, client)
    peer.send(HEAD + b"ffff\r\ndata: " + b"x" * 5000)
    stream = await posting
    with pytest.raises(UpstreamFault, match="more than 1024 bytes"):
        await stream.first()
    assert await peer.gone()
