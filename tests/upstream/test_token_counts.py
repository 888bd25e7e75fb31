"""`POST /v1/responses/input_tokens`: the backend of each dialect is asked in its own way."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from openai.types.responses import InputTokenCountResponse

from tests.support.events import reply
from tests.support.http_client import posted, requested
from tests.support.wire_stand import WireStand, standing

if TYPE_CHECKING:
    from tests.support.exchange import Exchange

TOOL = {"type": "function", "name": "look", "parameters": {"type": "object"}}
CHAT_TOOL = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}


async def count(stand: WireStand, **body: Any) -> tuple[int, dict[str, Any]]:
    data = json.dumps({"model": "m", "input": "hi", **body}).encode()
    headers = {"content-type": "application/json"}
    path = "/responses/input_tokens"
    async with requested(stand.url, "POST", path, data, headers) as answer:
        said = await answer.json()
        if answer.status == 200:
            InputTokenCountResponse.model_validate(said)
        return answer.status, said


async def answer(exchange: Exchange) -> None:
    answers: dict[str, dict[str, Any]] = {
        "/v1/responses/input_tokens": {"object": "response.input_tokens", "input_tokens": 11},
        "/tokenize": {"count": 7, "max_model_len": 99, "tokens": [1, 2, 3]},
        "/apply-template": {"prompt": "<user>hi"},
    }
    if exchange.path in answers:
        await exchange.reply(200, answers[exchange.path])
    else:
        await exchange.send(*reply("ok"))
        await exchange.end()


async def test_the_backend_s_own_count_of_the_whole_input() -> None:
    async with standing(answer) as stand:
        async with posted(stand.url, {"store": True, "input": "one"}) as first:
            parent = (await first.json())["id"]
        status, said = await count(
            stand, previous_response_id=parent, instructions="be brief", max_output_tokens=5
        )
        assert (status, said["input_tokens"]) == (200, 11)
        asked = stand.fake.exchanges[-1].body
        assert [item["role"] for item in asked["input"]] == ["user", "assistant", "user"]
        assert asked["instructions"] == "be brief"
        assert asked.keys() <= {"model", "input", "instructions"}


async def test_vllm_s_tokenizer() -> None:
    async with standing(answer, dialect="vllm") as stand:
        status, said = await count(stand, tools=[TOOL])
        assert (status, said["input_tokens"]) == (200, 7)
        (exchange,) = stand.fake.exchanges
        assert exchange.path == "/tokenize"
        assert exchange.body == {
            "model": "m",
            "messages": [{"role": "user", "content": "hi"}],
            "tools": [CHAT_TOOL],
        }


async def test_llamacpp_s_template_and_tokenizer() -> None:
    async with standing(answer, dialect="llamacpp") as stand:
        status, said = await count(stand, instructions="be brief")
        assert (status, said["input_tokens"]) == (200, 3)
        template, tokens = stand.fake.exchanges
        assert template.path == "/apply-template"
        assert [one["content"] for one in template.body["messages"]] == ["be brief", "hi"]
        assert tokens.body == {"content": "<user>hi", "add_special": True, "parse_special": True}


async def test_a_backend_that_does_not_count() -> None:
    async with standing(answer, dialect="groq") as stand:
        status, said = await count(stand)
        assert (status, said["error"]["code"]) == (501, "input_tokens_not_supported")
        assert stand.fake.exchanges == []


@pytest.mark.parametrize(
    ("status", "body", "expected"),
    [
        (404, {"detail": "Not Found"}, 501),
        (405, {}, 501),
        (400, {"error": {"message": "no"}}, 400),
        (429, {"error": {"message": "slow"}}, 429),
        (200, {"input_tokens": "many"}, 502),
        (200, [], 502),
        (200, b"junk", 502),
    ],
)
async def test_what_a_backend_may_say(status: int, body: Any, expected: int) -> None:
    async def say(exchange: Exchange) -> None:
        await exchange.reply(status, body)

    async with standing(say) as stand:
        assert (await count(stand))[0] == expected


@pytest.mark.parametrize(
    ("body", "status", "param"),
    [
        ({"previous_response_id": "resp_none"}, 400, "previous_response_id"),
        ({"conversation": f"conv_{'0' * 32}"}, 404, "conversation"),
        ({"input": 1}, 400, "input"),
        ({"input": [{"type": "item_reference", "id": "msg_none"}]}, 400, "input"),
    ],
)
async def test_a_request_that_is_none(body: dict[str, Any], status: int, param: str) -> None:
    async with standing(answer) as stand:
        got, said = await count(stand, **body)
        assert (got, said["error"]["param"]) == (status, param)
        assert stand.fake.exchanges == []


async def test_the_items_of_a_conversation_are_counted() -> None:
    async with standing(answer) as stand:
        data = json.dumps({"items": [{"role": "user", "content": "one"}]}).encode()
        headers = {"content-type": "application/json"}
        async with requested(stand.url, "POST", "/conversations", data, headers) as made:
            conversation = (await made.json())["id"]
        assert (await count(stand, conversation=conversation))[0] == 200
        asked = stand.fake.exchanges[-1].body
        assert asked["input"][0]["content"] == "one"
        assert "conversation" not in asked


async def test_nothing_at_all_is_counted_too() -> None:
    async with standing(answer) as stand:
        assert (await count(stand, input=None))[0] == 200
