"""field-cases.md 5: routing is not lineage; forks and warm-ups share only their parent."""

from __future__ import annotations

import pytest

from tests.support.events import completed, created, delta, message, opened, reply
from tests.support.gateway_stand import answer, said, stand


async def test_b31_the_envelope_stays_here() -> None:
    async with stand() as on:
        exchange, _ = await on.turn("a.b-c_1", generate=True, event_id="e1", stream=False, n=0)
        assert exchange.body.keys() == {"model", "input", "stream", "store", "n"}
        assert exchange.body["stream"] is True
        assert {seen["stream_id"] for seen in on.client.transcript} == {"a.b-c_1"}


async def test_b31_the_default_lane_has_no_key() -> None:
    async with stand() as on:
        exchange, _ = await on.turn()
        assert "stream_id" not in exchange.body
        assert all("stream_id" not in seen for seen in on.client.transcript)


async def test_b33_a_warm_up_serves_twice_and_from_other_lanes() -> None:
    async with stand() as on:
        await on.client.create("a", generate=False, input="warm", instructions="old", top_p=0.5)
        warm = await on.client.ended("a")
        assert (warm["output"], warm["usage"]["total_tokens"]) == ([], 0)
        assert not on.fake.exchanges
        exchanges = {}
        for lane in ("b", "c", "a"):
            exchanges[lane] = await on.asked(
                lane, previous_response_id=warm["id"], input=lane, instructions=f"new {lane}"
            )
        for lane, exchange in exchanges.items():
            assert said(exchange) == ["warm", lane]
            assert exchange.body["instructions"] == f"new {lane}"
            assert "top_p" not in exchange.body
            await answer(exchange)
            ended = await on.client.ended(lane)
            assert ended["previous_response_id"] == warm["id"]
            assert ended["instructions"] == f"new {lane}"


async def test_b33_warm_ups_chain_and_wait_their_turn() -> None:
    async with stand() as on:
        first = await on.asked("a", input="one")
        await on.client.create("a", generate=False, input="two")
        await answer(first, [*reply("x")])
        one, warm = await on.client.ended("a"), await on.client.ended("a")
        assert warm["previous_response_id"] is None
        await on.client.create("a", generate=False, input="three", previous_response_id=one["id"])
        second = await on.client.ended("a")
        last, _ = await on.turn("b", input=[], previous_response_id=second["id"])
        assert said(last) == ["one", "x", "three"]


async def test_b33_a_warm_up_of_an_unknown_parent_is_refused() -> None:
    async with stand() as on:
        refused = await on.refused("a", generate=False, previous_response_id="resp_gone")
        assert refused["error"]["code"] == "previous_response_not_found"


async def test_b34_forks_run_at_once_and_know_nothing_of_each_other() -> None:
    async with stand() as on:
        _, parent = await on.turn("p", reply("root"), input="start")
        x = await on.asked("x", previous_response_id=parent["id"], input="left")
        y = await on.asked("y", previous_response_id=parent["id"], input="right")
        assert said(x) == ["start", "root", "left"]
        assert said(y) == ["start", "root", "right"]
        for exchange in (x, y):
            await exchange.send(created(), *opened())
        for n in range(3):
            for lane, exchange in (("x", x), ("y", y)):
                await exchange.send(delta(f"{lane}{n}"))
                seen = await on.client.until("response.output_text.delta", lane=lane)
                assert seen[-1]["delta"] == f"{lane}{n}"
        for lane, exchange in (("y", y), ("x", x)):
            await answer(exchange, [completed("r1", [message(f"{lane}0{lane}1{lane}2")])])
            ended = await on.client.ended(lane)
            following, _ = await on.turn(lane, previous_response_id=ended["id"], input="and?")
            assert said(following)[:2] == ["start", "root"]
            other = "x" if lane == "y" else "y"
            assert all(other + "0" not in text for text in said(following))


async def test_b34_a_parent_is_a_snapshot() -> None:
    async with stand() as on:
        _, parent = await on.turn("p", reply("root"), input="start")
        await on.turn("p", reply("later"), previous_response_id=parent["id"], input="more")
        fork, _ = await on.turn("x", previous_response_id=parent["id"], input="other")
        assert said(fork) == ["start", "root", "other"]


@pytest.mark.parametrize("bad", [42, True, "", None, "x" * 257, "a b", "é"])
async def test_b37_a_bad_name_is_never_the_default_lane(bad: object) -> None:
    async with stand(max_named=1) as on:
        await on.client.create(stream_id=bad)
        refused = await on.client.error()
        assert refused["error"]["code"] == "invalid_stream_id"
        assert refused["error"]["param"] == "stream_id"
        assert "stream_id" not in refused
        await on.usable("x" * 256)
        over = await on.refused("y")
        assert over["error"]["code"] == "websocket_stream_limit_reached"
        assert over["stream_id"] == "y"
        await on.usable("x" * 256)
        await on.usable()
