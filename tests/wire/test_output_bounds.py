"""An answer without an end ends at its bound, and so does all that a connection has at a time."""

from __future__ import annotations

import sys
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import anyio
import anyio.lowlevel
import pytest

from gateway.config.settings import Settings
from tests.support.client import connect
from tests.support.events import created, delta, in_progress, opened
from tests.support.exchange import hung_up
from tests.support.gateway import serving
from tests.support.http_client import posted, requested
from tests.support.raw_client import raw
from tests.support.serve_process import process
from tests.support.wire_stand import WireStand, standing, talking

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.support.exchange import Exchange
    from tests.support.http_client import Answer

JSON = {"content-type": "application/json"}
LIMIT = 256 << 10
WORD = "x" * 4000
MIB = 1 << 20


async def endless(exchange: Exchange) -> None:
    """Answers as long as it is read, but for a create whose user is `short`."""
    await exchange.send(created(), in_progress(), *opened())
    if exchange.body.get("user") == "short":
        await exchange.send(delta("ok"))
        await exchange.end()
        return
    if exchange.body.get("user") == "waits" and len(exchange.input) == 1:
        await exchange.send(delta("word "))
        await exchange.hang()
    while True:
        await exchange.send(delta(WORD))
        await anyio.lowlevel.checkpoint()


async def test_it_ends_and_the_lane_goes_on() -> None:
    async with talking(endless, max_output_bytes=LIMIT) as (stand, client):
        await client.create("a")
        response = await client.ended("a")
        assert response["status"] == "incomplete"
        assert response["incomplete_details"] == {"reason": "max_output_bytes"}
        [exchange] = stand.fake.exchanges
        await hung_up(exchange)
        text = response["output"][0]["content"][0]["text"]
        assert LIMIT <= len(text) <= LIMIT + len(WORD)
        await client.create("a", previous_response_id=response["id"], user="short")
        await client.ended("a")
        assert stand.fake.exchanges[1].input[1]["content"][0]["text"] == text


async def test_what_one_response_took_the_next_may_have() -> None:
    async with talking(endless, max_running_output_bytes=LIMIT) as (_, client):
        for _ in range(3):
            await client.create("a")
            response = await client.ended("a")
            assert LIMIT <= len(response["output"][0]["content"][0]["text"]) <= LIMIT + len(WORD)


async def test_lanes_share_what_their_connection_may_have() -> None:
    async with (
        standing(endless, max_running_output_bytes=LIMIT, send_buffer_bytes=64 << 20) as stand,
        connect(stand.url) as client,
    ):
        for lane in "abcd":
            await client.create(lane)
        texts = [(await client.ended(lane))["output"][0]["content"][0]["text"] for lane in "abcd"]
        assert max(map(len, texts)) <= LIMIT + len(WORD)


async def read(answer: Answer) -> dict[str, Any]:
    """The response object of an answer, whichever form it has."""
    if answer.headers["content-type"] == "application/json":
        whole: dict[str, Any] = await answer.json()
        return whole
    last: dict[str, Any] = (await answer.events())[-1]["response"]
    return last


async def over_http(stand: WireStand, fields: dict[str, Any], headers: dict[str, str]) -> Any:
    """What a create over HTTP comes to; one in the background is followed."""
    async with posted(stand.url, fields, headers) as answer:
        assert answer.status == 200
        response = await read(answer)
    if fields.get("background") and not fields.get("stream"):
        path = f"/responses/{response['id']}?stream=true"
        async with requested(stand.url, "GET", path) as followed:
            return await read(followed)
    return response


@pytest.mark.parametrize("transport", ["http", "websocket"])
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("way", ["alone", "keyed", "background", "conversation"])
async def test_it_ends_over_http(way: str, transport: str, *, stream: bool) -> None:
    fields: dict[str, Any] = {"stream": stream, "store": way == "background"}
    headers = {"idempotency-key": "one"} if way == "keyed" else {}
    if way == "background":
        fields["background"] = True
    async with backed(transport) as (stand, backend):
        if way == "conversation":
            async with requested(stand.url, "POST", "/conversations", b"{}", JSON) as made:
                fields["conversation"] = (await made.json())["id"]
        response = await over_http(stand, fields, headers)
        ended(response)
        if way == "keyed":
            ended(await over_http(stand, fields, headers))
        if way == "conversation":
            path = f"/conversations/{fields['conversation']}/items"
            async with requested(stand.url, "GET", path) as listed:
                last, _ = (await listed.json())["data"]
                text = response["output"][0]["content"][0]["text"]
                assert last["content"][0]["text"] == text
        if transport == "http":
            [exchange] = backend.fake.exchanges
            await hung_up(exchange)


@pytest.mark.parametrize("transport", ["http", "websocket"])
async def test_a_successor_ends_too(transport: str) -> None:
    """Its own output counts for it, not that of the response that was steered."""
    async with backed(transport) as (stand, _), connect(stand.url) as client:
        await client.create("a", user="waits")
        [begun] = await client.until("response.created", lane="a")
        await client.until("response.output_text.delta", lane="a")
        await client.steer(begun["response"]["id"], "on")
        assert (await client.ended("a"))["incomplete_details"] == {"reason": "steered"}
        ended(await client.ended("a"))


@asynccontextmanager
async def backed(transport: str) -> AsyncIterator[tuple[WireStand, WireStand]]:
    """A gateway with a bound, and one without which it asks over a WebSocket, or itself."""
    bounds: dict[str, Any] = {"max_output_bytes": LIMIT}
    if transport == "http":
        async with standing(endless, **bounds) as stand:
            yield stand, stand
        return
    async with standing(endless) as inner:
        way: dict[str, Any] = {
            "upstream": inner.url,
            "dialect": "openai",
            "upstream_transport": "websocket",
        }
        async with serving(Settings(**way, **bounds)) as (server, url):
            yield WireStand(inner.fake, server, url), inner


def ended(response: dict[str, Any]) -> None:
    """It is a response that ended at its bound."""
    assert response["status"] == "incomplete"
    assert response["incomplete_details"] == {"reason": "max_output_bytes"}
    text = response["output"][0]["content"][0]["text"]
    assert LIMIT <= len(text) <= LIMIT + len(WORD)


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.timeout(300)
async def test_slow_readers_of_endless_answers_cost_what_is_configured(tmp_path: Path) -> None:
    bounds = ("--max-output-bytes", "4MiB", "--max-running-output-bytes", "8MiB")
    async with (
        process(tmp_path, *bounds, "--redis-url", "memory", script=endless) as own,
        connect(own.url) as other,
        raw(own.port, receive_buffer=1 << 17) as slow,
    ):
        await other.create("a", user="short")
        await other.ended("a")
        before, ended = own.resident, 0
        for lane in range(4):
            await slow.create(str(lane))
        while ended < 4:
            found = await slow.frame(60)
            assert found is not None
            ended += b'"type":"response.incomplete"' in found.payload[:100]
        most = own.peak - before
        # The text itself, and the four events that repeat the whole of it at its end.
        assert most < 8 * 8 * MIB + 24 * MIB, f"{most // MIB} MiB"
