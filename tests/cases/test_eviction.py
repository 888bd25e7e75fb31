"""protocol.md 3: what a failure forgets, and what a full cache forgets."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.events import created, data, delta, event, failed, opened, reply
from tests.support.gateway_stand import answer, said, stand

MIDSTREAM = {"failed": [failed()], "error": [data({"error": {"message": "x"}})], "eof": []}


@pytest.mark.parametrize("how", MIDSTREAM)
async def test_a_failed_response_is_no_parent_and_evicts_nothing(how: str) -> None:
    async with stand() as on:
        _, root = await on.turn("a")
        chunks = [created(), *opened(), delta("x"), *MIDSTREAM[how]]
        _, broken = await on.turn("a", chunks, previous_response_id=root["id"])
        assert broken["status"] == "failed"
        assert not await on.known(broken["id"])
        assert await on.known(root["id"])
        _, again = await on.turn("a", previous_response_id=root["id"])
        assert again["status"] == "completed"


@pytest.mark.parametrize("status", [400, 404, 429, 500])
async def test_a_refused_continuation_evicts_the_parent_it_named(status: int) -> None:
    async with stand() as on:
        _, root = await on.turn("a")
        _, head = await on.turn("a", previous_response_id=root["id"])
        exchange = await on.asked("a", previous_response_id=root["id"])
        await exchange.reply(status, {"error": {"message": "no"}})
        assert (await on.client.error("a"))["status"] == status
        assert not await on.known(root["id"])
        assert await on.known(head["id"])
        _, after = await on.turn("a", previous_response_id=head["id"])
        assert after["status"] == "completed"


async def test_a_refused_fork_leaves_its_parent() -> None:
    async with stand() as on:
        _, root = await on.turn("a")
        for status in (400, 500):
            exchange = await on.asked("b", previous_response_id=root["id"])
            await exchange.reply(status, {"error": {"message": "no"}})
            await on.client.error("b")
        assert await on.known(root["id"])


async def test_an_error_before_created_within_a_stream_evicts_like_a_refusal() -> None:
    async with stand() as on:
        _, root = await on.turn("a")
        exchange = await on.asked("a", previous_response_id=root["id"])
        await answer(exchange, [event("error", message="no", code="x")])
        await on.client.error("a")
        assert not await on.known(root["id"])


BAD: list[dict[str, Any]] = [
    {"background": True},
    {"model": 3},
    {"input": 5},
    {"tools": {}},
    {"metadata": {"k": 1}},
    {"conversation": "conv_1"},
    {"generate": 1},
]


async def test_local_validation_errors_evict_nothing() -> None:
    async with stand() as on:
        _, root = await on.turn("a")
        for bad in BAD:
            refused = await on.refused("a", previous_response_id=root["id"], **bad)
            assert refused["status"] == 400
            assert refused["error"]["param"] == next(iter(bad))
        await on.client.create("a b", previous_response_id=root["id"])
        await on.client.error(None)
        assert await on.known(root["id"])


async def test_the_oldest_is_forgotten_and_lane_heads_stay() -> None:
    async with stand(cache_bytes=12000) as on:
        _, head = await on.turn("quiet", input="pinned")
        ids = []
        for turn in range(6):
            _, response = await on.turn("busy", input=f"{turn}" * 2500)
            ids.append(response["id"])
        assert not await on.known(ids[0], "busy")
        assert await on.known(head["id"])
        exchange, _ = await on.turn("quiet", previous_response_id=head["id"], input="more")
        assert said(exchange) == ["pinned", "ok", "more"]
        exchange, _ = await on.turn("probe", previous_response_id=ids[-1], input="more")
        assert said(exchange)[0] == "5" * 2500


async def test_a_cache_of_nothing_still_chains_each_lane() -> None:
    async with stand(cache_bytes=0) as on:
        parents: dict[str, str | None] = {"a": None, "b": None}
        for turn in range(4):
            for lane in parents:
                exchange, response = await on.turn(
                    lane, reply("ok"), input=f"{lane}{turn}", previous_response_id=parents[lane]
                )
                parents[lane] = response["id"]
        assert said(exchange) == ["b0", "ok", "b1", "ok", "b2", "ok", "b3"]
