"""field-cases.md 9: a backend refuses, and the client learns what it said, on its lane."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import pytest

from tests.support.events import reply
from tests.support.gateway_stand import answer, stand

LIMITS = {"retry-after": "7", "x-ratelimit-remaining-requests": "0", "x-request-id": "q1"}


@pytest.mark.parametrize("lane", ["a", None])
async def test_b62_a_429_keeps_its_words_and_its_listed_headers(lane: str | None) -> None:
    body = {"type": "usage_limit_reached", "message": "later", "resets_in_seconds": 7}
    async with stand() as on:
        exchange = await on.asked(lane)
        hidden = {"set-cookie": "s=1", "server": "x", "cf-ray": "y"}
        await exchange.reply(429, {"error": body}, LIMITS | hidden)
        error = await on.client.error(lane)
        assert error["status"] == 429
        assert error["error"].pop("headers") == LIMITS
        assert error["error"] == {
            "type": "usage_limit_reached",
            "code": "rate_limit_exceeded",
            "message": "later",
            "param": None,
        }
        assert error.get("stream_id") == lane
        await on.usable(lane)


BODIES: dict[str, tuple[int, bytes, str]] = {
    "page": (500, b"<html><head><title>x</title></head><h1>Bad &amp; sad</h1></html>", "Bad & sad"),
    "empty": (500, b"", "500"),
    "text": (404, b"no such thing", "no such thing"),
    "scalar": (400, b'"just words"', "just words"),
    "detail": (422, b'{"detail":[{"loc":["body","input"],"msg":"wrong"}]}', "wrong"),
    "flat": (400, b'{"message":"flat","code":"c","param":"p"}', "flat"),
    "numbers": (400, b'{"error":{"code":400,"message":"n","type":"t","param":3}}', "n"),
    "garbage": (500, b"\xff\xfe\x00{", "500"),
    "null": (500, b"null", "500"),
    "huge": (400, b'{"error":{"message":"' + b"x" * 200_000 + b'"}}', "x"),
}


@pytest.mark.parametrize("body", BODIES)
async def test_b62_any_body_gives_a_sane_error(body: str) -> None:
    status, data, words = BODIES[body]
    async with stand() as on:
        exchange = await on.asked("a")
        kind = "text/html" if body == "page" else "application/json"
        await exchange.reply(status, data, {"content-type": kind})
        error = await on.client.error("a")
        assert error["status"] == status
        assert isinstance(error["error"]["code"], str)
        if body != "garbage":
            assert words in error["error"]["message"]
        assert len(error["error"]["message"]) < 9000
        await on.usable("a")


@pytest.mark.parametrize("status", [300, 301, 304, 204])
async def test_a_status_that_is_no_answer_is_a_502(status: int) -> None:
    async with stand() as on:
        exchange = await on.asked("a")
        bodyless = status in (204, 304)
        headers = {"location": "http://127.0.0.1:1/elsewhere", "content-length": "0"}
        await exchange.reply(status, b"" if bodyless else b"moved", headers if bodyless else {})
        assert (await on.client.error("a"))["status"] == 502
        await on.usable("a")


@pytest.mark.parametrize("kind", ["text/html", "application/json; charset=utf-8", "text/xml", None])
async def test_a_page_with_200_is_a_502_and_its_words_are_nowhere(
    kind: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG", "multilane")
    async with stand() as on:
        exchange = await on.asked("a")
        await exchange.head(200, {} if kind is None else {"content-type": kind})
        await exchange.send(b"<h1>Sign in</h1>")
        await exchange.end()
        error = await on.client.error("a")
        assert (error["status"], error["error"]["type"]) == (502, "server_error")
        assert "instead of an event stream" in error["error"]["message"]
        assert "Sign in" not in error["error"]["message"]
        await on.usable("a")
    assert caplog.records
    assert not any("Sign in" in record.getMessage() for record in caplog.records)


@pytest.mark.parametrize("kind", [None, "text/plain", "Text/Event-Stream;charset=utf-8"])
async def test_a_stream_of_a_vague_type_is_one(kind: str | None) -> None:
    async with stand() as on:
        exchange = await on.asked("a")
        await exchange.head(200, {} if kind is None else {"content-type": kind})
        await answer(exchange)
        assert (await on.client.ended("a"))["status"] == "completed"


async def test_503_then_a_good_answer_is_no_error() -> None:
    async with stand() as on:
        first = await on.asked("a", input="q")
        await first.reply(503, {"error": {"message": "busy"}})
        second = await on.fake.next()
        assert second.body == first.body
        await answer(second)
        assert (await on.client.ended("a"))["status"] == "completed"
        assert all(seen["type"] != "error" for seen in on.client.transcript)


async def test_a_backend_that_comes_up_late_is_found() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n")
        writer.write(b"".join(reply("ok")))
        writer.close()
        await writer.wait_closed()

    with socket.socket() as door:
        door.bind(("127.0.0.1", 0))  # and refuses as long as it does not listen
        url = f"http://127.0.0.1:{door.getsockname()[1]}/v1"
        async with stand(retries=10, upstream=url) as on:
            await on.client.create("a")
            await on.client.create("b", generate=False)
            await on.client.ended("b")
            server = await asyncio.start_server(serve, sock=door)
            assert (await on.client.ended("a"))["status"] == "completed"
            server.close()


async def test_a_kept_connection_that_the_backend_closed_is_replaced() -> None:
    async with stand(retries=0) as on:
        exchange, _ = await on.turn("a")
        exchange.cut()
        await on.usable("a")


@pytest.mark.parametrize("how", ["cut", "reset"])
async def test_a_request_that_may_have_been_taken_is_not_sent_twice(how: str) -> None:
    async with stand() as on:
        exchange = await on.asked("a")
        exchange.cut() if how == "cut" else exchange.reset()
        error = await on.client.error("a")
        assert (error["status"], error["error"]["type"]) == (502, "server_error")
        await on.usable("a")
        assert len(on.fake.exchanges) == 2


async def test_tries_are_bounded() -> None:
    async with stand(retries=1) as on:
        await on.client.create("a")
        for _ in range(2):
            await (await on.fake.next()).reply(502, b"down")
        error = await on.client.error("a")
        assert (error["status"], error["error"]["message"]) == (502, "down")
        assert len(on.fake.exchanges) == 2
        await on.usable("a")


@pytest.mark.parametrize(("after", "tries"), [("0", 2), ("30", 1), ("soon", 1)])
async def test_a_429_is_tried_again_only_if_it_says_soon(after: str, tries: int) -> None:
    async with stand(retries=1) as on:
        exchange = await on.asked("a")
        limit: dict[str, Any] = {"error": {"message": "later"}}
        await exchange.reply(429, limit, {"retry-after": after})
        if tries == 2:
            await answer(await on.fake.next())
            assert (await on.client.ended("a"))["status"] == "completed"
        else:
            error = await on.client.error("a")
            assert error["error"]["headers"] == {"retry-after": after}
        assert len(on.fake.exchanges) == tries


@pytest.mark.parametrize("how", ["cut", "reset"])
async def test_nothing_is_tried_again_once_a_response_began(how: str) -> None:
    async with stand() as on:
        exchange = await on.asked("a")
        await exchange.send(*reply("x")[:5])
        await on.client.until("response.output_text.delta", lane="a")
        exchange.cut() if how == "cut" else exchange.reset()
        broken = await on.client.ended("a")
        assert (broken["status"], broken["error"]["code"]) == ("failed", "server_error")
        assert broken["output"][0]["status"] == "incomplete"
        assert broken["output"][0]["content"][0]["text"] == "x"
        await on.usable("a")
        assert len(on.fake.exchanges) == 2


async def test_an_upstream_that_is_not_there_is_a_502() -> None:
    async with stand(retries=0, upstream="http://127.0.0.1:9/v1") as on:
        await on.client.create("a")
        error = await on.client.error("a")
        assert (error["status"], error["error"]["type"]) == (502, "server_error")
