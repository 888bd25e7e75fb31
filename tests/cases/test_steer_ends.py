"""What becomes of steers when the connection, the gateway or the store is in trouble."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import anyio
import pytest

from lanes.history.archive import KeyArchive
from lanes.worker import Worker
from tests.support.calling import OUTPUT, called_out, calling
from tests.support.clerk_log import log_clerk
from tests.support.client import connect
from tests.support.events import called, completed, created, item_added, item_done
from tests.support.exchange import hung_up
from tests.support.hang_guard import HANG
from tests.support.steered import began, begin, steered, talking, turns
from tests.support.wire_stand import talking as serving

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable


ACTION = {"type": "search", "query": "q", "queries": ["q"]}
SEARCH: dict[str, Any] = {
    "id": "ws1",
    "type": "web_search_call",
    "status": "in_progress",
    "action": ACTION,
}


async def until(holds: Callable[[], object]) -> None:
    """There is no event for it."""
    with anyio.fail_after(HANG):
        while not holds():  # noqa: ASYNC110
            await anyio.sleep(0.002)


async def test_the_books_tell_what_became_of_each(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = log_clerk(monkeypatch)
    async with steered() as on:
        parent = await talking(on, "a")
        committed = await parent.steer([{"role": "user", "content": "é"}])
        successor = await parent.follows()
        assert kept.states[committed] == ["accepted", "bound", "committed"]
        assert kept.successors[committed] == successor.id
        assert kept.inputs[committed] == '[{"role":"user","content":"é"}]'.encode()
        waiting = await calling(on, "b")
        pending = await waiting.steer()
        await called_out(waiting)
        await waiting.pending(pending)
        await on.client.create("b", previous_response_id=waiting.id, input=[OUTPUT])
        assert kept.states[pending] == ["accepted", "pending"]
        await (await on.fake.next()).reply(400, {"error": {"message": "no"}})
        [event] = await waiting.failed(pending)
        assert event["error"]["code"] == "successor_creation_failed"
        assert kept.states[pending] == ["accepted", "pending", "bound", "failed"]
        assert kept.reasons[pending] == "successor_creation_failed"
        await successor.finish()


@pytest.mark.parametrize("how", ["abort", "close"])
async def test_a_client_that_leaves_drops_what_waits(
    monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    kept = log_clerk(monkeypatch)
    async with steered() as on, connect(on.url) as leaver:
        lost = await begin(on, "a", item_added(SEARCH), client=leaver)
        accepted = await lost.steer()
        parent = await begin(on, "b", client=leaver)
        bound = await parent.steer()
        exchange = await on.fake.next()
        if how == "abort":
            leaver.abort()
        else:
            await leaver.socket.close()
        await hung_up(lost.exchange, exchange)
        await until(lambda: kept.states[accepted][-1] == kept.states[bound][-1] == "dropped")
        assert kept.states[accepted] == ["accepted", "dropped"]
        assert kept.states[bound] == ["accepted", "bound", "dropped"]
        assert len(on.fake.exchanges) == 3
        await on.usable()


async def test_a_client_that_leaves_while_a_record_is_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gate = anyio.Event()
    kept = log_clerk(monkeypatch, gate)
    async with steered() as on, connect(on.url) as leaver:
        parent = await talking(on, "a", client=leaver)
        await leaver.steer(parent.id, "x")
        await parent.says("on")
        leaver.abort()
        await until(lambda: kept.states)
        assert list(kept.states.values()) == [["dropped"]]


async def test_an_explicit_create_that_is_refused_here_returns_them() -> None:
    async with steered() as on:
        parent = await calling(on)
        steer = await parent.steer("s1")
        await called_out(parent)
        await parent.pending(steer)
        ghost = {"type": "function_call_output", "call_id": "ghost", "output": "x"}
        await on.client.create("a", previous_response_id=parent.id, input=[ghost])
        [event] = await parent.failed(steer)
        assert event["error"]["code"] == "successor_creation_failed"
        assert (await on.client.error("a"))["error"]["param"] == "input"
        assert len(on.fake.exchanges) == 1
        await on.usable("a")


async def test_a_parent_that_was_forgotten_returns_them() -> None:
    async with steered(cache_bytes=0) as on:
        parent = await calling(on)
        steer = await parent.steer("s1")
        await called_out(parent)
        await parent.pending(steer)
        await on.turn("a", input="the lane goes on")
        await on.client.create("a", previous_response_id=parent.id, input=[OUTPUT])
        [event] = await parent.failed(steer)
        assert event["steer"]["input"] == "s1"
        error = await on.client.error("a")
        assert error["error"]["code"] == "previous_response_not_found"


async def test_a_stored_parent_still_knows_its_lane() -> None:
    async with steered(cache_bytes=0) as on:
        parent = await calling(on, "a", store=True)
        await parent.steer("s1")
        await called_out(parent)
        await on.turn("a", input="the lane goes on")
        fork, _ = await on.turn(None, previous_response_id=parent.id, input=[OUTPUT])
        assert ("user", "s1") not in turns(fork)
        await on.client.create("a", previous_response_id=parent.id, input=[OUTPUT])
        successor = await began(on, "a")
        assert ("user", "s1") in turns(successor.exchange)
        await successor.finish()


async def test_a_create_that_finds_no_room_leaves_them_waiting() -> None:
    async with steered(max_active=1, max_queued=1) as on:
        parent = await calling(on)
        await parent.steer("s1")
        await on.client.create("b", input="first")
        await called_out(parent)
        other = await began(on, "b")
        await on.client.create("c", input="waits")
        await on.client.create("a", previous_response_id=parent.id, input=[OUTPUT])
        error = await on.client.error("a")
        assert error["error"]["code"] == "too_many_queued_responses"
        await other.finish()
        await (await began(on, "c")).finish()
        await on.client.create("a", previous_response_id=parent.id, input=[OUTPUT])
        successor = await began(on, "a")
        assert ("user", "s1") in turns(successor.exchange)
        await successor.finish()


async def test_a_fault_of_our_own_returns_them(monkeypatch: pytest.MonkeyPatch) -> None:
    def planted(*_: object) -> Awaitable[None]:
        raise RuntimeError("planted")

    async with steered() as on:
        parent = await calling(on)
        steer = await parent.steer("s1")
        await called_out(parent)
        monkeypatch.setattr(Worker, "_start", planted)
        await on.client.create("a", previous_response_id=parent.id, input=[OUTPUT])
        await parent.failed(steer)
        assert (await on.client.error("a"))["status"] == 500
        assert len(on.errors) == 1
        on.errors.clear()


@pytest.mark.parametrize("why", ["drain", "age"])
@pytest.mark.parametrize("grace", [10, 0])
async def test_the_end_of_all_returns_them(why: str, grace: float) -> None:
    options: dict[str, Any] = {"drain_timeout": grace, "age_grace": grace}
    async with serving(max_age=1.5 if why == "age" else 60, **options) as (wire, client):
        await client.create("a")
        exchange = await wire.fake.next()
        await exchange.send(item_added(SEARCH))
        target = (await client.until("response.created", lane="a"))[-1]["response"]["id"]
        await client.steer(target, "s1")
        await client.until("response.steer.accepted", lane="a")
        [connection] = wire.server.gateway.census.connections
        wire.server.should_exit = why == "drain"
        await until(lambda: connection._ending)
        if grace:
            await client.steer(target, "s2")
            refused = (await client.until("response.steer.failed", lane="a"))[-1]
            assert refused["error"]["code"] == "response_not_active"
            assert refused["steer"] == {"previous_response_id": target, "input": "s2"}
            await exchange.send(item_done({**SEARCH, "status": "completed"}))
        event = (await client.until("response.steer.failed", lane="a"))[-1]
        assert event["steer"]["input"] == "s1"
        assert event["error"]["code"] == "successor_creation_failed"
        assert (await client.closed())[0] == (1012 if why == "drain" else 1000)
        assert len(wire.fake.exchanges) == 1


@pytest.mark.parametrize("slow", ["steers", "parents"])
@pytest.mark.parametrize("late", [True, False])
async def test_a_create_that_waits_for_the_store_is_answered_when_time_is_over(
    slow: str, late: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate, find = anyio.Event(), KeyArchive.find

    async def finding(shelf: KeyArchive, response_id: str) -> Any:
        await gate.wait()
        return await find(shelf, response_id)

    if slow == "steers":
        log_clerk(monkeypatch, gate)
    else:
        monkeypatch.setattr(KeyArchive, "find", finding)
    async with serving(max_age=1.0, age_grace=0) as (wire, client):
        await client.create("a")
        exchange = await wire.fake.next()
        await exchange.send(created(), *called("w"), completed())
        parent = (await client.ended("a"))["id"]
        if slow == "steers":
            await client.steer(parent, "s1")
        else:
            parent = parent[:-4] + "beef"
        await client.create("a", previous_response_id=parent, input=[OUTPUT])
        [connection] = wire.server.gateway.census.connections
        await until(lambda: connection._worker._gate.fault if late else connection._ending)
        if late:
            gate.set()
        error = await client.error("a")
        assert error["error"]["code"] == "websocket_connection_limit_reached"
        assert (await client.closed())[0] == 1000
        assert len(wire.fake.exchanges) == 1
