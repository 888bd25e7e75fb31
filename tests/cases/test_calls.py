"""field-cases.md 4: calls and what answers them, of every kind, however far back."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.events import (
    call,
    call_reply,
    completed,
    created,
    incomplete,
    item_added,
    item_done,
    reply,
)
from tests.support.gateway_stand import stand, user

CALLS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "function": (call("w"), {"type": "function_call_output", "call_id": "c1", "output": "x"}),
    "custom": (
        {"type": "custom_tool_call", "id": "t1", "call_id": "c1", "name": "w", "input": "go"},
        {"type": "custom_tool_call_output", "call_id": "c1", "output": "x"},
    ),
    "computer": (
        {
            "type": "computer_call",
            "id": "cu1",
            "call_id": "c1",
            "status": "completed",
            "pending_safety_checks": [],
            "action": {"type": "screenshot"},
        },
        {
            "type": "computer_call_output",
            "call_id": "c1",
            "output": {"type": "computer_screenshot", "image_url": "data:,"},
        },
    ),
    "shell": (
        {
            "type": "shell_call",
            "id": "sh1",
            "call_id": "c1",
            "status": "completed",
            "action": {"commands": ["ls"], "max_output_length": 9, "timeout_ms": 9},
            "environment": {"type": "local"},
        },
        {"type": "shell_call_output", "call_id": "c1", "output": [], "max_output_length": 9},
    ),
    "patch": (
        {
            "type": "apply_patch_call",
            "id": "p1",
            "call_id": "c1",
            "status": "completed",
            "operation": {"type": "delete_file", "path": "x"},
        },
        {"type": "apply_patch_call_output", "call_id": "c1", "status": "completed"},
    ),
}


@pytest.mark.parametrize("kind", CALLS)
async def test_b27_every_client_owned_call_is_answered(kind: str) -> None:
    asked, given = CALLS[kind]
    chunks = [created(), item_added(asked), item_done(asked), completed("r1", [asked])]
    async with stand() as on:
        _, one = await on.turn("a", chunks)
        assert one["output"][0]["call_id"] == "c1"
        second, _ = await on.turn("a", previous_response_id=one["id"], input=[given])
        assert [item["type"] for item in second.input[1:]] == [asked["type"], given["type"]]
        assert second.input[-1] == given


@pytest.mark.parametrize("kind", ["mcp", "shell"])
async def test_b27_what_names_a_call_by_its_id_names_it_upstream_too(kind: str) -> None:
    asked: dict[str, Any] = {"id": "theirs", "server_label": "s", "name": "w", "arguments": "{}"}
    asked["type"] = "mcp_approval_request"
    given: dict[str, Any] = {"type": "mcp_approval_response", "approve": True}
    name = "approval_request_id"
    if kind == "shell":
        action = {"type": "exec", "command": ["ls"], "env": {}}
        asked = {"id": "theirs", "type": "local_shell_call", "call_id": "c1", "action": action}
        asked["status"] = "completed"
        given, name = {"type": "local_shell_call_output", "output": "x"}, "id"
    chunks = [created(), item_added(asked), item_done(asked), completed("r1", [asked])]
    async with stand() as on:
        _, one = await on.turn("a", chunks)
        shown = one["output"][0]["id"]
        assert shown != "theirs"
        second, _ = await on.turn(
            "a", previous_response_id=one["id"], input=[{**given, name: shown}]
        )
        replayed, answered = second.input[1:]
        assert replayed["id"] == answered[name]


async def test_b27_two_calls_of_different_kinds_in_one_turn() -> None:
    (custom, custom_out), (plain, _) = CALLS["custom"], CALLS["function"]
    plain = {**plain, "call_id": "c2", "id": "f2"}
    plain_out = {"type": "function_call_output", "call_id": "c2", "output": "y"}
    chunks = [created(), item_done(custom, 0), item_done(plain, 1)]
    async with stand() as on:
        _, one = await on.turn("a", [*chunks, completed("r1", [custom, plain])])
        given = [custom_out, plain_out]
        second, _ = await on.turn("a", previous_response_id=one["id"], input=given)
        assert second.input[-2:] == given


async def test_b28_a_call_two_responses_earlier_is_found() -> None:
    late = {"type": "function_call_output", "call_id": "c1", "output": "late"}
    async with stand() as on:
        _, one = await on.turn("a", call_reply("w"))
        _, two = await on.turn("a", previous_response_id=one["id"], input=[user("wait")])
        third, three = await on.turn("a", previous_response_id=two["id"], input=[late])
        assert third.input[-1] == late
        assert three["status"] == "completed"


async def test_b28_a_ghost_is_refused_by_name_and_evicts_its_parent() -> None:
    ghost = {"type": "function_call_output", "call_id": "ghost", "output": "boo"}
    async with stand() as on:
        _, one = await on.turn("a", call_reply("w"))
        other = await on.asked("b")
        refused = await on.refused("a", previous_response_id=one["id"], input=[ghost])
        assert refused["status"] == 400
        assert refused["error"]["param"] == "input"
        assert "ghost" in refused["error"]["message"]
        gone = await on.refused("a", previous_response_id=one["id"])
        assert gone["error"]["code"] == "previous_response_not_found"
        await other.send(*reply("unharmed"))
        await other.end()
        assert (await on.client.ended("b"))["status"] == "completed"


async def test_b28_an_output_on_another_branch_is_unknown_there() -> None:
    given = {"type": "function_call_output", "call_id": "c1", "output": "x"}
    async with stand() as on:
        _, root = await on.turn("a")
        await on.turn("a", call_reply("w"), previous_response_id=root["id"])
        _, branch = await on.turn("b", previous_response_id=root["id"])
        refused = await on.refused("b", previous_response_id=branch["id"], input=[given])
        assert "c1" in refused["error"]["message"]


async def test_b30_cut_arguments_pass_as_they_are() -> None:
    cut = call("w", '{"city":"Par', status="incomplete")
    chunks = [created(), item_added({**cut, "arguments": ""}), item_done(cut)]
    async with stand() as on:
        _, one = await on.turn("a", [*chunks, incomplete("r1", output=[cut])])
        assert one["status"] == "incomplete"
        assert one["output"][0]["arguments"] == '{"city":"Par'
        assert one["output"][0]["status"] == "incomplete"
        second, two = await on.turn("a", previous_response_id=one["id"], input=[user("go on")])
        assert two["status"] == "completed"
        assert [item.get("type", "message") for item in second.input] == ["message", "message"]
