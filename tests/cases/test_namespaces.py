"""Tools in namespaces on backends that know none: clients see their own names, whatever the way."""

from __future__ import annotations

from typing import Any

import pytest

from tests.dialects.chat_judge import refuses
from tests.dialects.chatting import body, call, chunk, counted, text
from tests.support.client import connect
from tests.support.events import call as call_item
from tests.support.events import called, completed, created, in_progress
from tests.support.gateway_stand import Stand, stand, user

SEARCH = {"type": "function", "name": "search", "parameters": {"type": "object"}}
CRM = {"type": "namespace", "name": "crm", "description": "customers", "tools": [SEARCH]}
WEB = {"type": "namespace", "name": "mcp__web__", "description": "the web", "tools": [SEARCH]}
BOX = {
    "type": "namespace",
    "name": "box",
    "description": "a shell",
    "tools": [{"type": "custom", "name": "sh"}],
}
TOOLS = [SEARCH, CRM, WEB, BOX]


def output(call_id: str, kind: str = "function_call") -> dict[str, Any]:
    return {"type": f"{kind}_output", "call_id": call_id, "output": "found"}


def named(response: dict[str, Any]) -> list[tuple[str | None, str]]:
    return [(item.get("namespace"), item["name"]) for item in response["output"]]


async def _answered(on: Stand, *chunks: Any, finish: str = "stop", **extra: Any) -> Any:
    data = [body([*chunks, chunk(finish), counted()])]
    exchange, response = await on.turn("a", data, **extra)
    assert refuses(exchange.body) is None, exchange.body
    return exchange.body, response


def said(messages: list[dict[str, Any]]) -> list[str]:
    calls = [one for message in messages for one in message.get("tool_calls", ())]
    return [one["function"]["name"] for one in calls]


async def test_a_chain_over_chat() -> None:
    async with stand(dialect="chat", retries=0) as on:
        asked, first = await _answered(
            on,
            call(0, "crm__search", "{}", "c1"),
            call(1, "mcp__web__search", '{"q":"x"}', "c2"),
            call(2, "search", "{}", "c3"),
            call(3, "box__sh", '{"input":"ls"}', "c4"),
            finish="tool_calls",
            tools=TOOLS,
            store=True,
            tool_choice={"type": "function", "name": "sh", "namespace": "box"},
        )
        names = [tool["function"]["name"] for tool in asked["tools"]]
        assert names == ["search", "crm__search", "mcp__web__search", "box__sh"]
        assert asked["tool_choice"]["function"]["name"] == "box__sh"
        own = [("crm", "search"), ("mcp__web__", "search"), (None, "search"), ("box", "sh")]
        assert named(first) == own
        assert first["tools"][1]["name"] == "crm", "the response has the tools that were asked for"
        events = [event for event in on.client.transcript if "output_item" in event["type"]]
        added = [event["item"] for event in events if event["type"].endswith("added")]
        assert named({"output": added}) == own
        given = [*(output(f"c{n}") for n in (1, 2, 3)), output("c4", "custom_tool_call")]
        # The next turn has its tools in another order, and the one after it has none.
        asked, second = await _answered(
            on,
            *text("x"),
            input=given,
            tools=TOOLS[::-1],
            previous_response_id=first["id"],
            store=True,
        )
        flat = ["crm__search", "mcp__web__search", "search", "box__sh"]
        assert said(asked["messages"]) == flat
        asked, _ = await _answered(on, *text("y"), previous_response_id=second["id"])
        assert said(asked["messages"]) == flat
        # Another connection finds the same in the store, and a client without one says it itself.
        async with connect(on.url) as other:
            await other.create(previous_response_id=second["id"], input="and?", store=True)
            exchange = await on.fake.next()
            assert said(exchange.body["messages"]) == flat
            await exchange.send(body([*text("z"), chunk("stop"), counted()]))
            await exchange.end()
            await other.ended()
        whole = [user("hi"), *first["output"], *given]
        asked, _ = await _answered(on, *text("y"), input=whole, tools=TOOLS)
        assert said(asked["messages"]) == flat


async def test_a_steer_keeps_the_names() -> None:
    async with stand(dialect="chat", retries=0) as on:
        exchange = await on.asked("a", tools=TOOLS)
        await exchange.send(body([call(0, "crm__search", "{}", "c1")], done=False))
        await on.client.until("response.output_item.added")
        first = on.client.transcript[0]["response"]["id"]
        await on.client.steer(first, "and be quick")
        await on.client.until("response.steer.accepted")
        await exchange.send(body([chunk("tool_calls"), counted()]))
        await exchange.end()
        assert named(await on.client.ended("a")) == [("crm", "search")]
        given = [output("c1")]
        asked, _ = await _answered(on, *text("x"), previous_response_id=first, input=given)
        assert said(asked["messages"]) == ["crm__search"]


@pytest.mark.parametrize("dialect", ["generic", "vllm", "llamacpp", "ollama", "groq", "xai"])
async def test_a_chain_over_responses(dialect: str) -> None:
    tools = TOOLS[:3]
    async with stand(dialect=dialect, retries=0) as on:
        flat = "mcp__web__search"
        done = completed(output=[call_item(flat, "{}", "c1")])
        chunks = [created(), in_progress(), *called(flat), done]
        exchange, first = await on.turn("a", chunks, tools=tools)
        names = [tool["name"] for tool in exchange.body["tools"]]
        assert names == ["search", "crm__search", flat]
        assert named(first) == [("mcp__web__", "search")]
        for event in on.client.transcript:
            assert flat not in str({key: event[key] for key in event if key != "response"})
        exchange, _ = await on.turn(
            "a", None, previous_response_id=first["id"], input=[output("c1")]
        )
        (back,) = [item for item in exchange.input if item["type"] == "function_call"]
        assert back["name"] == flat
        assert "namespace" not in back
