"""Large, fragmented, empty and broken frames (B47, B60)."""

from __future__ import annotations

import base64
import json
from contextlib import suppress
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed

from gateway.client.socket import FrameReader
from tests.support.client import connect
from tests.support.events import reply
from tests.support.exchange import hung_up
from tests.support.raw_client import BINARY, CLOSE, CONT, PING, PONG, TEXT, Raw, frame, raw
from tests.support.wire_stand import last_text, sockets, standing, talking

CREATE = json.dumps({"type": "response.create", "model": "m", "input": "hi", "stream_id": "a"})


def picture(size: int) -> list[dict[str, Any]]:
    url = "data:image/png;base64," + base64.b64encode(b"x" * (size * 3 // 4)).decode()
    part = {"type": "input_image", "detail": "auto", "image_url": url}
    return [{"role": "user", "content": [part]}]


async def test_a_data_url_of_3_mib_and_an_answer_of_6() -> None:
    word = "渐" * (2 << 20)
    async with talking(lambda _: reply(word)) as (stand, client):
        given = picture(3 << 20)
        await client.create("a", input=given)
        response = await client.ended("a")
        assert response["output"][0]["content"][0]["text"] == word
        assert stand.fake.exchanges[0].input[0]["content"] == given[0]["content"]


async def test_exactly_the_limit_passes() -> None:
    limit = 100_000
    async with talking(lambda _: reply("ok"), max_frame_bytes=limit) as (_, client):
        pad = limit - len(CREATE) - len(',"k":""')
        await client.send(CREATE[:-1] + f',"k":"{"x" * pad}"}}')
        await client.ended("a")


async def test_a_byte_more_closes_with_1009_and_ends_what_runs() -> None:
    async with talking(max_frame_bytes=100_000) as (stand, other), connect(stand.url) as client:
        lane = await stand.lane(client, "a")
        unharmed = await stand.lane(other, "a")
        await client.send(b" " * 100_001)
        assert (await client.closed())[0] == 1009
        await hung_up(lane.exchange)
        await unharmed.ends()


async def test_65_mib_are_refused_by_1009_that_the_client_sees() -> None:
    """Also while it still writes: a reset would lose the close frame."""
    async with standing() as stand, connect(stand.url) as client:
        with suppress(ConnectionClosed):
            await client.send("x" * (65 << 20))
        code, reason = await client.closed()
        assert code == 1009
        assert "67108864" in reason


async def test_64_mib_in_fragments() -> None:
    async with standing(max_frame_bytes=1 << 20) as stand, raw(stand.port) as client:
        piece = b" " * (300 << 10)
        await client.write(frame(piece, fin=False))
        for _ in range(3):
            await client.write(frame(piece, CONT, fin=False))
        closing = await client.end()
        assert closing is not None
        assert closing.code[0] == 1009


async def test_fragments_without_number_cost_nothing() -> None:
    async with standing() as stand, raw(stand.port) as client:
        await client.write(frame(b"", fin=False))
        await client.write((frame(b"", CONT, fin=False) + frame(b" ", CONT, fin=False)) * 1000)
        await client.send(b"", PING)
        assert await client.frame() == (PONG, b"")
        [socket] = sockets(stand)
        assert socket.frames == []
        reader = socket.conn.reader
        assert isinstance(reader, FrameReader)
        message = reader.message
        assert message is not None
        assert message.getbuffer().nbytes < 4096
        await client.write(frame(b"[]", CONT))
        event = (await client.until(TEXT))[-1].event
        assert event["error"]["code"] == "invalid_request_error"


async def events(client: Raw, last: str) -> list[dict[str, Any]]:
    """All events up to one of this type."""
    seen: list[dict[str, Any]] = []
    while not seen or seen[-1]["type"] != last:
        seen.append((await client.until(TEXT))[-1].event)
    return seen


@pytest.mark.parametrize("size", [1, 7, 30])
async def test_fragments_with_pings_between(size: int) -> None:
    async with standing(lambda _: reply("ok")) as stand, raw(stand.port) as client:
        data = CREATE.replace("hi", "渐🙂é").encode()
        pieces = [data[at : at + size] for at in range(0, len(data), size)]
        for at, piece in enumerate(pieces):
            opcode = CONT if at else (TEXT, BINARY)[size % 2]
            fin = at == len(pieces) - 1
            await client.write(frame(piece, opcode, fin=fin))
            if not fin:
                await client.write(frame(b"", CONT, fin=False) + frame(b"%d" % at, PING))
        pongs = [await client.frame() for _ in pieces[1:]]
        assert pongs == [(PONG, b"%d" % at) for at in range(len(pieces) - 1)]
        await events(client, "response.completed")
        assert last_text(stand.fake.exchanges[0]) == "渐🙂é"
        await client.send(b"\x03\xe8", CLOSE)
        closing = await client.end()
        assert closing is not None
        assert closing.code == (1000, "")


async def test_many_frames_in_one_write_and_one_frame_in_many() -> None:
    async with standing(lambda _: reply("ok")) as stand, raw(stand.port) as client:
        await client.write(b"".join(frame(CREATE) for _ in range(20)))
        for _ in range(20):
            await events(client, "response.completed")
        for byte in frame(CREATE):
            await client.write(bytes([byte]))
        await events(client, "response.completed")
        assert len(stand.fake.exchanges) == 21


BROKEN = {
    "not masked": (b"\x81\x02{}", 1002),
    "a reserved bit": (b"\xc1" + frame("{}")[1:], 1002),
    "an unknown opcode": (b"\x83" + frame("{}")[1:], 1002),
    "a fragmented ping": (frame(b"", PING, fin=False), 1002),
    "a long ping": (frame(b"x" * 126, PING), 1002),
    "a continuation of nothing": (frame(b"x", CONT), 1002),
    "a new frame within another": (frame(b"x", fin=False) + frame(b"x"), 1002),
    "a size beyond all": (b"\x81\xff" + b"\xff" * 8, 1009),
    "a size over the limit": (b"\x81\xff" + (1 << 40).to_bytes(8, "big") + b"abcd", 1009),
    "a close code that is none": (frame(b"\x00\x01", CLOSE), 1002),
    "a close frame of one byte": (frame(b"\x03", CLOSE), 1002),
    "a close reason that is no UTF-8": (frame(b"\x03\xe8\xff", CLOSE), 1007),
}


async def test_what_breaks_the_protocol_ends_that_connection_alone() -> None:
    async with talking(max_frame_bytes=1 << 20) as (stand, other):
        unharmed = await stand.lane(other, "a")
        for name, (data, code) in BROKEN.items():
            async with raw(stand.port) as client:
                await client.create("a")
                exchange = await stand.fake.next()
                await client.write(data)
                closing = await client.end()
                assert closing is not None, name
                assert closing.code[0] == code, name
                await hung_up(exchange)
            await unharmed.says(name)
        await unharmed.ends()
