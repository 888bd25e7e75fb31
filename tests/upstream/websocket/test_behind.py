"""A gateway behind a gateway: many lanes, slow readers, and an inner one that ends or breaks."""

from __future__ import annotations

import random
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import anyio

from tests.cases.test_steer_race import CONNECTIONS, LANES, STEERS, Race, connection
from tests.support.client import connect
from tests.support.events import call_reply, closed, completed, created, delta, opened, reply
from tests.support.exchange import hung_up
from tests.support.gateway_stand import answer, stand
from tests.support.raw_http_server import until
from tests.support.steered import begin, steered, talking, turns

if TYPE_CHECKING:
    import pytest

    from tests.support.exchange import Exchange
    from tests.support.gateway_stand import Stand
    from tests.upstream.websocket.behind import Behind

ROUNDS = 4


async def test_who_finds_the_boundary_makes_the_successor(behind: Behind) -> None:
    async with steered() as on:
        parent = await talking(on, "a", "one ")
        await parent.steer("two")
        await parent.ended("steered")
        successor = await parent.follows()
        assert turns(successor.exchange)[1:] == [("assistant", "one "), ("user", "two")]
        await successor.finish()
        assert len(on.fake.exchanges) == 2
        assert behind.posts == (1 if behind.steering == "native" else 2)


async def test_two_steers_in_one_breath(behind: Behind) -> None:
    """The upstream may have stopped for the first before it heard of the second."""
    async with steered() as on:
        parent = await talking(on, "a", "one ")
        steer = {"type": "response.steer", "previous_response_id": parent.id}
        await on.client.send_at_once({**steer, "input": "two"}, {**steer, "input": "three"})
        await parent.ended("steered")
        exchange = await on.fake.next()
        carried = [("user", "two"), ("user", "three")]
        if turns(exchange)[-1] != carried[-1] and behind.steering == "native":
            await exchange.send(created("r2"))  # one without the other is given up
            exchange = await on.fake.next()
        elif turns(exchange)[-1] != carried[-1]:  # it came after the cut, and returns
            refusal = (await on.client.until("response.steer.failed", lane="a"))[-1]
            assert refusal["error"]["code"] == "response_not_active"
            assert refusal["steer"]["input"] == carried.pop()[1]
        assert turns(exchange)[2:] == carried
        await exchange.send(*reply("ok"))
        await exchange.end()
        assert (await on.client.ended("a"))["previous_response_id"] == parent.id


async def test_a_steer_at_the_very_end(behind: Behind) -> None:
    async with steered() as on:
        parent = await begin(on, "a", *opened(), delta("all"), *closed("all"))
        await parent.exchange.send(completed())
        await on.client.steer(parent.id, "more")
        answers = ("response.steer.accepted", "response.steer.failed")
        kinds = [event["type"] for event in await on.client.until("response.completed", lane="a")]
        if answers[0] not in kinds:
            event = (await on.client.until(*answers, lane="a"))[-1]
            if event["type"] == answers[1]:
                assert event["error"]["code"] == "response_already_completed"
                return
        exchange = await on.fake.next()
        assert turns(exchange)[-1] == ("user", "more")
        await answer(exchange)
        assert (await on.client.ended("a"))["previous_response_id"] == parent.id


async def test_a_steer_while_the_successor_is_created(behind: Behind) -> None:
    """It names the parent, and stops the successor once that is there."""
    async with steered() as on:
        parent = await talking(on, "a", "one ")
        await parent.steer("two")
        await parent.ended("steered")
        exchange = await on.fake.next()
        await parent.steer("three")
        await exchange.send(created("r2"))
        await on.client.until("response.incomplete", lane="a")
        third = await on.fake.next()
        assert turns(third)[1:] == [("assistant", "one "), ("user", "two"), ("user", "three")]
        await answer(third)
        assert (await on.client.ended("a"))["status"] == "completed"


async def test_lost_between_the_end_and_the_successor(behind: Behind) -> None:
    async with steered() as on:
        parent = await talking(on, "a", "one ")
        await parent.steer("two")
        await parent.ended("steered")
        lost = await on.fake.next()  # it was asked, and has not begun
        behind.kill()
        again = await on.fake.next()
        assert turns(again) == turns(lost)
        await hung_up(lost)
        await answer(again)
        assert (await on.client.ended("a"))["previous_response_id"] == parent.id


async def test_the_inner_gateway_breaks(behind: Behind) -> None:
    """What had begun fails, what had not is asked again, and all goes on."""
    async with stand() as on:
        running = await talking(on, "a", "abc")
        waiting = await on.asked("b")
        behind.kill()
        response = await on.client.ended("a")
        assert (response["status"], response["error"]["code"]) == ("failed", "server_error")
        assert response["output"][0]["content"][0]["text"] == "abc"
        await hung_up(running.exchange, waiting)
        await answer(await on.fake.next())
        assert (await on.client.ended("b"))["status"] == "completed"
        await on.usable("a")


async def test_the_inner_gateway_drains(behind: Behind) -> None:
    async with stand() as on:
        running = await talking(on, "a", "abc")
        behind.inner[0].should_exit = True
        await until(lambda: behind.inner[0].gateway.census.draining)
        await on.client.create("b")
        error = await on.client.error("b")
        assert (error["status"], error["error"]["code"]) == (503, "server_shutting_down")
        await running.says("def")
        await running.send(*closed("abcdef"), completed())
        assert (await running.ended())["output"][0]["content"][0]["text"] == "abcdef"


async def test_the_inner_gateway_is_at_its_age_limit(behind: Behind) -> None:
    behind.settings = {"max_age": 0.3, "age_grace": 5}
    async with stand() as on:
        running = await talking(on, "a", "abc")
        await until(lambda: all(one._ending for one in behind.inner[0].gateway.census.connections))
        await on.usable("b")  # on another socket
        await running.says("def")
        await running.send(*closed("abcdef"), completed())
        assert (await running.ended())["status"] == "completed"
        await on.usable("a")


async def test_a_refusal_reaches_the_client(behind: Behind) -> None:
    async with stand(retries=0) as on:
        exchange = await on.asked("a")
        body = {"error": {"message": "no such model", "code": "model_not_found", "param": "model"}}
        await exchange.reply(404, body, {"x-request-id": "r1"})
        error = await on.client.error("a")
        assert error["status"] == 404
        assert error["error"]["code"] == "model_not_found"
        assert error["error"]["param"] == "model"
        assert error["error"]["headers"] == {"x-request-id": "r1"}


async def test_forty_lanes_of_three_clients(behind: Behind) -> None:
    async with stand() as on, connect(on.url) as second, connect(on.url) as third:
        clients = [on.client] * 16 + [second] * 16 + [third] * 8
        for number, client in enumerate(clients):
            await client.create(f"l{number}", input=f"i{number}")
        exchanges = [await on.fake.next() for _ in clients]
        for part in range(5):
            for exchange in exchanges:
                name = exchange.body["input"]
                before = [] if part else [created(), *opened()]
                await exchange.send(*before, delta(f"{name}-{part} "))
        for exchange in exchanges:
            text = "".join(f"{exchange.body['input']}-{part} " for part in range(5))
            await exchange.send(*closed(text), completed())
            await exchange.end()
        for number, client in enumerate(clients):
            response = await client.ended(f"l{number}")
            text = "".join(f"i{number}-{part} " for part in range(5))
            assert response["output"][0]["content"][0]["text"] == text
        assert len(behind.inner[0].server_state.connections) >= 3


async def test_a_client_that_reads_nothing_holds_up_nobody_else(behind: Behind) -> None:
    text = "x" * 50_000
    async with (
        stand(send_buffer_bytes=1 << 16, max_event_bytes=1 << 20) as on,
        connect(on.url, judged=False) as slow,
    ):
        slow.socket.transport.pause_reading()
        await slow.create("s")
        flood = await on.fake.next()
        quick = await talking(on, "q", "abc")
        await flood.send(created(), *opened())
        with suppress(ConnectionResetError):
            for number in range(300):
                await flood.send(delta(text))
                if number % 10 == 0:
                    await quick.says("on ")
        await hung_up(flood)
        slow.socket.transport.resume_reading()
        response = await slow.ended("s")
        assert response["status"] == "failed"
        assert "which reads too slowly" in response["error"]["message"]
        await quick.says("still on")  # nobody else is harmed
        await quick.finish()


async def test_steers_around_the_end(behind: Behind, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each has one verdict; what was given up upstream was not committed by it."""
    monkeypatch.setattr("tests.cases.test_steer_race.ROUNDS", ROUNDS)
    race = Race(random.Random(11))
    async with (
        stand(race.upstream, retries=0) as on,
        anyio.create_task_group() as connections,
    ):
        for _ in range(CONNECTIONS):
            connections.start_soon(connection, race, on.url)
    assert len(race.verdicts) == CONNECTIONS * LANES * ROUNDS * STEERS
    committed = {text for text, verdict in race.verdicts.items() if verdict == "committed"}
    failed = {text for text, verdict in race.verdicts.items() if verdict == "failed"}
    assert committed <= race.taken.keys()
    assert failed.isdisjoint(race.taken) or behind.steering == "native"
    # Both ends of the race were met; a busy machine loses more of them.
    assert len(committed) > len(race.verdicts) / 10
    assert failed


async def test_any_creates_and_steers(behind: Behind) -> None:
    """Clients that continue, fork, call tools, steer and leave at random; all of it is judged."""
    draw = random.Random(5)

    async def play(exchange: Exchange) -> None:
        if draw.random() < 0.05:
            await exchange.reply(500, {"error": {"message": "no"}})
            return
        if draw.random() < 0.2:
            await exchange.send(*call_reply("w"))
        else:
            await exchange.send(created(), *opened())
            texts = [f"w{number} " for number in range(draw.randrange(1, 12))]
            for text in texts:
                await exchange.send(delta(text))
                await anyio.sleep(draw.uniform(0, 0.003))
            await exchange.send(*closed("".join(texts)), completed())
        await exchange.end()

    async with stand(play, retries=0) as on, anyio.create_task_group() as tasks:
        for number in range(4):
            tasks.start_soon(_wander, on, random.Random(number))


async def _wander(on: Stand, draw: random.Random) -> None:
    async with connect(on.url) as client:
        parents: list[tuple[str, str]] = []
        busy: dict[str, str | None] = {}
        left = 40
        while left or busy:
            free = [lane for lane in ("a", "b", "c", "d") if lane not in busy]
            while left and free and draw.random() < 0.7:
                lane, left = free.pop(), left - 1
                extra = _parent(draw, parents)
                await client.create(lane, **extra)
                busy[lane] = None
            if not busy:
                continue
            _hear(await client.event(), parents, busy)
            steerable = [name for name in busy.values() if name]
            if steerable and draw.random() < 0.15:
                await client.steer(draw.choice(steerable), "turn")
        assert client.judge is not None


def _parent(draw: random.Random, parents: list[tuple[str, str]]) -> dict[str, Any]:
    if not parents or draw.random() < 0.3:
        return {"input": "new"}
    name, call = draw.choice(parents[-8:])
    output = [{"type": "function_call_output", "call_id": call, "output": "x"}] if call else []
    return {"previous_response_id": name, "input": [*output, {"role": "user", "content": "on"}]}


def _hear(event: Any, parents: list[tuple[str, str]], busy: dict[str, str | None]) -> None:
    """Keep track of what runs where: a lane that is steered is busy until its last successor."""
    kind, lane = event["type"], event.get("stream_id")
    if kind == "response.created":
        busy[lane] = event["response"]["id"]
    elif kind == "error" or (kind == "response.steer.failed" and busy.get(lane) == ""):
        busy.pop(lane, None)
    elif kind == "response.incomplete":
        busy[lane] = ""  # its successor follows, or its steers come back
    elif kind in ("response.completed", "response.failed"):
        response = event["response"]
        calls = [item["call_id"] for item in response["output"] if item["type"] == "function_call"]
        if response["status"] == "completed":
            parents.append((response["id"], calls[0] if calls else ""))
        busy.pop(lane, None)
