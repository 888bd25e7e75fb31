"""protocol.md 8: a create that is bound to a conversation, over a socket and over HTTP."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from tests.support.client import connect
from tests.support.conversations import ask, begin, texts
from tests.support.events import call_reply, created, failed, reply
from tests.support.gateway_stand import answer, not_found, said, stand, user
from tests.support.http_client import posted

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.support.gateway_stand import Stand

Json = dict[str, Any]


@asynccontextmanager
async def bound(*items: Json, **settings: Any) -> AsyncIterator[tuple[Stand, str]]:
    async with stand(**settings) as on:
        yield on, await begin(on, *items)


@pytest.mark.parametrize("dialect", ["openai", "vllm", "llamacpp"])
async def test_items_go_in_front_and_input_and_output_are_added(dialect: str) -> None:
    async with bound(user("before"), dialect=dialect) as (on, name):
        exchange, one = await on.turn("a", reply("first"), conversation=name, input="one")
        assert said(exchange) == ["before", "one"]
        assert "conversation" not in exchange.body
        assert one["conversation"] == {"id": name}
        assert await texts(on, name) == ["before", "one", "first"]
        exchange, _ = await on.turn("b", reply("second"), conversation={"id": name}, input="two")
        assert said(exchange) == ["before", "one", "first", "two"]
        assert await texts(on, name) == ["before", "one", "first", "two", "second"]


async def _post(on: Stand, create: Json) -> None:
    async with posted(on.url, create) as answered:
        assert answered.status == 200
        await (answered.events() if create["stream"] else answered.json())


async def test_both_faces_share_it() -> None:
    async with bound() as (on, name):
        await on.turn("a", reply("first"), conversation=name, input="one")
        for stream in (True, False):
            create = {"model": "m", "input": "two", "conversation": name, "stream": stream}
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(_post, on, create)
                exchange = await on.fake.next()
                await answer(exchange, reply("second"))
            assert said(exchange)[:3] == ["one", "first", "two"]
        assert await texts(on, name) == ["one", "first", "two", "second", "two", "second"]


async def test_a_turn_is_there_before_its_end_is_sent() -> None:
    async with bound() as (on, name):
        for turn in range(5):
            await on.turn("a", reply(f"r{turn}"), conversation=name, input=f"q{turn}")
            assert await texts(on, name) == [f"{c}{n}" for n in range(turn + 1) for c in "qr"]


async def test_two_lanes_add_whole_turns_in_the_order_in_which_they_complete() -> None:
    async with bound() as (on, name):
        one = await on.asked("a", conversation=name, input="a asks")
        two = await on.asked("b", conversation=name, input="b asks")
        assert (said(one), said(two)) == (["a asks"], ["b asks"])
        await answer(two, reply("to b"))
        await on.client.ended("b")
        await answer(one, reply("to a"))
        await on.client.ended("a")
        assert await texts(on, name) == ["b asks", "to b", "a asks", "to a"]


async def test_a_failed_response_adds_nothing() -> None:
    async with bound(user("before")) as (on, name):
        await on.turn("a", [created(), failed()], conversation=name, input="one")
        assert await texts(on, name) == ["before"]
        await on.turn("a", reply("ok"), conversation=name, input="two", store=False)
        assert await texts(on, name) == ["before", "two", "ok"]


async def test_a_warm_up_adds_its_input() -> None:
    async with bound() as (on, name):
        await on.client.create("a", conversation=name, input="warm", generate=False)
        await on.client.ended("a")
        exchange, _ = await on.turn("a", conversation=name, input="go")
        assert said(exchange) == ["warm", "go"]


async def test_outputs_answer_calls_of_the_conversation_and_no_others() -> None:
    given = {"type": "function_call_output", "call_id": "c1", "output": "x"}
    async with bound() as (on, name):
        refused = await on.refused("a", conversation=name, input=[given])
        assert (refused["status"], refused["error"]["param"]) == (400, "input")
        await on.turn("a", call_reply("w"), conversation=name, input="go")
        exchange, _ = await on.turn("b", conversation=name, input=[given])
        kinds = [item.get("type") for item in exchange.input]
        assert kinds == ["message", "function_call", "function_call_output"]
        _, listed = await ask(on, "GET", f"/{name}/items?order=asc")
        assert [item["type"] for item in listed["data"]] == [*kinds, "message"]
        assert all(item["status"] == "completed" for item in listed["data"])


async def test_a_reference_names_an_item_of_the_conversation() -> None:
    async with bound(user("kept")) as (on, name):
        _, listed = await ask(on, "GET", f"/{name}/items")
        named = {"type": "item_reference", "id": listed["data"][0]["id"]}
        exchange, _ = await on.turn("a", conversation=name, input=[named])
        assert said(exchange) == ["kept", "kept"]
        _, listed = await ask(on, "GET", f"/{name}/items")
        assert len({item["id"] for item in listed["data"]}) == 3
        refused = await on.refused("a", conversation=name, input=[{**named, "id": "msg_gone"}])
        assert refused["status"] == 400


async def test_it_cannot_be_steered() -> None:
    async with bound() as (on, name):
        exchange = await on.asked("a", conversation=name)
        await exchange.send(*reply("ok")[:1])
        begun = (await on.client.until("response.created", lane="a"))[-1]
        await on.client.steer(begun["response"]["id"], "no")
        refused = (await on.client.until("response.steer.failed", lane="a"))[-1]
        assert refused["error"]["code"] == "steering_not_supported"
        await answer(exchange, reply("ok")[1:])
        await on.client.ended("a")


@pytest.mark.parametrize("dialect", ["openai", "vllm"])
async def test_an_unknown_conversation_is_a_404(dialect: str) -> None:
    async with stand(dialect=dialect) as on:
        names = ["conv_" + "0" * 32] + (["conv_1", "conv_" + "0" * 48] if dialect == "vllm" else [])
        for name in names:
            refused = await on.refused("a", conversation=name)
            assert refused["status"] == 404
            assert refused["error"]["code"] == "conversation_not_found"
            assert refused["error"]["param"] == "conversation"
        await on.usable("a")


async def test_a_conversation_that_is_deleted_meanwhile_takes_nothing() -> None:
    async with bound() as (on, name):
        exchange = await on.asked("a", conversation=name)
        status, gone = await ask(on, "DELETE", f"/{name}")
        assert (status, gone["object"], gone["deleted"]) == (200, "conversation.deleted", True)
        await answer(exchange)
        assert (await on.client.ended("a"))["status"] == "completed"
        assert (await ask(on, "GET", f"/{name}"))[0] == 404
        refused = await on.refused("a", conversation=name)
        assert refused["status"] == 404


async def test_a_response_of_it_is_continued_with_all_that_it_built_on() -> None:
    async with bound(user("before")) as (on, name):
        _, one = await on.turn("a", reply("first"), conversation=name, input="one")
        await on.turn("b", reply("other"), conversation=name, input="two")
        exchange, _ = await on.turn("a", previous_response_id=one["id"], input="three")
        assert said(exchange) == ["before", "one", "first", "three"]
        assert await texts(on, name) == ["before", "one", "first", "two", "other"]


async def test_a_response_of_it_is_continued_from_another_connection() -> None:
    async with bound(user("before")) as (on, name):
        _, one = await on.turn("a", reply("first"), conversation=name, store=True, input="one")
        _, two = await on.turn("b", reply("other"), conversation=name, store=True, input="two")
        await on.client.create("w", conversation=name, store=True, input="warm", generate=False)
        warm = await on.client.ended("w")
        async with connect(on.url) as client:
            for parent, told in (
                (one, ["before", "one", "first"]),
                (two, ["before", "one", "first", "two", "other"]),
                (warm, ["before", "one", "first", "two", "other", "warm"]),
            ):
                await client.create(
                    "x", previous_response_id=parent["id"], store=True, input="three"
                )
                exchange = await on.fake.next()
                assert said(exchange) == [*told, "three"]
                assert len(exchange.input) == len(told) + 1
                await answer(exchange, reply("fourth"))
                ended = await client.ended("x")
            await ask(on, "DELETE", f"/{name}")
        async with connect(on.url) as client:
            for parent in (one, ended):
                await client.create("x", previous_response_id=parent["id"])
                not_found(await client.error("x"), parent["id"])


async def test_a_conversation_that_is_full() -> None:
    async with bound(*[user(f"{n}") for n in range(3)], max_chain=5) as (on, name):
        refused = await on.refused("a", conversation=name, input=[user("x")] * 3)
        assert refused["error"]["code"] == "conversation_too_large"
        assert (refused["status"], refused["error"]["param"]) == (400, "input")
        await on.turn("a", conversation=name, input=[user("x")] * 2)
        refused = await on.refused("a", conversation=name)
        assert refused["error"]["code"] == "conversation_too_large"
        assert refused["error"]["param"] == "conversation"
