"""`truncation: auto` where a backend says that the input is too long (protocol.md 9)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.support.events import created, data, failed, reply
from tests.support.gateway_stand import answer, said, stand, user

if TYPE_CHECKING:
    from tests.support.exchange import Exchange

SYSTEM = {"role": "system", "content": "Be brief."}
#: Eight turns of one length, each with a call in it.
TURNS: list[dict[str, Any]] = [
    item
    for n in range(8)
    for item in (
        user(f"turn {n}"),
        {"type": "function_call", "call_id": f"c{n}", "name": "f", "arguments": "{}"},
        {"type": "function_call_output", "call_id": f"c{n}", "output": "x"},
        {"role": "assistant", "content": f"answer {n}"},
    )
]
HISTORY = [SYSTEM, *TURNS, user("last")]
#: How backends say it.
REFUSALS: list[tuple[int, dict[str, Any]]] = [
    (400, {"error": {"code": "context_length_exceeded", "message": "Too long."}}),
    (400, {"error": {"message": "This model's maximum context length is 8192 tokens."}}),
    (400, {"object": "error", "message": "maximum context length is 10", "code": 400}),
    (400, {"error": {"type": "exceed_context_size_error", "message": "x", "n_ctx": 4096}}),
    (500, {"error": "input is larger than the context size"}),
    (413, {"error": {"message": "The prompt exceeds the context window"}}),
]
STREAMED = [
    [created(), failed(message="Your input exceeds the context window", code="x")],
    [created(), failed(message="Too long.", code="context_length_exceeded")],
    [data({"type": "error", "code": "context_length_exceeded", "message": "Too long."})],
    [created(), data({"error": {"message": "maximum context length is 10", "code": 400}})],
]


async def refuse(exchange: Exchange, how: Any) -> None:
    if isinstance(how, list):
        await answer(exchange, how)
    else:
        await exchange.reply(*how)


@pytest.mark.parametrize("how", [*REFUSALS, *STREAMED])
async def test_the_oldest_turns_are_left_out(how: Any) -> None:
    async with stand(retries=0) as on:
        await on.client.create(input=HISTORY, truncation="auto")
        exchange = await on.fake.next()
        assert len(exchange.input) == len(HISTORY)
        await refuse(exchange, how)
        exchange = await on.fake.next()
        texts = said(exchange)
        assert texts[0] == "Be brief."
        assert texts[1].startswith("turn ")
        assert texts[-1] == "last"
        assert 1 < int(texts[1][5:]) < 5
        calls = [item["call_id"] for item in exchange.input if "call_id" in item]
        assert calls[::2] == calls[1::2]
        await answer(exchange)
        response = await on.client.ended()
        assert response["status"] == "completed"
        kinds = [event["type"] for event in on.client.transcript]
        assert kinds.count("response.created") == 1


async def test_it_gives_up_after_the_last_turn_alone() -> None:
    async with stand(retries=0) as on:
        await on.client.create("a", input=HISTORY, truncation="auto")
        asked = []
        for _ in range(5):
            exchange = await on.fake.next()
            asked.append(len(exchange.input))
            await exchange.reply(*REFUSALS[0])
        error = await on.client.error("a")
        assert error["error"]["code"] == "context_length_exceeded"
        assert asked == sorted(asked, reverse=True)
        assert asked[-1] == 2
        assert len(on.fake.exchanges) == 5
        await on.usable("a")


@pytest.mark.parametrize("truncation", [None, "disabled"])
async def test_it_has_to_be_asked_for(truncation: str | None) -> None:
    async with stand(retries=0) as on:
        await on.client.create(input=HISTORY, truncation=truncation)
        await (await on.fake.next()).reply(*REFUSALS[0])
        error = await on.client.error()
        assert error["error"]["code"] == "context_length_exceeded"
        assert len(on.fake.exchanges) == 1


async def test_other_errors_are_not_asked_again() -> None:
    async with stand(retries=0) as on:
        await on.client.create(input=HISTORY, truncation="auto")
        await (await on.fake.next()).reply(400, {"error": {"message": "no such tool"}})
        assert (await on.client.error())["status"] == 400
        assert len(on.fake.exchanges) == 1


async def test_what_was_said_is_not_taken_back() -> None:
    async with stand(retries=0) as on:
        await on.client.create(input=HISTORY, truncation="auto")
        exchange = await on.fake.next()
        await exchange.send(*reply("some")[:-1])
        await on.client.until("response.output_text.delta")
        await exchange.send(failed(message="Too long.", code="context_length_exceeded"))
        await exchange.end()
        response = await on.client.ended()
        assert response["status"] == "failed"
        assert len(on.fake.exchanges) == 1


async def test_a_stream_that_breaks_off_at_once() -> None:
    async with stand(retries=0) as on:
        await on.client.create(input=HISTORY, truncation="auto")
        exchange = await on.fake.next()
        await exchange.send(created())
        exchange.cut()
        assert (await on.client.ended())["status"] == "failed"


async def test_a_summary_that_is_too_long_to_ask_for() -> None:
    async with stand(retries=0) as on:
        history = [user("turn"), *TURNS[1:]]
        await on.client.create(input=[*history, {"type": "compaction_trigger"}])
        exchange = await on.fake.next()
        await exchange.reply(*REFUSALS[0])
        exchange = await on.fake.next()
        assert 4 < len(exchange.input) < len(history)
        await answer(exchange)
        assert (await on.client.ended())["output"][0]["type"] == "compaction"
