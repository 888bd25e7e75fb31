"""What RFC 6455 asks of a server, section by section: raw frames in, frames and close codes out."""

from __future__ import annotations

import json

import pytest

from tests.support.raw_client import CLOSE, PING, PONG, TEXT, Frame, Raw, frame, raw
from tests.support.wire_stand import standing
from tests.wire.rfc6455.case import LIMIT, Case
from tests.wire.rfc6455.closing import CLOSING
from tests.wire.rfc6455.framing import FRAMING

CASES = FRAMING + CLOSING


@pytest.fixture(autouse=True)
def _nothing_waits_for_the_client_to_close(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who fails a connection ends its own side at once (7.1.7), whatever the client still does."""
    monkeypatch.setattr("gateway.client.handshake.CLOSE_TIMEOUT", 3600)


async def write(client: Raw, case: Case) -> None:
    step = case.step or len(case.sent)
    for at in range(0, len(case.sent), step):
        await client.write(case.sent[at : at + step])


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.section} {case.name}")
async def test_section(case: Case) -> None:
    async with standing(max_frame_bytes=LIMIT) as stand, raw(stand.port) as client:
        await write(client, case)
        answers = list(case.answers)
        if case.code is None:
            await client.send(b"the end", PING)
            answers.append(Frame(PONG, b"the end"))
        # Pongs need no turn of the loop, events do.
        found = [str(await answer(client)) for _ in answers]
        assert sorted(found) == sorted(map(str, answers))
        if case.code is not None:
            closed = await client.end()
            assert closed is not None
            assert (int.from_bytes(closed.payload[:2], "big") or 1005) == case.code


async def answer(client: Raw) -> Frame | str:
    """The next frame, or that it is an `error` event."""
    found = await client.frame()
    assert found is not None
    return str(json.loads(found.payload)["type"]) if found.opcode == TEXT else found


async def test_a_large_text_that_is_no_utf8() -> None:
    for sent in (b'{"type":"' + "渐".encode() * 800_000 + b"\xff" + b'"}',):
        async with standing() as stand, raw(stand.port) as client:
            await client.send(sent)
            closed = await client.end()
            assert closed is not None
            assert closed.code[0] == 1007


async def test_a_close_in_the_same_read_as_a_text_that_is_no_utf8() -> None:
    async with standing() as stand, raw(stand.port) as client:
        await client.write(frame(b"\xff", TEXT) + frame(b"\x03\xe8", CLOSE))
        closed = await client.end()
        assert closed is not None
        assert closed.code[0] == 1000


def test_there_are_enough() -> None:
    assert len(CASES) >= 150
    assert len({(case.section, case.name) for case in CASES}) == len(CASES)
