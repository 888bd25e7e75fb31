"""What a connection held dies with it, by reference counts alone (D13)."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio
import anyio.lowlevel
import pytest
from websockets.exceptions import InvalidStatus

from gateway.client.http_protocol import ClientHttp
from tests.support.alive import MARK, alive, twice, uncollected
from tests.support.calling import called_out, calling
from tests.support.client import connect
from tests.support.conversations import bound_to_a_conversation
from tests.support.events import created, data, delta, in_progress, opened, reply
from tests.support.exchange import hung_up
from tests.support.gateway_stand import Stand
from tests.support.hang_guard import HANG
from tests.support.raw_answer import WEBSOCKET, head, one_answer
from tests.support.raw_client import PING, PONG, Frame, raw, tcp
from tests.support.several_upstreams import Several, several
from tests.support.steered import talking
from tests.support.wire_stand import standing
from tests.wire.test_http import asked

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from tests.support.exchange import Exchange
    from tests.support.upstream import ScriptedUpstream

    Scene = Callable[[Stand], Awaitable[None]]


async def finished(on: Stand) -> None:
    _, parent = await on.turn("a", user=MARK)
    await on.turn("a", user=MARK, previous_response_id=parent["id"])
    await on.turn("b", user=MARK, previous_response_id=parent["id"])


async def streaming(on: Stand) -> None:
    await talking(on, "a", "one", "two", user=MARK)


async def waiting_for_the_head(on: Stand) -> None:
    await on.asked("a", user=MARK)


async def waiting_in_a_lane(on: Stand) -> None:
    await streaming(on)
    await on.client.create("a", user=MARK)
    await on.client.send("x")
    await on.client.error()


async def a_large_frame_refused(on: Stand) -> None:
    for wrong in ({"metadata": "\ud800"}, {"instructions": "x" * 5_000_000}, {"tools": ["x"]}):
        await on.client.create("a", user=MARK, input="x" * 100_000, **wrong)
        await on.client.error()
    await on.client.send("[" * 100_000)
    await on.client.error()


async def a_large_frame_answered(on: Stand) -> None:
    await on.turn("a", user=MARK, input=[{"role": "user", "content": "x" * 500_000}])
    await on.client.create("a", user=MARK, input="x" * 500_000)


async def followed(on: Stand) -> None:
    parent = await talking(on, "a", "one", user=MARK)
    await parent.steer()
    await parent.ended("steered")
    running = await parent.follows()
    await running.send(*opened())
    await running.says("two")


async def before_the_successor(on: Stand) -> None:
    parent = await talking(on, "a", "one", user=MARK)
    await parent.steer()
    await parent.ended("steered")
    await on.fake.next()


async def waiting_for_a_boundary(on: Stand) -> None:
    parent = await calling(on, "a", user=MARK)
    await parent.steer()


async def pending(on: Stand) -> None:
    parent = await calling(on, "a", user=MARK)
    steer = await parent.steer()
    await called_out(parent)
    await parent.pending(steer)


async def refused_here(on: Stand) -> None:
    await on.refused("a", user=MARK, previous_response_id="resp_of_nobody")
    await on.refused("a", user=MARK, background=True)


async def refused_upstream(on: Stand) -> None:
    for status in (400, 429, 500):
        exchange = await on.asked("a", user=MARK)
        await exchange.reply(status, {"error": {"message": "no", "code": "x"}})
        await on.client.error("a")


async def broken_off(on: Stand) -> None:
    running = await talking(on, "a", "one", user=MARK)
    running.exchange.reset()
    assert (await on.client.ended("a"))["status"] == "failed"


async def unreadable(on: Stand) -> None:
    running = await talking(on, "a", "one", user=MARK)
    await running.send(b"data: {\n\n")
    assert (await on.client.ended("a"))["status"] == "failed"


SCENES: list[Scene] = [
    finished,
    bound_to_a_conversation,
    streaming,
    waiting_for_the_head,
    waiting_in_a_lane,
    a_large_frame_refused,
    a_large_frame_answered,
    followed,
    before_the_successor,
    waiting_for_a_boundary,
    pending,
    refused_here,
    refused_upstream,
    broken_off,
    unreadable,
]


async def played(
    url: str, fake: ScriptedUpstream, scene: Scene, *, aborts: bool = False, **options: Any
) -> None:
    """One connection on which the scene happens, until the client leaves."""
    async with connect(url, **options) as client:
        await scene(Stand(fake, client, url, []))
        if aborts:
            client.abort()
    fake.exchanges.clear()


@pytest.mark.parametrize("aborts", [False, True], ids=["closed", "reset"])
@pytest.mark.parametrize("scene", SCENES)
async def test_nothing_outlives_its_connection(scene: Scene, *, aborts: bool) -> None:
    async with standing(retries=0) as stand:
        await twice(partial(played, stand.url, stand.fake, scene, aborts=aborts))


async def closed_by_age(on: Stand) -> None:
    await waiting_in_a_lane(on)
    assert await on.client.closed() == (1000, "age limit")


async def closed_by_size(on: Stand) -> None:
    await streaming(on)
    await on.client.send("x" * 5000)
    assert (await on.client.closed())[0] == 1009


async def closed_by_garbage(on: Stand) -> None:
    await streaming(on)
    on.client.socket.transport.write(b"\xf1\x81garbage")
    assert (await on.client.closed())[0] == 1002


async def closed_in_a_message(on: Stand) -> None:
    await streaming(on)
    on.client.socket.transport.write(b"\x01\xfe\x10\x00masksome of it")
    on.client.abort()  # a close frame would be more of that message, and wait for its answer


async def of_chunks(on: Stand) -> None:
    exchange = await on.asked("a", user=MARK)
    await exchange.send(data({"choices": [{"index": 0, "delta": {"content": "one"}}]}))
    await on.client.until("response.output_text.delta", lane="a")


async def unreached(on: Stand) -> None:
    await on.client.create("a", user=MARK)
    assert (await on.client.error("a"))["status"] == 502


async def silent(on: Stand) -> None:
    await on.asked("a", user=MARK)
    assert (await on.client.error("a"))["status"] == 504


@pytest.mark.parametrize(
    ("scene", "settings"),
    [
        (closed_by_age, {"max_age": 0.5, "age_grace": 0}),
        (closed_by_size, {"max_frame_bytes": 4096}),
        (closed_by_garbage, {}),
        (closed_in_a_message, {}),
        (of_chunks, {"dialect": "chat"}),
        (unreached, {"upstream": "http://127.0.0.1:1/v1"}),
        (silent, {"first_byte_timeout": 0.1}),
        (refused_upstream, {"retries": 1}),
    ],
    ids=lambda value: value.__name__ if callable(value) else "",
)
async def test_nothing_outlives_what_ends_in_its_own_way(
    scene: Scene, settings: dict[str, Any]
) -> None:
    async with standing(**{"retries": 0, **settings}) as stand:
        await twice(partial(played, stand.url, stand.fake, scene))


async def refused_by_all(on: Several) -> None:
    await on.client.create("a", user=MARK)
    for name in ("first", "second"):
        await (await on.fakes[name].next()).reply(500, {"error": {"message": "no"}})
    await on.client.error("a")


async def answered_by_another(on: Several) -> None:
    await on.client.create("a", user=MARK)
    await (await on.fakes["first"].next()).reply(500, {"error": {"message": "no"}})
    exchange = await on.fakes["second"].next()
    await exchange.send(*reply("ok"))
    await exchange.end()
    await on.client.ended("a")


async def failed_at_the_start(on: Several) -> None:
    await on.client.create("a", user=MARK)
    await (await on.fakes["first"].next()).send(data({"error": {"message": "no"}}))
    exchange = await on.fakes["second"].next()
    await exchange.send(created(), in_progress(), *opened())
    await on.client.until("response.created", lane="a")


@pytest.mark.parametrize("scene", [refused_by_all, answered_by_another, failed_at_the_start])
async def test_nothing_outlives_it_where_others_step_in(
    scene: Callable[[Several], Awaitable[None]],
) -> None:
    tables: dict[str, dict[str, Any]] = {
        "first": {"fallbacks": ["second"], "models": ["m"], "concurrency": 2},
        "second": {"concurrency": 2, "models": ["n", "m2"], "aliases": {"m": "n"}},
    }
    async with several(tables) as on:

        async def play() -> None:
            async with connect(on.url) as client:
                await scene(replace(on, client=client))
            for fake in on.fakes.values():
                fake.exchanges.clear()

        await twice(play)


async def test_nothing_outlives_requests_over_http() -> None:
    async def play() -> None:
        for path in ("/health", "/v1/responses/resp_x", "/nowhere"):
            await asked(stand, "GET", path)
        await asked(stand, "POST", "/v1/responses", b"x" * 100_000)
        for ending in (b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n" * 3, b"GET / HTTP/1.1\r\nHo"):
            stream = await anyio.connect_tcp("127.0.0.1", stand.port)
            await stream.send(ending)
            await stream.aclose()

    async with standing() as stand:
        await twice(play)


async def test_an_upgrade_behind_other_requests_leaves_no_timer_of_theirs() -> None:
    """The one for the next request would end the socket, or hold what has read them."""
    get = head(["Host: a"], "GET /health HTTP/1.1")
    async with standing() as stand, tcp(stand.port) as first:
        await first.write(get)
        await one_answer(first)
        with uncollected():
            before = alive()
            async with tcp(stand.port) as client:
                await client.write(get * 2 + head(WEBSOCKET))
                got = b""
                while b"HTTP/1.1 101 " not in got or not got.endswith(b"\r\n\r\n"):
                    got += await client.read(1)
                door = f"{ClientHttp.__module__}.{ClientHttp.__qualname__}"
                with anyio.fail_after(HANG):
                    while alive()[door] > before[door]:  # noqa: ASYNC110 - nothing tells of a death
                        await anyio.sleep(0.01)
                await client.send(b"there?", PING)
                assert await client.frame() == Frame(PONG, b"there?")


async def test_nothing_outlives_a_refused_upgrade() -> None:
    async def play() -> None:
        for path in ("/responses", "/nowhere"):
            with pytest.raises(InvalidStatus):
                async with connect(stand.url, path=path):
                    pass

    async with standing(api_keys=("sk-right",)) as stand:
        await twice(play)


async def test_nothing_outlives_a_client_that_reads_nothing() -> None:
    exchanges: asyncio.Queue[Exchange] = asyncio.Queue()

    async def endless(exchange: Exchange) -> None:
        exchanges.put_nowait(exchange)
        await exchange.send(created(), in_progress(), *opened())
        while True:
            await exchange.send(delta("x" * 50_000))
            await anyio.lowlevel.checkpoint()

    async def play() -> None:
        async with raw(stand.port, receive_buffer=1 << 17) as client:
            await client.create("a", user=MARK)
            await hung_up(await exchanges.get())
        stand.fake.exchanges.clear()

    async with standing(endless, send_buffer_bytes=65536, stall_timeout=0.2) as stand:
        await twice(play)
