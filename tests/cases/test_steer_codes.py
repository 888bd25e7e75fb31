"""Every code of `response.steer.failed`; nothing else comes of such a steer."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.calling import called_out, calling
from tests.support.client import connect
from tests.support.events import call_reply, closed, completed, delta, failed, incomplete, message
from tests.support.gateway_stand import answer
from tests.support.steered import Running, steered, talking, turns, untouched


async def test_b03_an_unknown_target_has_number_zero_each_time() -> None:
    async with steered() as on:
        for target in ("nope", "resp_" + "0" * 32, "x" * 9999):
            await on.client.steer(target, "x")
            event = await on.client.event()
            assert event["error"]["code"] == "response_not_found"
            assert event["error"]["type"] == "invalid_request_error"
            assert event["steer"] == {"previous_response_id": target, "input": "x"}
            assert event["sequence_number"] == 0
            assert "stream_id" not in event


async def test_another_connections_response_is_not_found() -> None:
    async with steered() as on, connect(on.url) as other:
        parent = await talking(on, "a")
        await other.steer(parent.id, "x")
        event = await other.event()
        assert event["error"]["code"] == "response_not_found"
        assert "stream_id" not in event
        await untouched(parent)


@pytest.mark.parametrize("end", ["completed", "warm", "incomplete", "failed", "steered", "asked"])
async def test_a_response_that_is_over(end: str) -> None:
    codes = dict.fromkeys(("completed", "warm", "steered"), "response_already_completed")
    async with steered() as on:
        if end == "warm":
            await on.client.create("a", generate=False)
            response = await on.client.ended("a")
            parent = Running(on, on.client, "a", None, response["id"])  # type: ignore[arg-type]
        elif end == "asked":
            parent = await calling(on, "a")
            await called_out(parent)
            exchange = await on.asked("a", previous_response_id=parent.id, input=[])
            await answer(exchange)
            await on.client.ended("a")
        else:
            parent = await talking(on, "a")
            await _end(parent, end)
        numbers = [e["sequence_number"] for e in on.client.transcript if e["type"] != "error"]
        for _ in range(2):
            assert (await parent.refused())["code"] == codes.get(end, "response_not_active")
        assert numbers
        await on.usable("a")


async def _end(parent: Running, how: str) -> None:
    if how == "steered":
        await parent.steer()
        await (await parent.follows()).finish()
        return
    ends = {"completed": completed(), "incomplete": incomplete(), "failed": failed()}
    await parent.send(ends[how], until=f"response.{how}")


@pytest.mark.parametrize(
    "settings",
    [
        {"conversation": "conv_1"},
        {"conversation": {"id": "conv_1"}},
        {"context_management": [{"type": "compaction", "compact_threshold": 1000}]},
        {"context_management": [{"type": "other"}, {"type": "compaction"}]},
        {"multi_agent": {"enabled": True}},
        {"multi_agent": {"enabled": True, "max_concurrent_subagents": 2}},
    ],
)
async def test_a_response_that_cannot_be_steered(settings: dict[str, Any]) -> None:
    async with steered() as on:
        parent = await talking(on, "a", **settings)
        assert (await parent.refused())["code"] == "steering_not_supported"
        await parent.says("on")
        await parent.send(*closed("abcon"), completed(output=[message("abcon")]))
        await parent.ended()
        assert (await parent.refused())["code"] == "steering_not_supported"


@pytest.mark.parametrize(
    "settings",
    [
        *({"conversation": None}, {"context_management": []}, {"context_management": None}),
        *({"multi_agent": None}, {"multi_agent": {}}, {"multi_agent": {"enabled": False}}),
    ],
)
async def test_a_response_that_can(settings: dict[str, Any]) -> None:
    async with steered() as on:
        parent = await talking(on, "a", **settings)
        await parent.steer()
        await (await parent.follows()).finish()


async def test_a_backend_that_is_not_steerable() -> None:
    async with steered(steerable=False) as on:
        parent = await talking(on, "a")
        assert (await parent.refused())["code"] == "steering_not_supported"
        await untouched(parent)


async def test_the_33rd_submission() -> None:
    async with steered(steer_boundary="item") as on:
        parent = await talking(on, "a")
        for number in range(32):
            await parent.steer(f"s{number}")
        assert (await parent.refused("s32"))["code"] == "too_many_pending_steers"
        await parent.says("on")
        await parent.send(*closed("abcon"))
        await parent.ended("steered")
        successor = await parent.follows()
        assert turns(successor.exchange)[2:] == [("user", f"s{n}") for n in range(32)]
        await successor.finish()


async def test_a_mebibyte_and_one() -> None:
    async with steered(steer_boundary="item") as on:
        parent = await talking(on, "a")
        big = "x" * (1 << 20)
        assert (await parent.refused(big))["code"] == "too_many_pending_steers"
        await parent.steer(big[:-1000])
        assert (await parent.refused("y" * 1000))["code"] == "too_many_pending_steers"
        await parent.steer("z")
        await parent.exchange.send(delta("on"), *closed("abcon"))
        successor = await parent.follows()
        assert turns(successor.exchange)[2:] == [("user", big[:-1000]), ("user", "z")]
        await successor.finish()


async def test_limits_are_per_response() -> None:
    async with steered(max_steers=1, steer_boundary="item") as on:
        first, second = await talking(on, "a"), await talking(on, "b")
        for parent in (first, second):
            await parent.steer("s1")
            assert (await parent.refused("s2"))["code"] == "too_many_pending_steers"
        for parent in (first, second):
            await parent.send(*closed("abc"))
            successor = await parent.follows()
            await successor.finish()


async def test_what_waits_for_the_client_counts_too() -> None:
    async with steered(max_steers=2) as on:
        exchange = await on.asked("a")
        await answer(exchange, call_reply("w"))
        response = await on.client.ended("a")
        parent = Running(on, on.client, "a", exchange, response["id"])
        steers = [await parent.steer("s1"), await parent.steer("s2")]
        await parent.pending(steers[1])
        assert (await parent.refused("s3"))["code"] == "too_many_pending_steers"


async def test_nobody_else_hears_of_it() -> None:
    async with steered() as on, connect(on.url) as other:
        parent, bystander = await talking(on, "a"), await talking(on, "b", client=other)
        await parent.steer("secret")
        await (await parent.follows()).finish()
        await bystander.says("on")
        assert not [e for e in other.transcript if "steer" in e["type"]]
        assert "secret" not in str(other.transcript)
