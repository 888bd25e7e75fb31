"""`POST /v1/responses/compact`, over HTTP and by the official SDK (protocol.md 9)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from openai.types.responses import CompactedResponse
from openai.types.responses.response_input_item import Message

from lanes.compaction.prompt import SUMMARY_INTRODUCTION, SUMMARY_PROMPT
from tests.support.client import connect
from tests.support.events import created, failed, reply
from tests.support.gateway_stand import said
from tests.support.http_client import posted, requested
from tests.support.wire_stand import WireStand, standing

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from tests.support.exchange import Exchange

SYSTEM = {"role": "system", "content": "Be brief."}
HISTORY: list[dict[str, Any]] = [
    SYSTEM,
    {"role": "user", "content": "one"},
    {"role": "assistant", "content": "1"},
    {"role": "user", "content": "two"},
]


def summarising() -> AbstractAsyncContextManager[WireStand]:
    def script(exchange: Exchange) -> Any:
        return reply("Talked." if said(exchange)[-1] == SUMMARY_PROMPT else "hello")

    return standing(script)


async def compacted(stand: WireStand, **fields: Any) -> tuple[int, dict[str, Any]]:
    body = json.dumps({"model": "m", **fields}).encode()
    async with requested(
        stand.url, "POST", "/responses/compact", body, {"content-type": "application/json"}
    ) as answer:
        found: dict[str, Any] = await answer.json()
        if answer.status == 200:
            # The reference says that there are messages of the user; its types do not.
            *messages, item = found["output"]
            CompactedResponse.model_validate({**found, "output": [item]})
            for message in messages:
                Message.model_validate(message)
        return answer.status, found


def texts(found: dict[str, Any]) -> list[tuple[str, str]]:
    return [(item["role"], item["content"][0]["text"]) for item in found["output"][:-1]]


async def test_a_history_becomes_its_messages_and_one_item() -> None:
    async with summarising() as stand:
        _, found = await compacted(stand, input=HISTORY)
        assert found["object"] == "response.compaction"
        assert texts(found) == [("system", "Be brief."), ("user", "one"), ("user", "two")]
        assert found["output"][-1]["type"] == "compaction"
        assert found["usage"]["total_tokens"] > 0
        async with connect(stand.url) as client:
            await client.create(input=[*found["output"], {"role": "user", "content": "three"}])
            assert (await client.ended())["status"] == "completed"
        summary = SUMMARY_INTRODUCTION + "Talked."
        assert said(stand.fake.exchanges[-1]) == ["Be brief.", "one", "two", summary, "three"]


async def test_a_stored_response_is_compacted_and_nothing_is_stored() -> None:
    async with summarising() as stand:
        async with posted(stand.url, {"store": True, "input": HISTORY}) as answer:
            parent = await answer.json()
        _, found = await compacted(stand, previous_response_id=parent["id"])
        assert texts(found)[1:] == [("user", "one"), ("user", "two")]
        async with requested(stand.url, "GET", f"/responses/{found['id']}") as answer:
            assert answer.status == 404


async def test_a_string_is_a_message() -> None:
    async with summarising() as stand:
        _, found = await compacted(stand, input="one")
        assert texts(found) == [("user", "one")]


async def test_what_was_compacted_is_compacted_again() -> None:
    async with summarising() as stand:
        _, found = await compacted(stand, input=HISTORY)
        again = [*found["output"], {"role": "assistant", "content": "3"}]
        _, found = await compacted(stand, input=again)
        assert texts(found)[1:] == [("user", "one"), ("user", "two")]
        assert SUMMARY_INTRODUCTION + "Talked." in said(stand.fake.exchanges[-1])


@pytest.mark.parametrize(
    ("fields", "status", "param"),
    [
        ({"model": None, "input": "one"}, 400, "model"),
        ({}, 400, "input"),
        ({"input": []}, 400, "input"),
        ({"input": 5}, 400, "input"),
        ({"input": ["one"]}, 400, "input[0]"),
        ({"input": "one", "conversation": "conv_1"}, 400, "conversation"),
        ({"input": "one", "previous_response_id": 5}, 400, "previous_response_id"),
        ({"input": "one", "previous_response_id": "resp_1"}, 400, "previous_response_id"),
        ({"input": [{"type": "compaction", "encrypted_content": "ml1.x.y"}]}, 400, "input[0]"),
    ],
)
async def test_what_is_refused(fields: dict[str, Any], status: int, param: str) -> None:
    async with summarising() as stand:
        found = await compacted(stand, **fields)
        assert (found[0], found[1]["error"]["param"]) == (status, param)
        assert stand.fake.exchanges == []


async def test_methods_and_content_types() -> None:
    async with summarising() as stand:
        async with requested(stand.url, "PUT", "/responses/compact", b"{}") as answer:
            assert answer.status == 405
            assert "POST" in answer.headers["allow"]
        lines = {"content-type": "text/plain"}
        async with requested(stand.url, "POST", "/responses/compact", b"{}", lines) as answer:
            assert answer.status == 415


@pytest.mark.parametrize(
    ("code", "status"),
    [
        ("server_error", 502),
        ("vector_store_timeout", 502),
        ("rate_limit_exceeded", 429),
        ("invalid_prompt", 400),
        ("invalid_image", 400),
    ],
)
async def test_a_backend_that_fails(code: str, status: int) -> None:
    async with standing(lambda _: [created(), failed(message="no", code=code)]) as stand:
        found = await compacted(stand, input=HISTORY)
        assert found[0] == status
        assert found[1]["error"]["code"] == code
        assert found[1]["error"]["message"] == "no"


async def test_a_history_that_the_backend_finds_too_long_in_its_stream() -> None:
    events = [created(), failed(message="Too long.", code="context_length_exceeded")]
    async with standing(lambda _: events) as stand:
        status, found = await compacted(stand, input=HISTORY)
        assert status == 400
        assert found["error"]["type"] == "invalid_request_error"
        assert found["error"]["message"] == "Too long."
