"""Steers of a response that waits for its client: pending, then in the client's own create."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cases.test_calls import CALLS
from tests.support.calling import CUSTOM, OUTPUT, STUB, called_out, calling
from tests.support.events import (
    call,
    called,
    completed,
    created,
    delta,
    event,
    incomplete,
    item_added,
    item_done,
    opened,
)
from tests.support.gateway_stand import answer
from tests.support.steered import began, begin, steered, talking, turns


async def test_a_call_is_never_cut_and_its_steers_wait() -> None:
    async with steered() as on:
        parent = await calling(on)
        first, second = await parent.steer("s1"), await parent.steer("s2")
        response = await called_out(parent)
        assert response["output"][0]["arguments"] == "{}"
        assert await parent.pending(first, second) == [STUB]
        await on.client.create("a", previous_response_id=parent.id, input=[OUTPUT])
        successor = await began(on, "a")
        assert turns(successor.exchange) == [
            ("user", "hi"),
            ("function_call", "c1"),
            ("user", "s1"),
            ("user", "s2"),
            ("function_call_output", "c1"),
        ]
        await successor.finish()


async def test_text_after_a_finished_call_is_not_cut_either() -> None:
    async with steered() as on:
        parent = await begin(on, "a", *called("w"), *opened("m1", 1), delta("so", "m1", 1))
        await on.client.until("response.output_text.delta", lane="a")
        steer = await parent.steer()
        await parent.send(delta("on", "m1", 1), until="response.output_text.delta")
        await parent.exchange.send(completed("r1"))
        assert len((await parent.ended())["output"]) == 2
        assert await parent.pending(steer) == [STUB]


async def test_custom_input_is_never_cut() -> None:
    async with steered() as on:
        parent = await begin(on, "a", item_added({**CUSTOM, "input": ""}))
        await on.client.until("response.output_item.added", lane="a")
        steer = await parent.steer()
        place = {"item_id": "t1", "output_index": 0}
        rest = event("response.custom_tool_call_input.delta", **place, delta="go")
        await parent.send(rest, until="response.custom_tool_call_input.delta")
        await parent.exchange.send(item_done({**CUSTOM, "input": "go"}), completed())
        await parent.ended()
        [stub] = await parent.pending(steer)
        assert stub == {"type": "custom_tool_call_output", "call_id": "c2"}


_STUBS: dict[str, tuple[str, set[str]]] = {
    "function": ("function_call_output", {"call_id", "name"}),
    "custom": ("custom_tool_call_output", {"call_id"}),
    "computer": ("computer_call_output", {"call_id"}),
    "shell": ("shell_call_output", {"call_id"}),
    "patch": ("apply_patch_call_output", {"call_id"}),
    "search": ("tool_search_output", {"call_id", "execution"}),
    "approval": ("mcp_approval_response", {"approval_request_id"}),
}
SEVEN: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    **{kind: CALLS[kind] for kind in ("function", "custom", "computer", "shell", "patch")},
    "search": (
        {
            "type": "tool_search_call",
            "id": "ts1",
            "call_id": "c1",
            "execution": "client",
            "arguments": {},
            "status": "completed",
        },
        {"execution": "client", "tools": []},
    ),
    "approval": (
        {
            "type": "mcp_approval_request",
            "id": "ap1",
            "server_label": "s",
            "name": "n",
            "arguments": "{}",
        },
        {"approve": True},
    ),
}


@pytest.mark.parametrize("kind", SEVEN)
async def test_what_the_client_owes_is_asked_for(kind: str) -> None:
    item, result = SEVEN[kind]
    async with steered() as on:
        parent = await begin(on, "a", *opened(), delta("x"))
        await on.client.until("response.output_text.delta", lane="a")
        await parent.exchange.send(item_done(item, 1), completed("r1"))
        response = await parent.ended()
        steer = await parent.steer("s1")
        [stub] = await parent.pending(steer)
        output, keys = _STUBS[kind]
        assert (stub["type"], set(stub) - {"type"}) == (output, keys)
        key = "approval_request_id" if kind == "approval" else "call_id"
        assert stub[key] == response["output"][1]["id" if kind == "approval" else "call_id"]
        await on.client.create("a", previous_response_id=parent.id, input=[{**result, **stub}])
        successor = await began(on, "a")
        assert successor.exchange.input[-2]["content"][0]["text"] == "s1"
        assert successor.exchange.input[-1].items() >= stub.items()
        await successor.finish()


async def test_b27_calls_of_two_kinds_are_both_asked_for() -> None:
    async with steered() as on:
        custom = item_done({**CUSTOM, "input": "go"}, 0)
        parent = await begin(on, "a", custom, *called("w", index=1), completed())
        await parent.ended()
        steer = await parent.steer("s1")
        stubs = await parent.pending(steer)
        assert stubs == [{"type": "custom_tool_call_output", "call_id": "c2"}, STUB]
        results = [{**stub, "output": "x"} for stub in stubs]
        await on.client.create("a", previous_response_id=parent.id, input=results)
        successor = await began(on, "a")
        assert [kind for kind, _ in turns(successor.exchange)[-3:]] == [
            "user",
            "custom_tool_call_output",
            "function_call_output",
        ]
        await successor.finish()


@pytest.mark.parametrize("ending", ["incomplete", "completed"])
async def test_b30_an_unfinished_call_is_not_asked_for(ending: str) -> None:
    half = call("w", '{"city":"Par', status="incomplete")
    ends = {"incomplete": incomplete(), "completed": completed("r1", [half])}
    async with steered() as on:
        parent = await calling(on)
        await parent.steer("s1")
        if ending == "completed":
            await parent.exchange.send(item_done(half))
        await parent.exchange.send(ends[ending])
        await on.client.until(f"response.{ending}", "response.incomplete", lane="a")
        successor = await parent.follows()
        assert turns(successor.exchange) == [("user", "hi"), ("user", "s1")]
        await successor.finish()


async def test_a_finished_call_of_a_cut_short_response_is_asked_for() -> None:
    async with steered() as on:
        parent = await begin(on, "a", *called("w"), *opened("m1", 1), delta("so", "m1", 1))
        await on.client.until("response.output_text.delta", lane="a")
        steer = await parent.steer()
        await parent.exchange.send(incomplete())
        await parent.ended("max_output_tokens")
        assert await parent.pending(steer) == [STUB]


async def test_a_hosted_search_is_not_asked_for() -> None:
    item = {**SEVEN["search"][0], "execution": "server"}
    async with steered() as on:
        parent = await talking(on, "a")
        await parent.exchange.send(item_done(item, 1), completed())
        await parent.ended()
        assert (await parent.refused())["code"] == "response_already_completed"
        exchange = await on.asked("a")
        await answer(exchange, [created(), completed()])
        await on.client.ended("a")


async def test_a_call_that_the_backend_answers_itself_is_not_asked_for() -> None:
    shell, output = (
        {**CALLS["shell"][0]},
        {**CALLS["shell"][1], "id": "sho1", "status": "completed"},
    )
    shell["environment"] = {"type": "container_reference", "container_id": "cntr_1"}
    async with steered() as on:
        parent = await begin(on, "a", item_added({**shell, "status": "in_progress"}))
        await on.client.until("response.output_item.added", lane="a")
        steer = await parent.steer("s1")
        await parent.send(item_done(shell), until="response.output_item.done")
        await parent.exchange.send(item_added(output, 1), item_done(output, 1))
        await parent.ended("steered")
        successor = await parent.follows()
        assert turns(successor.exchange)[1:] == [
            ("shell_call", "c1"),
            ("shell_call_output", "c1"),
            ("user", "s1"),
        ]
        await successor.finish()
        assert on.client.judge is not None
        assert on.client.judge.steers.steers[steer].fate == "committed"
