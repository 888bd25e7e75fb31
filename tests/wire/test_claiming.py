"""Requests with an `Idempotency-Key` where a process or the store goes away at the wrong moment."""

from __future__ import annotations

import json
from contextlib import AsyncExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import anyio
import pytest
from starlette.requests import Request

from gateway.config.settings import Settings
from gateway.http import claiming
from gateway.http.claiming import IdempotentRequest
from gateway.http.idempotency import IdempotentCreates
from gateway.http.running import RunningResponses
from lanes.errors import Fault, own_fault
from lanes.stores.background import ResponseName
from lanes.stores.claims import CLAIM_TTL, Claim, MemoryClaimStore
from lanes.stores.redis_background import RedisBackgroundStore
from lanes.stores.redis_claims import RedisClaimStore
from steering.redis.lease import Lease
from tests.support.events import (
    closed,
    completed,
    created,
    delta,
    failed,
    in_progress,
    message,
    opened,
    reply,
)
from tests.support.exchange import hung_up
from tests.support.gateway import running, serving
from tests.support.hang_guard import HANG
from tests.support.http_client import posted, requested
from tests.support.redis_engine import Engine
from tests.support.upstream import ScriptedUpstream, upstream
from tests.support.wire_stand import standing

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from contextlib import AbstractAsyncContextManager

    from tests.support.exchange import Exchange
    from tests.support.http_client import Answer

STREAM: dict[str, Any] = {"stream": True}
BACKGROUND: dict[str, Any] = {"background": True, "store": True}


def keyed(url: str, body: dict[str, Any]) -> AbstractAsyncContextManager[Answer]:
    return posted(url, body, {"idempotency-key": "k1"})


async def response(answer: Answer) -> dict[str, Any]:
    """The response object of either form of an answer."""
    assert answer.status == 200, await answer.body()
    if answer.headers["content-type"] == "application/json":
        said: dict[str, Any] = await answer.json()
        return said
    ended: dict[str, Any] = (await answer.events())[-1]["response"]
    return ended


class WatchedClaims(MemoryClaimStore):
    """Tells when a claim is renewed."""

    def __init__(self) -> None:
        self.now = 0.0
        super().__init__(clock=lambda: self.now)
        self.renewed = anyio.Event()

    async def renew(self, key_id: str, name: str, claim: Claim) -> None:
        await super().renew(key_id, name, claim)
        self.renewed.set()
        self.renewed = anyio.Event()


async def _never(_: bytes) -> bool:
    return False


@pytest.mark.parametrize("refused", [False, True])
async def test_a_start_that_takes_long_is_not_made_twice(
    monkeypatch: pytest.MonkeyPatch, refused: bool
) -> None:
    monkeypatch.setattr(claiming, "_RENEWAL", 0.001)
    claims = WatchedClaims()
    wires: Any = None  # for answers alone
    creates = [IdempotentCreates(claims, RunningResponses(), wires) for _ in range(2)]
    begun, goes_on = [], anyio.Event()

    async def begin() -> bytes:
        begun.append(1)
        await goes_on.wait()
        if refused and len(begun) == 1:
            raise own_fault("not this time")
        return b"answer"

    answers: list[bytes] = []

    async def ask(process: IdempotentCreates) -> None:
        try:
            request = IdempotentRequest("k", "name", b"{}")
            answers.append(await process.once(request, begin, _never))
        except Exception as fault:  # noqa: BLE001
            answers.append(str(fault).encode())

    with anyio.fail_after(HANG):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask, creates[0])
            for _ in range(3):
                await claims.renewed.wait()
                claims.now += CLAIM_TTL - 1
            tasks.start_soon(ask, creates[1])
            for _ in range(3):
                await claims.renewed.wait()
                claims.now += CLAIM_TTL - 1
            assert begun == [1]
            goes_on.set()
    assert sorted(answers) == ([b"answer", b"not this time"] if refused else [b"answer"] * 2)
    assert len(begun) == 1 + refused


@pytest.fixture
async def engine() -> AsyncIterator[Engine]:
    with TemporaryDirectory(prefix="ml", dir="/tmp") as folder:  # short, for the socket's sake
        engine = Engine("valkey", Path(folder))
        await engine.start()
        yield engine
        engine.kill()


def _settings(fake: ScriptedUpstream, engine: Engine) -> Settings:
    return Settings(
        upstream=fake.url,
        dialect="openai",
        redis_url=f"unix://{engine.path}",
        drain_timeout=0.2,
    )


async def _begin(exchange: Exchange) -> None:
    await exchange.send(created(), in_progress(), *opened(), delta("one "))


async def _finish(exchange: Exchange) -> None:
    await exchange.send(*reply("one two"))
    await exchange.end()


async def _reached(url: str, name: str, wanted: str) -> dict[str, Any]:
    with anyio.fail_after(HANG):
        while True:
            async with requested(url, "GET", f"/responses/{name}") as answer:
                response: dict[str, Any] = await answer.json()
            if response.get("status") == wanted:
                return response
            await anyio.sleep(0.01)


async def test_a_stream_that_only_a_stopping_gateway_ended(engine: Engine) -> None:
    async with upstream() as fake:
        settings = _settings(fake, engine)
        first: list[dict[str, Any]] = []

        async def read_on(answer: Answer) -> None:
            first.append((await answer.events())[-1])

        async with anyio.create_task_group() as tasks, AsyncExitStack() as stack:
            here = await stack.enter_async_context(serving(settings))
            tasks.start_soon(_begin_next, fake)
            answer = await stack.enter_async_context(keyed(here[1], STREAM))
            await answer.until("response.output_text.delta")
            tasks.start_soon(read_on, answer)
            here[0].should_exit = True
            with anyio.fail_after(HANG):
                while not first:  # noqa: ASYNC110 - another task reads
                    await anyio.sleep(0.005)
        assert first[0]["type"] == "response.failed"
        async with running(settings) as there, anyio.create_task_group() as tasks:
            tasks.start_soon(_answer_next, fake)
            async with keyed(there, STREAM) as again:
                second = await response(again)
            async with keyed(there, STREAM) as again:
                assert await response(again) == second
        assert second["status"] == "completed"
        assert second["id"] != first[0]["response"]["id"]
    assert len(fake.exchanges) == 2


async def _begin_next(fake: ScriptedUpstream) -> None:
    await _begin(await fake.next())


async def _answer_next(fake: ScriptedUpstream) -> None:
    await _finish(await fake.next())


async def test_a_background_response_that_only_a_stopping_gateway_ended(engine: Engine) -> None:
    async with upstream() as fake:
        settings = _settings(fake, engine)
        async with running(settings) as here:
            async with keyed(here, BACKGROUND) as answer:
                first = await response(answer)
            await _begin(await fake.next())
            await _reached(here, first["id"], "in_progress")
        async with running(settings) as there:
            await _reached(there, first["id"], "failed")
            await _carried_out_again(fake, there, first["id"])
            # The one before is still what it was.
            await _reached(there, first["id"], "failed")


async def _carried_out_again(fake: ScriptedUpstream, url: str, before: str) -> None:
    async with keyed(url, BACKGROUND) as answer:
        second = await response(answer)
    assert second["id"] != before
    await _finish(await fake.next())
    await _reached(url, second["id"], "completed")
    async with keyed(url, BACKGROUND) as answer:
        assert (await response(answer))["id"] == second["id"]


async def test_a_background_response_whose_process_was_killed(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert Lease.__init__.__kwdefaults__ is not None
    monkeypatch.setitem(Lease.__init__.__kwdefaults__, "ttl", 0.6)
    name = ResponseName("open", f"resp_{'d' * 32}")
    body = b'{"id":"%b","status":"queued","output":[],"background":true,"error":null}'
    first = body % name.id.encode()
    sent = json.dumps({"model": "m", "store": False, "input": "hi", **BACKGROUND}).encode()
    request = IdempotentRequest("open", "k1", sent)
    async with (
        upstream() as fake,
        engine.client() as client,
        running(_settings(fake, engine)) as there,
    ):
        await RedisBackgroundStore(client, Lease(client, "dead", ttl=0.1)).open(name, first)
        claim = Claim("d" * 16, request.digest, first)
        await RedisClaimStore(client).finish(*request.place, claim)
        await _reached(there, name.id, "failed")
        await _carried_out_again(fake, there, name.id)


async def test_what_the_backend_failed_is_the_answer() -> None:
    async def fail(exchange: Exchange) -> None:
        await exchange.send(created(), *opened(), delta("one"), failed())
        await exchange.end()

    async with standing(fail) as stand:
        async with keyed(stand.url, STREAM) as answer:
            first = await response(answer)
        async with keyed(stand.url, STREAM) as answer:
            assert await response(answer) == first
    assert len(stand.fake.exchanges) == 1


async def test_cancelled_in_the_background_it_is_not_begun_again() -> None:
    async with standing() as stand:
        async with keyed(stand.url, BACKGROUND) as answer:
            first = await response(answer)
        exchange = await stand.fake.next()
        async with requested(stand.url, "POST", f"/responses/{first['id']}/cancel") as answer:
            assert (await response(answer))["status"] == "cancelled"
        await hung_up(exchange)
        async with keyed(stand.url, BACKGROUND) as answer:
            assert await response(answer) == first
    assert len(stand.fake.exchanges) == 1


@pytest.mark.parametrize("kept", [True, False], ids=["kept", "too_much"])
async def test_an_answer_waits_for_a_store_that_is_away(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, kept: bool
) -> None:
    monkeypatch.setattr(claiming, "_AGAIN", 0.01)
    monkeypatch.setattr(claiming, "MAX_WAITING", 1_000_000 if kept else 10)
    async with (
        upstream() as fake,
        running(_settings(fake, engine)) as here,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(_begin_next, fake)
        async with keyed(here, STREAM) as answer:
            await answer.until("response.output_text.delta")
            engine.kill()
            [exchange] = fake.exchanges
            await exchange.send(*closed("one "), completed(output=[message("one ")]))
            await exchange.end()
            first = (await answer.events())[-1]["response"]
        if not kept:
            await _refused(here)
            return
        async with keyed(here, STREAM) as answer:
            assert await response(answer) == first
        await engine.start()  # it has forgotten all claims
        async with running(_settings(fake, engine)) as there, engine.client() as client:
            with anyio.fail_after(HANG):
                while not await client.keys("*:claim:*"):  # noqa: ASYNC110 - another task writes it
                    await anyio.sleep(0.01)
            async with keyed(there, STREAM) as answer:
                assert await response(answer) == first
    assert len(fake.exchanges) == 1


async def _refused(url: str) -> None:
    """Ask until it is known that the store does not take the answer."""
    with anyio.fail_after(HANG):
        while True:
            async with keyed(url, STREAM) as answer:
                if answer.status == 503:
                    return


async def test_two_processes_begin_one_in_the_background(engine: Engine) -> None:
    said: list[dict[str, Any]] = []

    async def ask(url: str) -> None:
        async with keyed(url, BACKGROUND) as answer:
            said.append(await response(answer))

    async with upstream() as fake:
        settings = _settings(fake, engine)
        async with running(settings) as here, running(settings) as there:
            async with anyio.create_task_group() as tasks:
                for url in (here, there) * 3:
                    tasks.start_soon(ask, url)
                await _finish(await fake.next())
            await _reached(there, said[0]["id"], "completed")
    assert said == [said[0]] * 6
    assert len(fake.exchanges) == 1


class OthersClaims(MemoryClaimStore):
    """Has all claims in the hands of another process."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = anyio.Event()

    async def claim(self, key_id: str, name: str, claim: Claim) -> Claim:
        self.asked.set()
        return Claim("0" * 16, claim.digest)


@pytest.mark.parametrize("background", [False, True])
@pytest.mark.parametrize("leaves", [False, True])
async def test_nothing_waits_for_another_process_without_its_client_or_while_it_stops(
    background: bool, leaves: bool
) -> None:
    claims, gone = OthersClaims(), anyio.Event()

    async def receive() -> dict[str, Any]:
        if not gone.is_set():  # as a server, it does not wait for what is there
            await gone.wait()
        return {"type": "http.disconnect"}

    async def never() -> bytes:
        raise AssertionError("another process does it")

    nothing: Any = None
    running = RunningResponses()
    creates = IdempotentCreates(claims, running, nothing)
    scope = {"type": "http", "headers": [(b"idempotency-key", b"k1")]}
    request = await IdempotentRequest.of("k", Request(scope, receive), b"{}")
    assert request is not None
    faults: list[Fault] = []

    async def ask() -> None:
        try:
            if background:
                await creates.once(request, never, _never)
            else:
                await creates.answer(request, nothing, nothing, streams=True)
        except Fault as fault:
            faults.append(fault)

    with anyio.fail_after(HANG):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask)
            await claims.asked.wait()
            if leaves:
                gone.set()
            else:
                running.drain(HANG)
    assert [fault.code for fault in faults] == ["cancelled" if leaves else "server_shutting_down"]


async def test_a_request_with_two_keys_is_refused() -> None:
    async with standing() as stand:
        headers = {"idempotency-key": "k1", "Idempotency-Key": "k2"}
        async with posted(stand.url, STREAM, headers) as answer:
            error = (await answer.json())["error"]
        assert (answer.status, error["param"]) == (400, "Idempotency-Key")
