"""What a request held dies with it, whatever it asked for and however it ends (D13)."""

from __future__ import annotations

import json
from contextlib import asynccontextmanager
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any

import anyio
import anyio.lowlevel
import pytest

from tests.support.alive import STORED, twice
from tests.support.events import created, delta, in_progress, opened, reply
from tests.support.exchange import hung_up
from tests.support.http_client import requested
from tests.support.raw_answer import head
from tests.support.raw_client import tcp
from tests.support.wire_stand import WireStand, standing

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping

    from tests.support.exchange import Exchange
    from tests.support.http_client import Answer

    Scene = Callable[[WireStand], Awaitable[None]]

_numbers = count()
_JSON = {"content-type": "application/json"}


@asynccontextmanager
async def asked(
    on: WireStand, method: str, path: str, body: Any = None, headers: Mapping[str, str] = {}
) -> AsyncIterator[Answer]:
    data = None if body is None else json.dumps(body).encode()
    async with requested(on.url, method, path, data, {**_JSON, **headers}, judged=False) as answer:
        yield answer


async def ask(on: WireStand, method: str, path: str, body: Any = None, **headers: str) -> Any:
    """The JSON of an answer, whatever its status."""
    async with asked(on, method, path, body, headers) as answer:
        return json.loads(await answer.body())


async def said(on: WireStand, path: str, body: Any = None) -> None:
    """All events of a stream."""
    async with asked(on, "GET" if body is None else "POST", path, body) as answer:
        await answer.body()


def create(**fields: Any) -> dict[str, Any]:
    return {"model": "m", "input": "hi", **fields}


@asynccontextmanager
async def waiting(
    on: WireStand, method: str, path: str, body: Any = None, **headers: str
) -> AsyncIterator[Exchange]:
    """The backend's exchange for a request whose client leaves at the end of the block."""
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(partial(ask, on, method, path, body, **headers))
        yield await on.fake.next()
        tasks.cancel_scope.cancel()


@asynccontextmanager
async def reading(on: WireStand, path: str, body: Any = None) -> AsyncIterator[None]:
    """A stream of which something was read, and whose client leaves at the end of the block."""
    async with asked(on, "GET" if body is None else "POST", path, body) as answer:
        await answer.until("response.output_text.delta")
        yield


async def answers(exchange: Exchange) -> None:
    await exchange.send(*reply("ok"))
    await exchange.end()


async def begins(exchange: Exchange) -> None:
    await exchange.send(created(), in_progress(), *opened(), delta("one"))


async def refuses(exchange: Exchange) -> None:
    await exchange.reply(429, {"error": {"message": "no", "code": "x"}})


async def breaks_off(exchange: Exchange) -> None:
    await begins(exchange)
    exchange.reset()


async def background(on: WireStand, **fields: Any) -> tuple[str, Exchange]:
    response = await ask(on, "POST", "/responses", create(background=True, **fields))
    assert response["status"] == "queued", response
    return f"/responses/{response['id']}", await on.fake.next()


# Creates with an Idempotency-Key, whose client has left


async def _keyed_and_left(
    on: WireStand, then: Callable[[Exchange], Awaitable[None]], *, stream: bool
) -> None:
    key = {"idempotency-key": f"one {next(_numbers)}"}
    fields = create(stream=stream, store=False)
    async with (
        waiting(on, "POST", "/responses", fields, **key) as exchange,
        waiting_too(on, "POST", "/responses", fields, key),
    ):
        wrong = await ask(on, "POST", "/responses", create(input="other"), **key)
        assert wrong["error"]["code"] == "idempotency_key_reused"
    await then(exchange)


@asynccontextmanager
async def waiting_too(
    on: WireStand, method: str, path: str, body: Any, headers: Mapping[str, str]
) -> AsyncIterator[None]:
    """Another client with the same request, which leaves at the end of the block."""
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(partial(ask, on, method, path, body, **headers))
        before = len(on.server.server_state.connections)
        while len(on.server.server_state.connections) <= before:  # noqa: ASYNC110
            await anyio.sleep(0.001)
        yield
        tasks.cancel_scope.cancel()


# Responses in the background


async def background_finished(on: WireStand) -> None:
    path, exchange = await background(on)
    await answers(exchange)
    await said(on, f"{path}?stream=true")
    await said(on, f"{path}?stream=true&starting_after=3")
    await ask(on, "GET", path)
    await ask(on, "GET", f"{path}/input_items")
    await ask(on, "POST", f"{path}/cancel")
    await ask(on, "DELETE", path)


async def background_broken_off(on: WireStand) -> None:
    path, exchange = await background(on)
    await breaks_off(exchange)
    await said(on, f"{path}?stream=true")


async def background_refused(on: WireStand) -> None:
    path, exchange = await background(on)
    await refuses(exchange)
    await said(on, f"{path}?stream=true")
    async with waiting(on, "POST", "/responses", create(background=True, stream=True)) as exchange:
        await refuses(exchange)
    await ask(on, "POST", "/responses", create(background=True, store=False))


async def background_cancelled(on: WireStand) -> None:
    for begun in (False, True):
        path, exchange = await background(on)
        if begun:
            await begins(exchange)
            async with reading(on, f"{path}?stream=true"):
                await ask(on, "POST", f"{path}/cancel")
        else:
            await ask(on, "POST", f"{path}/cancel")
        await hung_up(exchange)


async def background_deleted(on: WireStand) -> None:
    path, exchange = await background(on)
    await begins(exchange)
    async with reading(on, f"{path}?stream=true"):
        await ask(on, "DELETE", path)
    await hung_up(exchange)


async def background_followed_and_left(on: WireStand) -> None:
    path, exchange = await background(on)
    await begins(exchange)
    async with reading(on, f"{path}?stream=true"), reading(on, f"{path}?stream=true"):
        pass
    async with waiting(on, "POST", "/responses", create(background=True, stream=True)) as second:
        pass
    for one in (exchange, second):
        await one.send(*reply("ok")[2:])
        await one.end()
    await said(on, f"{path}?stream=true")


async def background_keyed(on: WireStand) -> None:
    key = {"idempotency-key": f"one {next(_numbers)}"}
    fields = create(background=True)
    async with waiting(on, "POST", "/responses", fields, **key) as exchange:
        pass
    path = f"/responses/{(await ask(on, 'POST', '/responses', fields, **key))['id']}"
    await answers(exchange)
    await said(on, f"{path}?stream=true")


# Conversations


async def conversation(on: WireStand) -> None:
    item = {"type": "message", "role": "user", "content": "hi"}
    made = await ask(on, "POST", "/conversations", {"items": [item]})
    path = f"/conversations/{made['id']}"
    async with waiting(on, "POST", "/responses", create(conversation=made["id"])) as exchange:
        await answers(exchange)
        await said(on, "/responses/resp_x")
    async with waiting(on, "POST", "/responses", create(conversation=made["id"])) as exchange:
        await begins(exchange)
    await hung_up(exchange)
    listed = await ask(on, "GET", f"{path}/items")
    await ask(on, "POST", f"{path}/items", {"items": [item]})
    await ask(on, "POST", f"{path}/items", {"items": [{"type": 1}]})
    await ask(on, "POST", path, {"metadata": {"a": "b"}})
    await ask(on, "DELETE", f"{path}/items/{listed['data'][0]['id']}")
    await ask(on, "DELETE", path)
    await ask(on, "GET", path)
    await ask(on, "POST", "/responses", create(conversation=made["id"]))


# Requests that are passed on


async def passed_on(on: WireStand) -> None:
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(ask, on, "POST", "/embeddings", {"input": "x"})
        await (await on.fake.next()).reply(200, {"data": []})
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(ask, on, "POST", "/embeddings", {"input": "x"})
        await (await on.fake.next()).reply(302, {}, {"location": "/"})


async def passed_on_and_left(on: WireStand) -> None:
    async with waiting(on, "POST", "/embeddings", {"input": "x"}) as exchange:
        pass
    await hung_up(exchange)
    async with waiting(on, "POST", "/embeddings", {"input": "x"}) as exchange:
        await begins(exchange)
    await hung_up(exchange)


async def passed_on_and_broken_off(on: WireStand) -> None:
    async with waiting(on, "POST", "/embeddings", {"input": "x"}) as exchange:
        await breaks_off(exchange)
    async with waiting(on, "POST", "/embeddings", {"input": "x"}) as exchange:
        exchange.reset()


async def passed_on_within_its_body(on: WireStand) -> None:
    async with await anyio.connect_tcp("127.0.0.1", on.port) as stream:
        await stream.send(
            b"POST /v1/audio/transcriptions HTTP/1.1\r\nHost: a\r\n"
            b"Content-Length: 1000000\r\n\r\n" + bytes(100_000)
        )
        while not on.fake.arriving():  # noqa: ASYNC110 - there is no event for it
            await anyio.sleep(0.001)


# What else is asked


async def stored(on: WireStand) -> None:
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(ask, on, "POST", "/responses", create())
        await answers(exchange := await on.fake.next())
    assert exchange.body["store"] is False
    response = await ask(on, "POST", "/responses", create(generate=False))
    path = f"/responses/{response['id']}"
    await said(on, f"{path}?stream=true")
    for method, suffix in (
        ("GET", ""),
        ("GET", "?stream=true&starting_after=99"),
        ("GET", "/input_items"),
        ("GET", "/steers"),
        ("POST", "/cancel"),
        ("DELETE", ""),
        ("GET", "/input_items"),
    ):
        await ask(on, method, path + suffix)


async def counted(on: WireStand) -> None:
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(ask, on, "POST", "/responses/input_tokens", create())
        await (await on.fake.next()).reply(200, {"input_tokens": 3})
    async with waiting(on, "POST", "/responses/input_tokens", create()) as exchange:
        pass
    await hung_up(exchange)
    async with waiting(on, "POST", "/responses/input_tokens", create()) as exchange:
        await refuses(exchange)
    await ask(on, "POST", "/responses/input_tokens", create(input=3))


async def compacted(on: WireStand) -> None:
    for then in (answers, refuses, breaks_off):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask, on, "POST", "/responses/compact", create())
            await then(await on.fake.next())
    async with waiting(on, "POST", "/responses/compact", create()) as exchange:
        await begins(exchange)
    await hung_up(exchange)


async def unreadable(on: WireStand) -> None:
    for body in (b"", b"{", b"[]", b"\xff", b"[" * 100_000, b'{"input": "' + b"x" * 100_000):
        for path in ("/responses", "/responses/input_tokens", "/conversations", "/embeddings"):
            if path == "/embeddings":
                continue
            async with requested(on.url, "POST", path, body, _JSON, judged=False) as answer:
                assert answer.status == 400
                await answer.body()
    packed = _JSON | {"content-encoding": "gzip"}
    async with requested(on.url, "POST", "/responses", b"no gzip", packed, judged=False) as answer:
        await answer.body()


SCENES: list[Scene] = [
    background_finished,
    background_broken_off,
    background_refused,
    background_cancelled,
    background_deleted,
    background_followed_and_left,
    background_keyed,
    conversation,
    passed_on,
    passed_on_and_left,
    passed_on_and_broken_off,
    passed_on_within_its_body,
    stored,
    counted,
    compacted,
    unreadable,
]


@pytest.mark.parametrize("scene", SCENES)
async def test_nothing_outlives_a_request(scene: Scene) -> None:
    async def play() -> None:
        await scene(stand)
        stand.fake.exchanges.clear()

    async with standing(retries=0) as stand:
        await twice(play, STORED)


#: Turns of the event loop between the backend's last byte and the client's reset; some of them
#: are those in which the answer is made.
TURNS = range(12)


@pytest.mark.parametrize("keyed", [False, True], ids=["", "keyed"])
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("then", [answers, refuses, breaks_off])
async def test_nothing_outlives_an_answer_that_comes_as_its_client_leaves(
    then: Callable[[Exchange], Awaitable[None]], *, stream: bool, keyed: bool
) -> None:
    body = json.dumps(create(stream=stream, store=False)).encode()
    lines = ["Host: a", "Content-Type: application/json", f"Content-Length: {len(body)}"]

    async def play() -> None:
        for turns in TURNS:
            key = [f"Idempotency-Key: one {next(_numbers)}"] if keyed else []
            async with tcp(stand.port) as client:
                await client.write(head([*lines, *key], "POST /v1/responses HTTP/1.1") + body)
                exchange = await stand.fake.next()
                await then(exchange)
                for _ in range(turns):
                    await anyio.lowlevel.checkpoint()
                client.abort()
        stand.fake.exchanges.clear()

    async with standing(retries=0) as stand:
        await twice(play)


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("then", [answers, refuses, breaks_off])
async def test_nothing_outlives_a_create_that_goes_on_without_its_client(
    then: Callable[[Exchange], Awaitable[None]], *, stream: bool
) -> None:
    async def play() -> None:
        await _keyed_and_left(stand, then, stream=stream)
        stand.fake.exchanges.clear()

    async with standing(retries=0) as stand:
        await twice(play)
