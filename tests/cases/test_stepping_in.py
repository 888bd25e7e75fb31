"""How a fallback answers: what it is asked for, as whom it is read, and who hears of it (D23)."""

from __future__ import annotations

import logging
from typing import Any

import anyio
import pytest

from tests.cases.test_fallbacks import AWAY, CHAIN, answered, chain
from tests.support.conversations import begin, texts
from tests.support.events import data, opened, reply
from tests.support.exchange import hung_up
from tests.support.gateway_stand import answer, said, user
from tests.support.hang_guard import HANG
from tests.support.several_upstreams import listing, several
from tests.support.steered import began, talking


async def test_the_answer_is_read_as_its_own_backend_sends_it() -> None:
    tables: dict[str, dict[str, Any]] = {
        "first": {"models": ["m"], "fallbacks": ["second"]},
        "second": {"models": ["s"], "default": "s", "dialect": "llamacpp", "steerable": False},
    }
    async with several(tables) as of:
        await (await of["first"].asked("a", model="m", temperature=None)).reply(503, b"busy")
        running = await began(of["second"], "a", *opened())
        assert "temperature" not in running.exchange.body
        assert (await running.refused())["code"] == "steering_not_supported"
        running.exchange.cut()


async def test_a_conversation_is_one_backends_own() -> None:
    async with several(CHAIN) as of:
        exchange = await of["first"].asked("a", model="m", conversation="conv_1")
        await exchange.reply(503, b"busy")
        assert (await of.client.error("a"))["status"] == 503
        assert of.asked() == {"first": 1, "second": 0, "third": 0}


async def test_a_conversation_of_the_gateways_is_everybodys() -> None:
    async with several(CHAIN) as of:
        name = await begin(of["first"], user("before"))
        await (await of["first"].asked("a", model="m", conversation=name)).reply(503, b"busy")
        exchange = await of.fakes["second"].next()
        assert said(exchange) == ["before", "hi"]
        await answer(exchange, reply("from the second"))
        await of.client.ended("a")
        assert await texts(of["first"], name) == ["before", "hi", "from the second"]


async def test_what_a_fallback_is_asked_for() -> None:
    tables: dict[str, dict[str, Any]] = {
        "first": {"models": ["m"], "aliases": {"fast": "m"}, "url": AWAY},
        "pattern": {"models": ["f*"], "default": "d"},
        "meant": {"models": ["m*"], "default": "d"},
        "nothing": {"models": ["x"]},
        "lists": {"default": "d"},
        "plain": {},
    }
    scripts = {"lists": listing("m", others=lambda _: reply("lists"))}
    for name, model in (("pattern", "fast"), ("meant", "m"), ("lists", "d"), ("plain", "m")):
        first = {**tables["first"], "fallbacks": ["nothing", name]}
        async with several({**tables, "first": first}, scripts) as of:
            await of.client.create("a", model="fast")
            if name == "lists":
                response = await of.client.ended("a")
                assert response["model"] == "fast"
                [asked] = [e for e in of.fakes[name].exchanges if "models" not in e.path]
                assert asked.body["model"] == model
                await of.client.create("a", model="fast")  # by now its list has come
                await of.client.ended("a")
                assert of.fakes[name].exchanges[-1].body["model"] == "m"
            else:
                exchange = await of.fakes[name].next()
                while exchange.path.endswith("models"):
                    await exchange.reply(404, b"")
                    exchange = await of.fakes[name].next()
                assert exchange.body["model"] == model
                await answer(exchange)
                await of.client.ended("a")
            assert "nothing" not in {n for n, asked in of.asked().items() if asked}


async def test_the_log_says_once_who_steps_in(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, logger="multilane")
    async with several(CHAIN) as of:
        for _ in range(3):
            await (await of["first"].asked("a", model="m")).reply(503, b"hush")
            await answered(of, "second", "s")
    lines = [one.getMessage() for one in caplog.records if "in place of" in one.getMessage()]
    assert lines == ["second answers in place of first, which answers 503"]
    assert "hush" not in caplog.text


async def test_a_client_that_leaves_takes_the_fallback_with_it() -> None:
    async with several(CHAIN) as of:
        await (await of["first"].asked("a", model="m")).reply(503, b"busy")
        second = await of.fakes["second"].next()
        of.client.abort()
        await hung_up(second)


async def test_a_client_that_leaves_while_the_first_event_is_awaited() -> None:
    async with several(CHAIN) as of:
        exchange = await of["first"].asked("a", model="m")
        await exchange.send(b": hold on\n\n")
        of.client.abort()
        await hung_up(exchange)
        assert of.asked() == {"first": 1, "second": 0, "third": 0}


@pytest.mark.parametrize("size", [1, 7, 4096])
async def test_looking_at_the_first_event_loses_none(size: int) -> None:
    async with several(CHAIN) as of:
        exchange = await of["first"].asked("a", model="m")
        whole = b"".join(reply(*"abcdefgh"))
        for at in range(0, len(whole), size):
            await exchange.send(whole[at : at + size])
        await exchange.end()
        response = await of.client.ended("a")
        assert response["output"][0]["content"][0]["text"] == "abcdefgh"
        assert [e["type"] for e in of.client.lane("a")][:2] == [
            "response.created",
            "response.in_progress",
        ]


async def test_a_steer_is_heard_where_a_fallback_answers() -> None:
    async with several(chain(url=AWAY)) as of:
        parent = await talking(of["second"], "a", model="m")
        await parent.steer("shorter")
        successor = await parent.follows()
        assert successor.exchange.body["model"] == "s"
        await successor.finish()


async def test_the_turn_of_the_first_is_free_while_another_answers() -> None:
    async with several(chain(concurrency=1)) as of:
        await (await of["first"].asked("a", model="m")).reply(503, b"busy")
        second = await of.fakes["second"].next()
        with anyio.fail_after(HANG):
            first = await of["first"].asked("b", model="m")
        await answer(first)
        await of.client.ended("b")
        await answer(second)
        await of.client.ended("a")


@pytest.mark.parametrize("first", ["chat", "openai"])
async def test_one_that_speaks_another_api_may_step_in(first: str) -> None:
    chunk = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "x"}
    said = [
        data({**chunk, "choices": [{"index": 0, "delta": {"content": "chat"}}]}),
        data({**chunk, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}),
        data("[DONE]"),
    ]
    second = {"chat": "openai", "openai": "chat"}[first]
    tables: dict[str, dict[str, Any]] = {
        first: {"dialect": first, "models": ["m"], "fallbacks": [second]},
        second: {"dialect": second, "models": ["m*"]},
    }
    async with several(tables) as of:
        exchange = await of[first].asked("a", model="m")
        await answer(exchange, [data({"error": {"message": "busy", "code": 503}})])
        exchange = await of.fakes[second].next()
        assert exchange.path == {"chat": "/v1/chat/completions", "openai": "/v1/responses"}[second]
        await answer(exchange, said if second == "chat" else reply("openai"))
        response = await of.client.ended("a")
        assert response["output"][0]["content"][0]["text"] == second
        exchange = await of[first].asked("a", model="m", previous_response_id=response["id"])
        await answer(exchange, said if first == "chat" else reply("openai"))
        assert (await of.client.ended("a"))["output"][0]["content"][0]["text"] == first
