"""field-cases.md 2: server-sent events, however they are cut and framed."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.support.events import completed, created, data, delta, message, opened, reply
from tests.support.gateway_stand import answer, stand

if TYPE_CHECKING:
    from tests.support.gateway_stand import Stand

TEXT = "渐🙂é"


async def _text(on: Stand, body: list[bytes]) -> str:
    exchange = await on.asked("a")
    await answer(exchange, body)
    response = await on.client.ended("a")
    assert response["status"] == "completed"
    deltas = [s["delta"] for s in on.client.lane("a") if s["type"] == "response.output_text.delta"]
    text: str = response["output"][0]["content"][0]["text"]
    assert "".join(deltas) == text
    return text


def _cut(body: bytes, size: int) -> list[bytes]:
    return [body[at : at + size] for at in range(0, len(body), size)]


@pytest.mark.parametrize("end", [b"\r\n", b"\n", b"\r"])
@pytest.mark.parametrize("size", [1, 7, 4096])
async def test_b08_every_line_end_at_every_cut(end: bytes, size: int) -> None:
    body = b"".join(reply("a", TEXT)).replace(b"\n", end)
    async with stand() as on:
        assert await _text(on, _cut(body, size)) == "a" + TEXT


async def test_b08_a_cr_at_the_end_of_a_chunk_waits() -> None:
    first = b'data: {"type":"response.output_text.delta",\r'
    rest = b'\ndata: "item_id":"m1","output_index":0,"content_index":0,"delta":"a"}\r\n\r\n'
    async with stand() as on:
        body = [created(), *opened(), first, rest, completed("r1", [message("a")])]
        assert await _text(on, body) == "a"


async def test_b09_characters_cut_after_every_byte() -> None:
    async with stand() as on:
        body = b"".join([created(), *opened(), delta(TEXT), completed("r1", [message(TEXT)])])
        at = body.index("渐".encode())
        chunks = [body[:at], *_cut(body[at : at + 9], 1), body[at + 9 :]]
        assert await _text(on, chunks) == TEXT


@pytest.mark.parametrize("tail", [b"", data("[DONE]"), b"data:[DONE]\n\n: bye\n"])
async def test_b12_framing_is_taken_as_the_standard_allows(tail: bytes) -> None:
    head = (
        b"\xef\xbb\xbf: hello\n\nid: 7\nretry: 10\n"
        b'data:{"type":"response.created","sequence_number":0,\n'
        b'data:"response":{"id":"r1","status":"in_progress","output":[]}}\n\n'
    )
    async with stand() as on:
        text = await _text(on, [head, *opened(), delta("a"), completed("r1", [message("a")]), tail])
        assert text == "a"
        await on.usable("a")
        assert all("DONE" not in json.dumps(seen) for seen in on.client.transcript)


async def test_b12_the_json_wins_over_the_event_line() -> None:
    payload = completed("r1", [message("a")]).partition(b"\n")[2]
    async with stand() as on:
        assert await _text(on, [created(), b"event: response.foo\n" + payload]) == "a"


async def test_b12_without_a_type_in_the_json_the_event_line_counts() -> None:
    body = b'event: response.created\ndata: {"response":{"id":"r1"}}\n\n'
    async with stand() as on:
        assert await _text(on, [body, completed("r1", [message("a")])]) == "a"


async def test_the_last_event_needs_no_blank_line() -> None:
    async with stand() as on:
        assert await _text(on, [b"".join(reply("a")).rstrip(b"\n") + b"\n"]) == "a"
