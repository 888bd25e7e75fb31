"""A part of the history that a backend refuses is left out, and it is asked once more (D23)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.dialects.chatting import body, chunk, counted, text
from tests.support.events import (
    closed,
    completed,
    created,
    data,
    delta,
    event,
    in_progress,
    item_added,
    item_done,
    opened,
    reply,
)
from tests.support.gateway_stand import Stand, answer, said, stand, user
from tests.support.several_upstreams import several

if TYPE_CHECKING:
    from tests.support.exchange import Exchange

Item = dict[str, Any]

SEALED: Item = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAA"}
CALL: Item = {
    "type": "function_call",
    "id": "fc_1",
    "call_id": "c1",
    "name": "f",
    "arguments": "{}",
}
OUTPUT: Item = {"type": "function_call_output", "call_id": "c1", "output": "ok"}
HISTORY = [user("1"), SEALED, CALL, OUTPUT, user("2")]

CODED: Item = {"code": "invalid_encrypted_content", "type": "invalid_request_error", "param": None}
WORDS = "The encrypted content gAAA could not be verified. Reason: it could not be decrypted."
UNSEALED: list[tuple[int, Item]] = [
    (400, {"error": {**CODED, "message": "no"}}),
    (
        400,
        {"error": {"message": WORDS, "type": "invalid_request_error", "param": None, "code": None}},
    ),
    (400, {"error": {"message": WORDS}}),
    (422, {"detail": WORDS}),
    (500, {"error": {"message": f"litellm.BadRequestError: {WORDS}"}}),
    (400, {"error": {"message": "messages.1.content.0: Invalid `signature` in `thinking` block"}}),
]
GONE: list[tuple[int, Item]] = [
    (404, {"error": {"message": "Item with id 'rs_1' not found. Items are not persisted when "
                                "`store` is set to false.", "param": "input", "code": None}}),
    (400, {"error": {"message": "Item with id 'fc_1' not found.", "code": None}}),
    (400, {"error": {"message": "Previous response with id 'resp_1' not found.",
                     "code": "previous_response_not_found", "param": "previous_response_id"}}),
    (400, {"error": {"message": "Item 'fc_1' of type 'function_call' was provided without its "
                                "required 'reasoning' item: 'rs_1'."}}),
    (400, {"error": {"message": "Item 'rs_1' of type 'reasoning' was provided without its required "
                                "following item."}}),
]  # fmt: skip
OTHERS: list[tuple[int, Item]] = [
    (400, {"error": {"message": "The model does not exist.", "code": "model_not_found"}}),
    (400, {"error": {"message": "No tool output found for function call c1."}}),
    (404, {"error": {"message": "Not found."}}),
    (429, {"error": {"message": "encrypted content: slow down"}}),
]


def is_spared(exchange: Exchange) -> None:
    """The request has the words of the history, and nothing of what was refused."""
    assert "gAAA" not in exchange.raw.decode()
    kinds = [item.get("type", "message") for item in exchange.input]
    assert kinds == ["message", "function_call", "function_call_output", "message"]
    assert said(exchange) == ["1", "2"]


async def _asked_again(on: Stand, refusal: Any) -> Exchange:
    exchange = await on.asked("a", input=HISTORY)
    assert "gAAA" in exchange.raw.decode()
    await refusal(exchange)
    again = await on.fake.next()
    is_spared(again)
    return again


@pytest.mark.parametrize(("status", "refusal"), UNSEALED + GONE)
async def test_a_refusal_by_status(status: int, refusal: Item) -> None:
    async with stand(retries=0) as on:
        again = await _asked_again(on, lambda exchange: exchange.reply(status, refusal))
        if (status, refusal) in GONE:
            assert all("id" not in item for item in again.input)
        await answer(again)
        assert (await on.client.ended("a"))["status"] == "completed"
        assert len(on.fake.exchanges) == 2


def _failed(error: Item) -> bytes:
    return event("response.failed", response={"id": "r", "status": "failed", "error": error})


EVENTS = [
    [b"event: error\n" + data({"type": "error", **CODED, "message": "no"})],
    [b"event: error\n" + data({"type": "error", "error": {**CODED, "message": "no"}})],
    [b"event: error\n" + data({"type": "error", "message": WORDS})],
    [data({"error": {"message": WORDS}})],
    [_failed({"code": "server_error", "message": WORDS})],
    [created() + in_progress() + _failed({"code": "invalid_prompt", "message": WORDS})],
    [
        created()
        + b"event: error\n"
        + data({"type": "error", "message": "Item with id 'rs_1' not found."})
    ],
]


@pytest.mark.parametrize("events", EVENTS)
async def test_a_refusal_by_the_first_event(events: list[bytes]) -> None:
    async def refuse(exchange: Exchange) -> None:
        await answer(exchange, events)

    async with stand(retries=0) as on:
        again = await _asked_again(on, refuse)
        await answer(again)
        assert (await on.client.ended("a"))["status"] == "completed"
        kinds = [one["type"] for one in on.client.transcript]
        assert kinds.count("response.created") == 1
        assert len(on.fake.exchanges) == 2


async def test_it_is_asked_once_more_and_not_again() -> None:
    async with stand(retries=0) as on:
        again = await _asked_again(on, lambda exchange: exchange.reply(*UNSEALED[0]))
        await again.reply(*GONE[0])
        error = await on.client.error("a")
        assert error["status"] == 404
        assert len(on.fake.exchanges) == 2


@pytest.mark.parametrize(("status", "refusal"), [UNSEALED[0], GONE[0], GONE[1]])
async def test_it_costs_one_refusal_and_no_more(status: int, refusal: Item) -> None:
    async with stand(retries=0) as on:
        again = await _asked_again(on, lambda exchange: exchange.reply(status, refusal))
        new = {**SEALED, "id": "rs_2", "encrypted_content": "new"}
        await answer(again, [*sealed_reply(new)])
        first = await on.client.ended("a")
        # The same history from a client that keeps it, and as the parent's.
        exchange = await on.asked("a", input=HISTORY)
        is_spared(exchange)
        await answer(exchange)
        await on.client.ended("a")
        exchange = await on.asked("a", previous_response_id=first["id"], input=[user("3")])
        assert "gAAA" not in exchange.raw.decode()
        assert '"new"' in exchange.raw.decode(), "what it makes since then goes back to it"
        await answer(exchange)
        await on.client.ended("a")
        # Another model may be able to read it.
        exchange = await on.asked("a", model="other", input=HISTORY)
        assert "gAAA" in exchange.raw.decode()
        await answer(exchange)
        await on.client.ended("a")


async def test_what_did_not_help_is_left_in_next_time() -> None:
    async with stand(retries=0) as on:
        for told in (exchange_error, event_error):
            again = await _asked_again(on, lambda exchange: exchange.reply(*UNSEALED[0]))
            await told(again)
            await on.client.error("a")


async def exchange_error(exchange: Exchange) -> None:
    await exchange.reply(400, {"error": {"message": "no"}})


async def event_error(exchange: Exchange) -> None:
    await answer(exchange, [data({"error": {"message": "no"}})])


def sealed_reply(item: Item) -> list[bytes]:
    """An answer with that reasoning before its text."""
    bare = {**item, "encrypted_content": ""}
    text = [*opened(index=1), delta("ok", index=1), *closed("ok", index=1)]
    return [created(), item_added(bare), item_done(item), *text, completed()]


async def test_the_parent_is_there_afterwards() -> None:
    async with stand(retries=0) as on:
        _, first = await on.turn("a", reply("one"), input=HISTORY[:-1])
        exchange = await on.asked("a", previous_response_id=first["id"], input=[user("2")])
        await exchange.reply(*UNSEALED[0])
        again = await on.fake.next()
        assert said(again) == ["1", "one", "2"]
        await answer(again)
        second = await on.client.ended("a")
        for parent in (first, second):
            assert await on.known(parent["id"])


@pytest.mark.parametrize(("status", "refusal"), OTHERS)
async def test_another_fault_is_the_clients(status: int, refusal: Item) -> None:
    async with stand(retries=0) as on:
        exchange = await on.asked("a", input=HISTORY)
        await exchange.reply(status, refusal)
        assert (await on.client.error("a"))["status"] == status
        assert len(on.fake.exchanges) == 1


@pytest.mark.parametrize(
    "items",
    [
        [user("x")],
        [SEALED, user("x")],
        [{"type": "compaction", "encrypted_content": "gAAA"}, user("x")],
    ],
)
async def test_nothing_is_asked_again_where_nothing_can_be_left_out(items: list[Item]) -> None:
    async with stand(retries=0) as on:
        exchange = await on.asked("a", input=items)
        await exchange.reply(*UNSEALED[0])
        error = await on.client.error("a")
        assert error["error"]["code"] == "invalid_encrypted_content"
        exchange = await on.asked("a", input=items)
        await answer(exchange, [created() + _failed({"code": "invalid_prompt", "message": WORDS})])
        ended = await on.client.ended("a")
        assert ended["status"] == "failed"
        assert len(on.fake.exchanges) == 2


async def test_a_fallback_is_asked_without_it_too() -> None:
    tables: dict[str, Item] = {
        "one": {"models": ["m"], "fallbacks": ["two"]},
        "two": {"default": "n", "models": ["n"]},
    }
    async with several(tables) as of:
        exchange = await of["one"].asked("a", model="m", input=HISTORY)
        await exchange.reply(*UNSEALED[0])
        await (await of.fakes["one"].next()).reply(503, {"error": {"message": "away"}})
        exchange = await of.fakes["two"].next()
        is_spared(exchange)
        await answer(exchange)
        assert (await of.client.ended("a"))["status"] == "completed"
        assert of.asked() == {"one": 2, "two": 1}


async def test_a_signature_that_a_chat_backend_does_not_know_any_more() -> None:
    async with stand(dialect="chat", retries=0) as on:
        details = [{"type": "reasoning.text", "text": "hm", "signature": "old", "index": 0}]
        sent = [chunk(reasoning_details=details), *text("a"), chunk("stop"), counted()]
        _, first = await on.turn("a", [body(sent)], input="1")
        exchange = await on.asked("a", previous_response_id=first["id"], input="2")
        assert exchange.body["messages"][1]["reasoning_details"] == details
        await exchange.reply(*UNSEALED[-1])
        again = await on.fake.next()
        assert again.body["messages"][1] == {"role": "assistant", "content": "a"}
        await answer(again, [body([*text("b"), chunk("stop"), counted()])])
        assert (await on.client.ended("a"))["status"] == "completed"
