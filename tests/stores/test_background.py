"""The contract of every store of responses in the background, as two processes see it."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from lanes.history.entries import Entry
from lanes.stores.background import (
    EVENTS_TTL,
    BackgroundRecord,
    KeptEvents,
    Progress,
    ResponseInput,
    ResponseName,
)
from lanes.stores.memory_background import MemoryBackgroundStore
from lanes.stores.redis_background import RedisBackgroundStore
from steering.errors import StoreUnavailable
from steering.redis.lease import Lease
from tests.support.steer_stores import Clock, RedisPlace, StorePlace, response

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from lanes.stores.background import BackgroundStore

KEY = "k:1"


def body(status: str = "queued", **fields: Any) -> bytes:
    return json.dumps({"id": "r", "status": status, "error": None, **fields}).encode()


def new() -> ResponseName:
    return ResponseName(KEY, response())


@dataclass
class Two:
    """Two processes over one store; `die` ends the first, and the other has had time to see it."""

    one: BackgroundStore
    two: BackgroundStore
    die: Callable[[], Awaitable[None]] | None = None


@pytest.fixture
async def stores(place: StorePlace) -> Two:
    if not isinstance(place, RedisPlace):
        memory = MemoryBackgroundStore()
        return Two(memory, memory)

    async def process(owner: str) -> tuple[RedisBackgroundStore, Lease]:
        lease = Lease(place.client, owner, prefix=place.prefix, clock=place.clock)
        await lease.renew()
        return RedisBackgroundStore(place.client, lease, prefix=place.prefix), lease

    (one, lease), (two, _) = await process("a1"), await process("b2")

    async def die() -> None:
        await lease.release()
        place.clock.now += 10.0

    return Two(one, two, die)


async def test_a_response_from_its_beginning_to_its_end(stores: Two) -> None:
    name = new()
    assert await stores.two.get(name) is None
    await stores.one.open(name, body())
    await stores.one.open(name, body("never"))
    assert await stores.two.get(name) == BackgroundRecord(body(), over=False)
    assert await stores.one.advance(name, Progress(body("in_progress"), 0, [b"0", b"1"]))
    assert await stores.one.advance(name, Progress(body("in_progress"), 0, [b"0", b"1"]))
    assert await stores.one.advance(name, Progress(body("in_progress"), 2, [b"2"]))
    assert await stores.two.get(name) == BackgroundRecord(body("in_progress"), over=False)
    assert await stores.two.events(name, 1) == KeptEvents([b"1", b"2"], 3)
    assert await stores.two.events(name, 3) == KeptEvents([], 3)
    assert await stores.one.finish(name, body("completed"))
    assert await stores.one.finish(name, body("completed"))
    assert not await stores.one.finish(name, body("failed"))
    assert not await stores.one.advance(name, Progress(body("in_progress"), 3, [b"3"]))
    assert await stores.two.get(name) == BackgroundRecord(body("completed"), over=True)
    assert (await stores.two.events(name, 0)).count == 3


async def test_another_key_sees_nothing(stores: Two) -> None:
    name = new()
    await stores.one.open(name, body())
    await stores.one.advance(name, Progress(body(), 0, [b"0"]))
    stranger = ResponseName("other", name.id)
    assert await stores.two.get(stranger) is None
    assert await stores.two.events(stranger, 0) == KeptEvents([], 0)
    await stores.two.ask_to_cancel(stranger)
    assert await stores.one.asked_to_cancel() == []
    assert not await stores.two.delete(stranger)
    assert await stores.one.get(name) is not None


@pytest.mark.parametrize("text", ["", "a:b", "x" * 300, "ü"])
async def test_an_id_that_can_be_none(stores: Two, text: str) -> None:
    name = ResponseName(KEY, text)
    assert await stores.two.get(name) is None
    assert await stores.two.events(name, 0) == KeptEvents([], 0)
    await stores.two.ask_to_cancel(name)
    assert not await stores.two.delete(name)


@pytest.mark.parametrize("size", [5_000, 400_000])
async def test_large_objects_come_back(stores: Two, size: int) -> None:
    name, large = new(), body("completed", text=os.urandom(size).hex())
    await stores.one.open(name, body())
    assert await stores.one.finish(name, large)
    assert await stores.two.get(name) == BackgroundRecord(large, over=True)


@pytest.mark.parametrize("size", [10, 5_000, 400_000])
async def test_what_a_response_is_made_from(stores: Two, size: int) -> None:
    name, other = new(), new()
    calls = (("call_id", "call_1"),)
    entries = Entry(b'{"a":1}'), Entry(os.urandom(size), "msg_1", calls)
    made_from = ResponseInput("resp_before", "msg_last", entries)
    await stores.one.open(name, body(), made_from)
    await stores.one.open(other, body())
    assert await stores.two.made_from(name) == made_from
    await stores.one.finish(name, body("failed"))
    assert await stores.two.made_from(name) == made_from
    await stores.two.delete(name)
    for gone in (name, other, ResponseName(KEY, "no id")):
        assert await stores.two.made_from(gone) is None


async def test_many_events_come_in_parts(stores: Two) -> None:
    name, events = new(), [b"%d" % number for number in range(2_500)]
    await stores.one.open(name, body())
    assert await stores.one.advance(name, Progress(body(), 0, events))
    read: list[bytes] = []
    while (some := await stores.two.events(name, len(read))).events:
        assert some.count == len(events)
        read += some.events
    assert read == events


async def test_the_process_that_runs_it_is_asked_to_cancel_it(stores: Two) -> None:
    name, other = new(), new()
    await stores.one.open(name, body())
    await stores.one.open(other, body())
    for _ in range(2):
        await stores.two.ask_to_cancel(name)
    assert await stores.one.asked_to_cancel() == [name]
    await stores.one.finish(name, body("cancelled"))
    assert await stores.one.asked_to_cancel() == []
    await stores.two.ask_to_cancel(name)
    assert await stores.one.asked_to_cancel() == []


async def test_what_is_deleted_is_not_written_again(stores: Two) -> None:
    name = new()
    await stores.one.open(name, body())
    await stores.one.advance(name, Progress(body(), 0, [b"0"]))
    assert await stores.two.delete(name)
    assert not await stores.two.delete(name)
    assert not await stores.one.advance(name, Progress(body(), 1, [b"1"]))
    assert not await stores.one.finish(name, body("completed"))
    assert await stores.two.get(name) is None
    assert (await stores.two.events(name, 0)).count == 0


async def test_what_is_over_is_deleted_too(stores: Two) -> None:
    name = new()
    await stores.one.open(name, body())
    await stores.one.finish(name, body("failed"))
    assert await stores.two.delete(name)
    assert await stores.two.get(name) is None


async def test_a_response_whose_process_is_gone_has_failed(stores: Two) -> None:
    if stores.die is None:
        return  # what is in memory goes with its process
    name, ended = new(), new()
    await stores.one.open(name, body("in_progress", model="m"))
    await stores.one.open(ended, body())
    await stores.one.finish(ended, body("completed"))
    await stores.die()
    record = await stores.two.get(name)
    assert record is not None
    said = json.loads(record.body)
    assert record.over
    assert (said["status"], said["error"]["code"], said["model"]) == ("failed", "server_error", "m")
    assert await stores.two.get(ended) == BackgroundRecord(body("completed"), over=True)
    # If it lives after all, it learns that it was taken for dead.
    assert not await stores.one.advance(name, Progress(body(), 0, [b"0"]))
    assert not await stores.one.finish(name, body("completed"))
    assert await stores.two.get(name) == record


async def test_memory_forgets_in_time_and_is_bounded() -> None:
    clock = Clock()
    store = MemoryBackgroundStore(10_000, clock=clock)
    await store.open(ResponseName(KEY, "running"), body())
    for number in range(50):
        await store.open(ResponseName(KEY, f"r{number}"), body())
        await store.advance(ResponseName(KEY, f"r{number}"), Progress(body(), 0, [b"e" * 500]))
        await store.finish(ResponseName(KEY, f"r{number}"), body("completed", text="x" * 400))
        assert store.bytes_held <= 10_000
    assert await store.get(ResponseName(KEY, "r0")) is None
    assert await store.get(ResponseName(KEY, "r49")) is not None
    clock.now += EVENTS_TTL
    assert await store.get(ResponseName(KEY, "r49")) is None
    assert await store.get(ResponseName(KEY, "running")) is not None


@pytest.mark.parametrize(
    "fields",
    [
        {"owner": "a1"},
        {"owner": b"\xff", "over": "0", "body": "x"},
        {"owner": "a1", "over": "1", "body": "\x05"},
    ],
)
async def test_what_no_store_wrote_is_store_unavailable(
    kept: RedisPlace, fields: dict[str, str | bytes]
) -> None:
    lease = Lease(kept.client, "a1", prefix=kept.prefix, clock=kept.clock)
    store = RedisBackgroundStore(kept.client, lease, prefix=kept.prefix)
    await kept.client.hset(f"{kept.prefix}:background:{KEY}:r", mapping=fields)
    with pytest.raises(StoreUnavailable):
        await store.get(ResponseName(KEY, "r"))
