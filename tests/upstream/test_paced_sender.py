"""A large request leaves piece by piece, whole and in order (D33)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from websockets.frames import Frame
from websockets.streams import StreamReader

from gateway.upstream.transport.http.client import HttpClient
from gateway.upstream.transport.paced_sender import PIECE, PacedSender, cut
from gateway.upstream.transport.websocket.masking import masked
from lanes.errors import UpstreamFault
from tests.support.raw_http_server import END, HEAD, answer, running, soon, until

if TYPE_CHECKING:
    import ssl


class Transport:
    """Notes what is written."""

    def __init__(self) -> None:
        self.written: list[bytes] = []
        self.closing = False

    def is_closing(self) -> bool:
        return self.closing

    def write(self, data: bytes) -> None:
        self.written.append(bytes(data))

    def writelines(self, data: list[bytes]) -> None:
        self.written += map(bytes, data)


@pytest.fixture
def transport() -> Transport:
    return Transport()


@pytest.fixture
def sender(transport: Transport) -> PacedSender:
    one = PacedSender()
    one.transport = cast("Any", transport)
    return one


async def test_what_is_small_waits_behind_what_is_large(
    sender: PacedSender, transport: Transport
) -> None:
    large = b"ab" * PIECE
    sender.write([b"1"])
    sender.write_large(cut(large))
    sender.write([b"2", b"3"])
    sender.write_large(cut(b"end"))
    assert transport.written == [b"1"]
    await sender.drained()
    assert b"".join(transport.written) == b"1" + large + b"23end"
    assert max(map(len, transport.written)) == PIECE
    sender.write([b"4"])
    assert transport.written[-1] == b"4"


async def test_one_piece_in_a_turn_of_the_loop(sender: PacedSender, transport: Transport) -> None:
    sender.write_large(cut(b"x" * PIECE * 5))
    for turn in range(1, 5):
        await asyncio.sleep(0)
        assert len(transport.written) == turn


async def test_nothing_is_written_into_a_full_transport(
    sender: PacedSender, transport: Transport
) -> None:
    sender.write_large(cut(b"x" * PIECE * 5))
    await asyncio.sleep(0)
    sender.pause()
    before = len(transport.written)
    for _ in range(10):
        await asyncio.sleep(0)
    assert len(transport.written) <= before + 1
    waiting = asyncio.create_task(sender.drained())
    sender.resume()
    await soon(waiting)
    assert len(transport.written) == 5


@pytest.mark.parametrize("ends", ["closing", "closed"])
async def test_who_waits_is_released_at_the_end(
    sender: PacedSender, transport: Transport, ends: str
) -> None:
    sender.write_large(cut(b"x" * PIECE * 5))
    waiting = asyncio.create_task(sender.drained())
    await asyncio.sleep(0)
    if ends == "closing":
        transport.closing = True
    else:
        sender.close()
    await soon(waiting)
    assert len(transport.written) < 5
    sender.write([b"more"])
    assert transport.written[-1] != b"more"


@given(st.integers(0, 200), st.integers(PIECE + 1, 3 * PIECE + 9))
def test_a_masked_frame_is_what_the_library_reads(head: int, size: int) -> None:
    text, rest = b"h" * head, (b"0123456789" * (size // 10 + 1))[:size]
    reader = StreamReader()
    reader.feed_data(b"".join(masked(text, rest)))
    parsing = Frame.parse(reader.read_exact, mask=True)
    with pytest.raises(StopIteration) as over:
        next(parsing)
    assert over.value.value.data == text + rest
    assert not reader.buffer


@pytest.mark.parametrize("secure", [False, True])
async def test_a_large_request_arrives_whole(
    ours: ssl.SSLContext, theirs: ssl.SSLContext, *, secure: bool
) -> None:
    body = bytes(range(256)) * 20_000
    async with running(ours if secure else None) as server:
        scheme = "https" if secure else "http"
        client = HttpClient(f"{scheme}://127.0.0.1:{server.port}", tls=theirs, proxies={})
        for _ in range(2):
            posting = asyncio.create_task(client.post("/responses", body, {}))
            await until(lambda: bool(server.peers))
            assert (await server.peers[0].request()).body == body
            server.peers[0].send(HEAD + END)
            await soon((await posting).relay(lambda _: None))
        assert len(server.peers) == 1
        await client.aclose()


async def test_an_answer_before_the_end_of_a_large_request_ends_the_connection() -> None:
    async with running() as server:
        client = HttpClient(server.url, proxies={}, retries=0)
        posting = asyncio.create_task(client.post("/responses", bytes(60_000_000), {}))
        await until(lambda: bool(server.peers))
        peer = server.peers[0]
        await peer.reader.readuntil(b"\r\n\r\n")
        peer.send(answer(413, b"{}"))
        with pytest.raises(UpstreamFault) as refused:
            await posting
        assert refused.value.status == 413
        assert not client.pool.idle
        await client.aclose()
