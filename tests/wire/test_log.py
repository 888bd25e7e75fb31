"""What the log tells an operator of the backend's troubles; no input."""

from __future__ import annotations

import asyncio
import logging
import re
import socket
from typing import TYPE_CHECKING

import pytest

from gateway.config.settings import Settings
from tests.support.client import connect
from tests.support.events import completed, created
from tests.support.gateway import running
from tests.support.wire_stand import shape, talking

if TYPE_CHECKING:
    from tests.support.exchange import Exchange


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [one.getMessage() for one in caplog.records if one.levelno == logging.WARNING]


async def test_a_backend_that_cannot_be_reached(caplog: pytest.LogCaptureFixture) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        url = f"http://127.0.0.1:{free.getsockname()[1]}/v1"
    async with (
        running(Settings(upstream=url, dialect="openai", retries=0)) as own,
        connect(own) as client,
    ):
        for name in ("a", "b"):
            await client.create(name)
            assert shape(await client.error(name))[1] == 502
    [line] = warnings(caplog)
    assert re.match(r"The backend could not be reached: .+ \(POST .+/responses\)", line)
    assert url in line


async def test_a_backend_that_goes_away_and_comes_back(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="multilane.upstream")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    settings = Settings(upstream=f"http://127.0.0.1:{port}/v1", dialect="openai", retries=0)
    async with running(settings) as own, connect(own) as client:
        for _ in range(3):
            await client.create("a")
            await client.error("a")

        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n")
            writer.write(b"".join((created(), completed())))
            writer.close()

        async with await asyncio.start_server(answer, "127.0.0.1", port):
            for _ in range(2):
                await client.create("a")
                await client.ended("a")
    told = [one for one in caplog.records if one.name == "multilane.upstream"]
    assert [one.levelname for one in told] == ["WARNING", "INFO"]
    assert told[0].getMessage().startswith("The backend could not be reached: ")
    assert told[1].getMessage() == "The backend answers again"


async def test_a_name_that_is_not_known(caplog: pytest.LogCaptureFixture) -> None:
    settings = Settings(upstream="http://no.such.invalid/v1", dialect="openai", retries=0)
    async with running(settings) as own, connect(own) as client:
        await client.create("a")
        await client.error("a")
    [line] = warnings(caplog)
    assert "(POST http://no.such.invalid/v1/responses)" in line


@pytest.mark.parametrize(
    ("status", "hint"),
    [
        (401, "; is MULTILANE_UPSTREAM_KEY right?"),
        (403, "; is MULTILANE_UPSTREAM_KEY right?"),
        (404, "; is --upstream right?"),
        (500, ""),
    ],
)
async def test_a_backend_that_refuses(
    status: int, hint: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def script(exchange: Exchange) -> None:
        await exchange.reply(status, {"error": {"message": "you said hush", "code": "own"}})

    async with talking(script, retries=0) as (stand, client):
        await client.create("a", input="hush")
        assert (await client.error("a"))["error"]["message"] == "you said hush"
        url = f"{stand.fake.url}/responses"
    assert warnings(caplog) == [f"The backend answers {status} to POST {url}{hint}"]


async def test_what_a_client_got_wrong_is_no_news(caplog: pytest.LogCaptureFixture) -> None:
    async def script(exchange: Exchange) -> None:
        await exchange.reply(400, {"error": {"message": "no"}})

    async with talking(script) as (_, client):
        await client.create("a")
        await client.error("a")
    assert warnings(caplog) == []


async def test_an_answer_that_is_cut(caplog: pytest.LogCaptureFixture) -> None:
    async with talking() as (stand, client):
        lane = await stand.lane(client, "a")
        lane.exchange.cut()
        assert (await client.ended("a"))["status"] == "failed"
        url = f"{stand.fake.url}/responses"
    cut = "An answer was cut: The backend closed the connection before it ended."
    assert warnings(caplog) == [f"{cut} (POST {url})"]


@pytest.mark.parametrize(
    "body", [{"detail": "Not Found"}, {"error": {"message": "File Not Found"}}]
)
async def test_a_404_names_the_place(body: dict[str, object]) -> None:
    async def script(exchange: Exchange) -> None:
        await exchange.reply(404, body)

    async with talking(script) as (stand, client):
        await client.create("a")
        error = (await client.error("a"))["error"]
        assert error["message"].endswith(f"Not Found (POST {stand.fake.url}/responses)")


async def test_a_404_for_something_else_does_not() -> None:
    async def script(exchange: Exchange) -> None:
        await exchange.reply(404, {"error": {"message": "no model m", "param": "model"}})

    async with talking(script) as (_, client):
        await client.create("a")
        assert (await client.error("a"))["error"]["message"] == "no model m"


async def test_nothing_is_told_of_each_event(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, logger="multilane")
    async with talking() as (stand, client):
        lane = await stand.lane(client, "a")
        before = len(caplog.records)
        for word in "abc":
            await lane.says(word)
        assert len(caplog.records) == before
        await lane.ends()
