"""The payload of a large frame is unmasked as it comes, and nobody can tell (D33)."""

from __future__ import annotations

import json
import random

import pytest

from gateway.client.large_frames import LARGE
from tests.support.events import reply
from tests.support.raw_client import BINARY, CONT, PING, PONG, TEXT, frame, raw
from tests.support.wire_stand import last_text, standing

#: Around what a large frame is, and what is parsed at a time.
SIZES = [0, 1, 3, LARGE - 1, LARGE, LARGE + 1, LARGE + 2, 3 * LARGE + 3, 5 * LARGE]


def create(text: str) -> bytes:
    frame = {"type": "response.create", "model": "m", "input": text}
    return json.dumps(frame, ensure_ascii=False).encode()


@pytest.mark.parametrize("seed", range(12))
async def test_a_message_in_fragments_of_any_size_is_the_same(seed: int) -> None:
    rng = random.Random(seed)
    text = "".join(rng.choice(("渐", "é", "x", "🙂")) for _ in range(150_000))
    data = create(text)
    async with standing(lambda _: reply("ok")) as stand, raw(stand.port) as client:
        at, wire = 0, b""
        while at < len(data):
            stop = min(at + rng.choice(SIZES), len(data))
            opcode = CONT if wire else rng.choice((TEXT, BINARY))
            wire += frame(data[at:stop], opcode, fin=stop == len(data))
            wire += frame(b"", PING) if stop < len(data) and rng.random() < 0.3 else b""
            at = stop
        while wire:
            size = rng.choice((1000, 20_000, 300_000))
            await client.write(wire[:size])
            wire = wire[size:]
        while (event := (await client.until(TEXT))[-1].event)["type"] != "response.completed":
            assert event["type"] != "error"
        assert last_text(stand.fake.exchanges[0]) == text


@pytest.mark.parametrize("size", [LARGE - 1, LARGE + 1, 1 << 20])
@pytest.mark.parametrize("before", [[], [LARGE + 7], [LARGE + 7, 10]])
async def test_text_that_is_no_utf8_in_a_large_frame(size: int, before: list[int]) -> None:
    """Up to what is checked before the message is read, at any place of a message."""
    async with standing() as stand, raw(stand.port) as client:
        for number, length in enumerate(before):
            await client.write(frame(b"x" * length, CONT if number else TEXT, fin=False))
        broken = b"x" * (size - 1) + b"\xff"
        await client.write(frame(broken, CONT if before else TEXT, fin=not before))
        closing = await client.end()
        assert closing is not None
        assert closing.code[0] == 1007


async def test_a_large_ping_is_refused() -> None:
    async with standing() as stand, raw(stand.port) as client:
        await client.write(frame(b"x" * (LARGE + 1), PING))
        closing = await client.end()
        assert closing is not None
        assert closing.code[0] == 1002


async def test_a_frame_behind_the_end_of_a_large_one_comes_after_it() -> None:
    """What is parsed in one step ends with the large frame."""
    async with standing(lambda _: reply("ok")) as stand, raw(stand.port) as client:
        large = create("渐" * LARGE)
        await client.write(frame(b"1") + frame(large) + frame(b"2") + frame(b"", PING))
        kinds: list[str] = []
        pong = False
        while not pong or kinds.count("error") < 2 or "response.completed" not in kinds:
            received = await client.frame()
            assert received is not None
            pong = pong or received == (PONG, b"")
            if received.opcode == TEXT:
                kinds.append(received.event["type"])
        assert last_text(stand.fake.exchanges[0]) == "渐" * LARGE
        assert kinds[0] == "error"
