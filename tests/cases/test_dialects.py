"""Every dialect end to end: its tape, continued and steered, and a judge of what it is asked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.dialects.strict import refuses
from tests.dialects.test_tapes import ENDS, reads
from tests.support.dialect_reading import dialect_of, received
from tests.support.gateway_stand import stand, user
from tests.support.steered import Running, steered

if TYPE_CHECKING:
    from tests.support.client import Event

PARENTS = [name for name in ENDS if ENDS[name][0] in ("completed", "incomplete")]


def owed(response: Event) -> list[Event]:
    return [
        {"type": "function_call_output", "call_id": item["call_id"], "output": "done"}
        for item in response["output"]
        if item["type"] == "function_call"
    ]


@pytest.mark.parametrize("name", PARENTS)
async def test_a_continuation_is_what_the_backend_takes(name: str) -> None:
    dialect = dialect_of(name).name
    async with stand(dialect=dialect) as on:
        _, response = await on.turn("a", reads(name), input="hi")
        again = [*owed(response), user("go on")]
        exchange, _ = await on.turn("a", previous_response_id=response["id"], input=again)
        assert refuses(dialect, exchange.body) is None
        assert exchange.path == "/v1/responses"
        # Without new input, too, though some would go on within the last message.
        last, _ = await on.turn("b", previous_response_id=response["id"], input=owed(response))
        assert refuses(dialect, last.body) is None


@pytest.mark.parametrize("name", PARENTS)
async def test_a_steer_makes_a_request_that_the_backend_takes(name: str) -> None:
    """In the middle of the body: what was said goes back, and the steer after it."""
    dialect, events = dialect_of(name).name, received(reads(name))
    blocks = [b"data: " + data + b"\n\n" for _, data in events]
    half = len(blocks) * 2 // 3
    async with steered(dialect=dialect) as on:
        exchange = await on.asked("a", input="hi")
        await exchange.send(*blocks[:half])
        first = (await on.client.until("response.created", lane="a"))[-1]["response"]
        parent = Running(on, on.client, "a", exchange, first["id"])
        await parent.steer("shorter")
        if not exchange.closed.is_set():
            await _send(parent, blocks[half:])
        end = await on.client.ended("a")
        if any(item["type"] == "function_call" for item in end["output"]):
            await on.client.until("response.steer.pending", lane="a")
            await on.client.create("a", previous_response_id=first["id"], input=owed(end))
        successor = await on.fake.next()
        assert refuses(dialect, successor.body) is None
        assert "shorter" in str(successor.input)
        await successor.send(*reads("friendli_text.sse"))
        await successor.end()
        assert (await on.client.ended("a"))["status"] == "completed"


async def _send(parent: Running, blocks: list[bytes]) -> None:
    """The rest of the body, unless the gateway has hung up already."""
    try:
        await parent.exchange.send(*blocks)
        await parent.exchange.end()
    except ConnectionResetError:
        assert parent.exchange.closed.is_set() or parent.exchange.transport.is_closing()


SEARCH = {"type": "web_search"}
REFUSED: list[tuple[str, dict[str, Any], str, int]] = [
    ("vllm", {"conversation": "conv_1"}, "conversation", 404),
    (
        "llamacpp",
        {"tools": [{"type": "web_search"}], "tool_choice": "required"},
        "tool_choice",
        400,
    ),
]


@pytest.mark.parametrize(("dialect", "fields", "param", "status"), REFUSED)
async def test_what_a_backend_could_make_nothing_of_is_an_error(
    dialect: str, fields: dict[str, Any], param: str, status: int
) -> None:
    async with stand(dialect=dialect) as on:
        _, parent = await on.turn("a")
        error = await on.refused("a", **fields)
        assert (error["status"], error["error"]["param"]) == (status, param)
        assert error["error"]["type"] == "invalid_request_error"
        await on.usable("a")
        if "conversation" not in fields:
            _, parent = await on.turn("a")
            await on.refused("a", previous_response_id=parent["id"], **fields)
            # As by any 4xx of a continuation on its own lane.
            assert not await on.known(parent["id"])


async def test_ollamas_reasoning_goes_back_to_it_and_not_to_the_client() -> None:
    async with stand(dialect="ollama") as on:
        _, first = await on.turn("a", reads("ollama_text_tool.sse"), store=False)
        assert "encrypted_content" not in str(first)
        given = owed(first)
        exchange, _ = await on.turn("a", previous_response_id=first["id"], input=given)
        kinds = [item["type"] for item in exchange.input]
        assert kinds == ["message", "reasoning", "message", "function_call", "function_call_output"]
        assert exchange.input[1]["encrypted_content"] == "Need the tool."
