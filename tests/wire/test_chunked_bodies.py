"""A chunked body costs no more than its bytes, whatever stands around its chunks."""

from __future__ import annotations

import sys
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

import pytest

from tests.support.events import reply
from tests.support.raw_answer import head, last_answer, one_answer
from tests.support.raw_client import tcp
from tests.support.serve_process import process
from tests.support.wire_stand import standing

if TYPE_CHECKING:
    from pathlib import Path

POST = head(["Host: a", "Transfer-Encoding: chunked"], "POST /v1/responses HTTP/1.1")
#: What can be sent without end without being a byte of the body.
ENDLESS = {
    "a trailer's value": (b"1\r\n{\r\n0\r\nX: ", b"x" * 1024),
    "a trailer's name": (b"0\r\n", b"x" * 1024),
    "trailers": (b"0\r\n", b"X: 1\r\n" * 171),
    "an extension of a chunk": (b"1;", b"x" * 1024),
}


@pytest.mark.parametrize("name", ENDLESS)
async def test_what_is_no_body_ends_at_its_limit(name: str) -> None:
    begin, more = ENDLESS[name]
    async with standing(max_head_bytes=4096) as stand, tcp(stand.port) as client:
        await client.write(POST + begin)
        for _ in range(20):
            await client.write(more)
        answer = await last_answer(client)
        assert (answer.status, answer.error["code"]) == (431, "request_head_too_large")


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
async def test_endless_trailers_take_no_memory_and_stall_nobody(tmp_path: Path) -> None:
    async with process(tmp_path) as own, AsyncExitStack() as stack:
        before = own.resident
        for begin, more in ENDLESS.values():
            client = await stack.enter_async_context(tcp(own.port))
            await client.write(POST + begin)
            for _ in range(300):
                await client.write(more * 64)
        client = await stack.enter_async_context(tcp(own.port))
        await client.write(head(["Host: a"], "GET /health HTTP/1.1"))
        assert (await one_answer(client)).status == 200
        assert own.resident - before < 20 << 20


async def test_a_trailer_is_no_header() -> None:
    body = b'{"model": "m", "input": "x"}'
    trailers = b"Idempotency-Key: " + b"k" * 300 + b"\r\nOpenAI-Project: p\r\n"
    async with standing(lambda _: reply("ok")) as stand, tcp(stand.port) as client:
        await client.write(POST + b"%x\r\n%b\r\n0\r\n%b\r\n" % (len(body), body, trailers))
        assert (await one_answer(client)).status == 200
        assert "openai-project" not in stand.fake.exchanges[0].headers


async def test_a_body_in_chunks_of_one_byte() -> None:
    body = b'{"model": 1}' + b" " * 40_000
    async with standing() as stand, tcp(stand.port) as client:
        chunks = b"".join(b"1;e=1\r\n%c\r\n" % one for one in body)
        await client.write(POST + chunks + b"0\r\n\r\n")
        answer = await one_answer(client)
        assert answer.status == 400
        assert answer.error["param"] == "model"
