"""C75: tools that the input names are tools of the request, where backends know no others."""

from __future__ import annotations

from typing import Any

import pytest

from tests.dialects.chatting import body, call, chunk, counted, text
from tests.support.gateway_stand import answer, stand, user

Item = dict[str, Any]

EXEC = {"type": "custom", "name": "exec", "description": "runs code"}
ASK = {"type": "function", "name": "ask", "parameters": {"type": "object", "properties": {}}}
GIVEN: Item = {
    "type": "additional_tools",
    "id": "at_1",
    "role": "developer",
    "tools": [{"type": "namespace", "name": "crm", "tools": [EXEC]}, ASK],
}
CALL = [call(0, "crm__exec", '{"input":"1+1"}', "c1"), chunk("tool_calls"), counted()]


def names(request: Item) -> list[str]:
    return [tool.get("function", tool)["name"] for tool in request.get("tools", ())]


async def test_a_chat_backend_is_told_of_them() -> None:
    own = {**ASK, "name": "own"}
    async with stand(dialect="chat") as on:
        exchange = await on.asked("a", input=[GIVEN, user("go")], tools=[own, ASK])
        assert names(exchange.body) == ["own", "crm__exec", "ask"]
        assert [one["role"] for one in exchange.body["messages"]] == ["user"]
        await answer(exchange, [body(CALL)])
        first = await on.client.ended("a")
        (made,) = first["output"]
        assert (made["type"], made["namespace"], made["name"]) == (
            "custom_tool_call",
            "crm",
            "exec",
        )
        assert made["input"] == "1+1"
        given = {"type": "custom_tool_call_output", "call_id": "c1", "output": "2"}
        exchange = await on.asked("a", previous_response_id=first["id"], input=[given])
        assert names(exchange.body) == ["crm__exec", "ask"], "they are part of the conversation"
        called = exchange.body["messages"][1]["tool_calls"][0]["function"]["name"]
        assert called == "crm__exec"
        await answer(exchange, [body([*text("ok"), chunk("stop"), counted()])])
        await on.client.ended("a")


@pytest.mark.parametrize("dialect", ["vllm", "generic"])
async def test_a_responses_backend_likewise(dialect: str) -> None:
    async with stand(dialect=dialect) as on:
        exchange = await on.asked("a", input=[GIVEN, user("go")])
        assert "ask" in names(exchange.body)
        assert [item.get("type", "message") for item in exchange.input] == ["message"]
        await answer(exchange)
        await on.client.ended("a")


async def test_the_reference_gets_them_as_they_are() -> None:
    async with stand(dialect="openai") as on:
        exchange = await on.asked("a", input=[GIVEN, user("go")])
        assert exchange.input[0] == GIVEN
        assert "tools" not in exchange.body
        await answer(exchange)
        await on.client.ended("a")
