"""Named, active and waiting: what one connection may have, with small numbers (B37)."""

from __future__ import annotations

from typing import Any

from tests.support.events import reply
from tests.support.wire_stand import last_text, shape, talking

BAD_NAMES: tuple[Any, ...] = (42, True, None, "", "a" * 257, "a b", "é", [], {}, "a/b", "a\n", 1.5)


async def test_bad_stream_ids_count_for_nothing_and_the_33rd_is_refused() -> None:
    async with talking(lambda _: reply("ok")) as (stand, client):
        for name in BAD_NAMES:
            await client.create(stream_id=name)
            event = await client.event()
            assert shape(event) == ("invalid_stream_id", 400, "stream_id", None), name
        await client.create()
        await client.ended(None)
        for n in range(32):
            name = str(n) + "a" * (256 - len(str(n)))
            await client.create(name)
            await client.ended(name)
        await client.create("one-more")
        event = await client.event()
        code = "websocket_stream_limit_reached"
        assert shape(event) == (code, 400, "stream_id", "one-more")
        assert event["error"]["type"] == "invalid_request_error"
        assert "'one-more'" in event["error"]["message"]
        assert "32" in event["error"]["message"]
        await client.create("0" + "a" * 255)
        await client.ended("0" + "a" * 255)
        await client.create()
        await client.ended(None)
        assert len(stand.fake.exchanges) == 35


async def test_a_refused_create_names_no_lane() -> None:
    async with talking(lambda _: reply("ok"), max_named=2) as (_, client):
        for name in ("x", "y", "z"):
            await client.create(name, model=7)
            await client.event()
        for name in ("a", "b"):
            await client.create(name)
            await client.ended(name)


async def test_the_default_lane_has_no_stream_id() -> None:
    async with talking(lambda _: reply("ok"), max_named=0) as (_, client):
        await client.create()
        await client.ended(None)
        assert all("stream_id" not in event for event in client.transcript)
        await client.create("a")
        assert shape(await client.event())[0] == "websocket_stream_limit_reached"


async def test_one_lane_is_fifo_and_never_overlaps() -> None:
    async with talking() as (stand, client):
        for n in range(4):
            await client.create("a", input=f"a{n}")
        await client.create("b", input="b0")
        first, other = await stand.fake.next(), await stand.fake.next()
        assert (last_text(first), last_text(other)) == ("a0", "b0")
        for n in range(4):
            assert len(stand.fake.exchanges) == n + 2
            await first.send(*reply(f"r{n}"))
            await first.end()
            response = await client.ended("a")
            assert response["output"][0]["content"][0]["text"] == f"r{n}"
            if n < 3:
                first = await stand.fake.next()
                assert last_text(first) == f"a{n + 1}"
        await other.send(*reply("done"))
        await client.ended("b")


async def test_lanes_run_side_by_side() -> None:
    async with talking() as (stand, client):
        lanes = [await stand.lane(client, name) for name in ("a", "b", None)]
        for word in ("one ", "two ", "three "):
            for lane in lanes:
                await lane.says(word)
        for lane in reversed(lanes):
            await lane.ends()


async def test_a_slot_goes_to_the_lane_that_was_ready_first() -> None:
    async with talking(max_active=2) as (stand, client):
        for name in ("a", "b", "a", "c", "d", "c"):
            await client.create(name, input=name)
        running = {last_text(e): e for e in [await stand.fake.next(), await stand.fake.next()]}
        assert set(running) == {"a", "b"}
        # c and d were ready before a's second create, whose lane was busy.
        for ends, starts in (("a", "c"), ("b", "d"), ("c", "a"), ("d", "c")):
            assert len(stand.fake.exchanges) - len(running) <= 4
            exchange = running.pop(ends)
            await exchange.send(*reply("ok"))
            await exchange.end()
            await client.ended(ends)
            begun = await stand.fake.next()
            assert last_text(begun) == starts
            running[starts] = begun
        for name, exchange in running.items():
            await exchange.send(*reply("ok"))
            await client.ended(name)


async def test_the_17th_waits_and_runs_once_any_response_ended_whatever_way() -> None:
    async with talking() as (stand, client):
        for n in range(18):
            await client.create(str(n), input=str(n))
        running = [await stand.fake.next() for _ in range(16)]
        assert [last_text(exchange) for exchange in running] == [str(n) for n in range(16)]
        await running[0].reply(400, {"error": {"message": "no", "code": "bad", "type": "x"}})
        assert (await client.error("0"))["status"] == 400
        running.append(await stand.fake.next())
        running[1].cut()
        assert (await client.error("1"))["status"] == 502
        running.append(await stand.fake.next())
        assert [last_text(exchange) for exchange in running[16:]] == ["16", "17"]
        for exchange in running[2:]:
            await exchange.send(*reply("ok"))
            await client.ended(last_text(exchange))


async def test_too_many_waiting() -> None:
    async with talking(max_active=1, max_queued=2) as (stand, client):
        busy = await stand.lane(client, "a")
        await client.create("a", input="w1")
        await client.create("b", input="w2")
        for name in ("a", "b", None):
            await client.create(name)
            event = await client.event()
            assert shape(event) == ("too_many_queued_responses", 429, None, name)
        await busy.says("still here")
        await busy.ends()
        for wanted, lane in (("w2", "b"), ("w1", "a")):
            exchange = await stand.fake.next()
            assert last_text(exchange) == wanted
            await exchange.send(*reply("ok"))
            await exchange.end()
            await client.ended(lane)


async def test_too_many_bytes_waiting() -> None:
    async with talking(max_active=1, max_queued_bytes=10_000) as (stand, client):
        busy = await stand.lane(client, "a", input="x" * 50_000)
        await client.create("a", input="y" * 6_000)
        await client.create("a", input="z" * 6_000)
        assert shape(await client.event()) == ("too_many_queued_responses", 429, None, "a")
        await client.create("a", input="z" * 1_000)
        await busy.ends()
        for size in (6_000, 1_000):
            exchange = await stand.fake.next()
            assert len(last_text(exchange)) == size
            await exchange.send(*reply("ok"))
            await exchange.end()
            await client.ended("a")
