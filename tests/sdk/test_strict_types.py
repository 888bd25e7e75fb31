"""The official SDK, refusing whatever does not fit its types, on every object at both faces."""

from __future__ import annotations

import functools
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

import pytest
from openai import AsyncOpenAI
from openai.types.conversations import Conversation, ConversationItem
from openai.types.responses import CompactedResponse, Response, ResponseItem, ResponseStreamEvent
from pydantic import TypeAdapter

from gateway.config.settings import Settings
from tests import tapes
from tests.support.dialect_reading import dialect_of
from tests.support.gateway import running
from tests.support.judged_sdk import MODEL
from tests.support.upstream import upstream

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.support.exchange import Exchange

LOOK = {"type": "function", "name": "look", "strict": None, "parameters": {"type": "object"}}
TOOLS: Any = [LOOK]
GIVEN: Any = [
    {"role": "user", "content": "hi"},
    {"role": "assistant", "content": "hello"},
    {"type": "function_call", "call_id": "c1", "name": "look", "arguments": "{}"},
    {"type": "function_call_output", "call_id": "c1", "output": "sunny"},
    {"type": "custom_tool_call", "call_id": "c2", "name": "x", "input": "y"},
    {"type": "custom_tool_call_output", "call_id": "c2", "output": "z"},
    {"role": "user", "content": [{"type": "input_image", "image_url": "data:image/png;base64,AA"}]},
]
ALL: Any = [
    "reasoning.encrypted_content",
    "message.output_text.logprobs",
    "web_search_call.action.sources",
    "code_interpreter_call.outputs",
    "file_search_call.results",
    "message.input_image.image_url",
    "computer_call_output.output.image_url",
]


_adapter = functools.cache(TypeAdapter)


def strictly(kind: Any, value: Any) -> Any:
    """Return a value of the SDK's, once more judged as the JSON that it was."""
    _adapter(kind).validate_python(value.to_dict(mode="json"), strict=True)
    return value


async def events(stream: Any) -> list[Any]:
    """Read a stream to its end; each event fits its type."""
    async with aclosing(aiter(stream)) as coming:
        return [strictly(ResponseStreamEvent, event) async for event in coming]


def client_of(url: str) -> AsyncOpenAI:
    return AsyncOpenAI(
        base_url=url, api_key="none", max_retries=0, _strict_response_validation=True
    )


@pytest.fixture
async def client(gateway_url: str) -> AsyncIterator[AsyncOpenAI]:
    async with client_of(gateway_url) as made:
        yield made


@pytest.mark.parametrize("bound", [False, True], ids=["chain", "conversation"])
@pytest.mark.parametrize("background", [False, True], ids=["front", "background"])
async def test_turns_over_http_and_back(client: AsyncOpenAI, bound: bool, background: bool) -> None:
    """Each turn in another form and at another face; each object that can be asked for."""
    conversation = strictly(Conversation, await client.conversations.create(items=GIVEN))
    last: str | None = None
    for turn, streams in enumerate((False, True, False)):
        follows: dict[str, Any] = {"conversation": conversation.id}
        if not bound:
            follows = {"previous_response_id": last} if last else {"input": GIVEN}
        asked = {"input": [{"role": "user", "content": f"use look, turn {turn}"}], **follows}
        made: Any = await client.responses.create(
            model=MODEL, tools=TOOLS, background=background, stream=streams, include=ALL, **asked
        )
        response = (await events(made))[-1].response if streams else made
        strictly(Response, response)
        followed = await client.responses.retrieve(response.id, stream=True, include=ALL)
        ended = (await events(followed))[-1].response
        assert ended.status == "completed"
        assert strictly(Response, await client.responses.retrieve(response.id)) == ended
        assert strictly(Response, await client.responses.retrieve(response.id, include=ALL))
        async for item in client.responses.input_items.list(response.id, include=ALL, limit=3):
            strictly(ResponseItem, item)
        last = await _answered(client, ended, conversation.id if bound else None)
    async for kept in client.conversations.items.list(conversation.id, include=ALL, limit=3):
        strictly(ConversationItem, kept)
        found = await client.conversations.items.retrieve(
            str(kept.id), conversation_id=conversation.id, include=ALL
        )
        assert strictly(ConversationItem, found) == kept


async def _answered(client: AsyncOpenAI, response: Any, conversation: str | None) -> str:
    """Answer the calls of a response over the socket; return the id of the next."""
    outputs: list[Any] = [
        {"type": "function_call_output", "call_id": item.call_id, "output": "sunny"}
        for item in response.output
        if item.type == "function_call"
    ]
    follows: Any = (
        {"conversation": conversation} if conversation else {"previous_response_id": response.id}
    )
    given = outputs or [{"role": "user", "content": "go on"}]
    async with client.responses.connect() as connection:
        await connection.response.create(model=MODEL, tools=TOOLS, input=given, **follows)
        async for event in connection:
            strictly(ResponseStreamEvent, event)
            if event.type == "response.completed":
                name: str = event.response.id
                return name
    raise AssertionError


async def test_what_was_cancelled_or_failed(client: AsyncOpenAI) -> None:
    first = await client.responses.create(model=MODEL, input="word " * 400, background=True)
    cancelled = strictly(Response, await client.responses.cancel(first.id))
    assert cancelled.status == "cancelled"
    assert strictly(Response, await client.responses.retrieve(first.id)) == cancelled
    seen = await events(await client.responses.retrieve(first.id, stream=True))
    assert seen[-1].response == cancelled
    async for item in client.responses.input_items.list(first.id):
        strictly(ResponseItem, item)


async def test_what_was_compacted(client: AsyncOpenAI) -> None:
    # By its documentation the output has the user's messages, by its type none but the assistant's.
    async with AsyncOpenAI(base_url=client.base_url, api_key="none") as lenient:
        compacted = await lenient.responses.compact(model=MODEL, input=GIVEN)
    last = compacted.output[-1:]
    assert [item.type for item in last] == ["compaction"]
    strictly(CompactedResponse, compacted.model_copy(update={"output": last}))
    given: Any = [item.to_dict(mode="json", warnings=False) for item in compacted.output]
    again: Any = [*given, {"role": "user", "content": "What did I say?"}]
    strictly(Response, await client.responses.create(model=MODEL, input=again))
    asked: Any = [*GIVEN, {"type": "compaction_trigger"}]
    seen = await events(await client.responses.create(model=MODEL, input=asked, stream=True))
    assert [item.type for item in seen[-1].response.output] == ["compaction"]
    managed: Any = [{"type": "compaction", "compact_threshold": 1000}]
    long: Any = [*GIVEN, {"role": "assistant", "content": "word " * 3000}, *again[-1:]]
    for streams in (False, True):
        made: Any = await client.responses.create(
            model=MODEL, input=long, context_management=managed, stream=streams
        )
        response = (await events(made))[-1].response if streams else made
        assert strictly(Response, response).output[0].type == "compaction"
        strictly(Response, await client.responses.retrieve(response.id))
        async for item in client.responses.input_items.list(response.id):
            strictly(ResponseItem, item)


@pytest.mark.parametrize("name", tapes.names())
async def test_what_other_backends_say(name: str) -> None:
    """Each in its dialect, in front and in the background, and what the store has of it."""

    async def play(exchange: Exchange) -> None:
        await exchange.send(tapes.tape(name))
        await exchange.end()

    async with (
        upstream(play) as fake,
        running(Settings(upstream=fake.url, dialect=dialect_of(name).name, retries=0)) as url,
        client_of(url) as client,
    ):
        for background in (False, True):
            made = await client.responses.create(
                model="m", input="hi", tools=TOOLS, stream=True, background=background
            )
            ended = (await events(made))[-1].response
            strictly(Response, ended)
            if ended.status != "failed":
                await events(await client.responses.retrieve(ended.id, stream=True, include=ALL))
                strictly(Response, await client.responses.retrieve(ended.id, include=ALL))
            if ended.status != "failed" or background:
                async for item in client.responses.input_items.list(ended.id):
                    strictly(ResponseItem, item)
