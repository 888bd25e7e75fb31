"""protocol.md 3: item references, and outputs that answer calls of the effective input."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.events import call, call_reply, completed, created, item_done, message, reply
from tests.support.gateway_stand import said, stand, user


def refer(item_id: object, **extra: Any) -> dict[str, Any]:
    return {"type": "item_reference", "id": item_id, **extra}


async def test_a_reference_by_the_id_the_client_saw_becomes_the_item() -> None:
    async with stand() as on:
        _, one = await on.turn("a", reply("first"), input="q")
        shown = one["output"][0]["id"]
        exchange, _ = await on.turn("b", input=[refer(shown), user("and?")])
        assert said(exchange) == ["first", "and?"]
        assert "item_reference" not in str(exchange.body)
        exchange, _ = await on.turn("c", input=[{"id": shown}])
        assert said(exchange) == ["first"]


async def test_a_reference_within_the_chain_repeats_the_item_and_its_calls() -> None:
    given = {"type": "function_call_output", "call_id": "c1", "output": "x"}
    async with stand() as on:
        _, one = await on.turn("a", call_reply("w"))
        asked = one["output"][0]["id"]
        exchange, _ = await on.turn("b", input=[user("q"), refer(asked), given])
        assert [item.get("type") for item in exchange.input][1:] == [
            "function_call",
            "function_call_output",
        ]
        assert exchange.input[1]["call_id"] == "c1"


async def test_a_reference_to_an_item_of_the_clients_own() -> None:
    own = {"type": "message", "role": "user", "id": "msg_mine", "content": "mine", "x": None}
    async with stand() as on:
        await on.turn("a", input=[own])
        exchange, _ = await on.turn("a", input=[refer("msg_mine")])
        assert exchange.input == [own]


@pytest.mark.parametrize("bad", ["msg_gone", "", "m1", None, 5])
async def test_an_unknown_reference_is_a_400_and_evicts(bad: object) -> None:
    async with stand() as on:
        _, one = await on.turn("a", reply("ok"))  # whose item the upstream calls m1
        refused = await on.refused("b", previous_response_id=one["id"], input=[refer(bad)])
        assert (refused["status"], refused["error"]["param"]) == (400, "input")
        if isinstance(bad, str):
            assert f"'{bad}'" in refused["error"]["message"]
        assert await on.known(one["id"])
        await on.refused("a", previous_response_id=one["id"], input=[refer(bad)])
        assert not await on.known(one["id"])
        await on.usable("a")


@pytest.mark.parametrize(
    "ghost",
    [
        {"type": "function_call_output", "call_id": "nope", "output": "x"},
        {"type": "custom_tool_call_output", "call_id": "nope", "output": "x"},
        {"type": "zebra_call_output", "call_id": "nope"},
        {"type": "mcp_approval_response", "approval_request_id": "nope", "approve": True},
    ],
)
async def test_an_output_of_no_known_call_is_refused_naming_it(ghost: dict[str, Any]) -> None:
    async with stand() as on:
        for parent in (None, (await on.turn("a", call_reply("w")))[1]["id"]):
            refused = await on.refused("b", previous_response_id=parent, input=[ghost])
            assert (refused["status"], refused["error"]["param"]) == (400, "input")
            assert "nope" in refused["error"]["message"]
        await on.usable("b")


async def test_an_output_may_come_with_its_own_call() -> None:
    turn = [call("w"), {"type": "function_call_output", "call_id": "c1", "output": "x"}]
    async with stand() as on:
        exchange, _ = await on.turn("a", input=turn)
        assert exchange.input == turn


async def test_an_unknown_output_type_passes_when_its_call_is_known() -> None:
    asked = {"type": "zebra_call", "id": "z1", "call_id": "c7", "stripes": [None, 0]}
    given = {"type": "zebra_call_output", "call_id": "c7", "stripes": []}
    async with stand() as on:
        on.client.judge = None  # it knows no items that its SDK does not
        _, one = await on.turn("a", [created(), item_done(asked), completed("r1", [asked])])
        exchange, _ = await on.turn("a", previous_response_id=one["id"], input=[given])
        assert exchange.input[1:] == [asked, given]


async def test_a_tool_loop_of_five_turns() -> None:
    async with stand() as on:
        _, response = await on.turn("a", call_reply("w", '{"n":0}', "c0"), input="go")
        for n in range(1, 5):
            given = {"type": "function_call_output", "call_id": f"c{n - 1}", "output": f"r{n - 1}"}
            exchange, response = await on.turn(
                "a",
                call_reply("w", f'{{"n":{n}}}', f"c{n}"),
                previous_response_id=response["id"],
                input=[given],
            )
            assert response["output"][0]["call_id"] == f"c{n}"
        calls = [item["arguments"] for item in exchange.input if "arguments" in item]
        results = [item["output"] for item in exchange.input if "output" in item]
        assert calls == [f'{{"n":{n}}}' for n in range(4)]
        assert results == [f"r{n}" for n in range(4)]


async def test_a_conversations_outputs_are_the_backends_to_know() -> None:
    given = {"type": "function_call_output", "call_id": "there", "output": "x"}
    async with stand() as on:
        _, one = await on.turn("a", reply("known"), conversation="conv_1", store=True)
        named = [given, refer("msg_there"), refer(one["output"][0]["id"])]
        exchange, _ = await on.turn("a", conversation="conv_1", input=named, store=True)
        assert exchange.input[:2] == named[:2]
        assert said(exchange) == ["known"]
        assert exchange.body["store"] is True


async def test_a_message_is_replayed_with_what_its_backend_added() -> None:
    whole = {**message("hi"), "phase": "final_answer", "x": [], "n": None}
    async with stand() as on:
        _, one = await on.turn("a", [created(), item_done(whole), completed("r1", [whole])])
        exchange, _ = await on.turn("a", previous_response_id=one["id"])
        assert exchange.input[1] == whole
