"""Conversations by the official SDK, and the session of openai-agents that keeps itself in one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from agents import Agent, OpenAIConversationsSession, RunConfig, Runner, function_tool
from agents.models.openai_responses import OpenAIResponsesModel
from openai import APIStatusError, AsyncOpenAI, NotFoundError
from openai.types.conversations import ConversationItem
from pydantic import TypeAdapter

from tests.support.judged_sdk import MODEL

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

_QUIET = RunConfig(tracing_disabled=True)
_ITEM: TypeAdapter[Any] = TypeAdapter(ConversationItem)

IMAGE = {"type": "input_image", "image_url": "data:image/png;base64,AAAA"}
#: One of each kind, as a client may add it.
GIVEN: list[Any] = [
    {"role": "user", "content": "hi"},
    {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "be"}]},
    {"role": "user", "content": [{"type": "input_text", "text": "see"}, IMAGE]},
    {"role": "assistant", "content": "hello"},
    {"type": "reasoning", "id": "rs_1", "encrypted_content": "gAAAA", "summary": []},
    {"type": "function_call", "call_id": "c1", "name": "look", "arguments": "{}"},
    {"type": "function_call_output", "call_id": "c1", "output": "sunny"},
    {"type": "custom_tool_call", "call_id": "c2", "name": "x", "input": "y"},
    {"type": "custom_tool_call_output", "call_id": "c2", "output": "z"},
    {"type": "mcp_approval_response", "approval_request_id": "a1", "approve": True},
    {"type": "compaction", "encrypted_content": "gAAAA"},
]


@function_tool
def look(place: str) -> str:
    """Look at a place."""
    return f"It is sunny at {place}."


@pytest.fixture
async def client(gateway_url: str) -> AsyncIterator[AsyncOpenAI]:
    async with AsyncOpenAI(base_url=gateway_url, api_key="none", max_retries=0) as made:
        yield made


async def test_a_conversation_from_its_beginning_to_its_end(client: AsyncOpenAI) -> None:
    made = await client.conversations.create(metadata={"topic": "harbour"})
    assert made.object == "conversation"
    assert made.metadata == {"topic": "harbour"}
    assert await client.conversations.retrieve(made.id) == made
    changed = await client.conversations.update(made.id, metadata={"a": "b"})
    assert (changed.id, changed.metadata) == (made.id, {"a": "b"})
    assert (await client.conversations.update(made.id, metadata=None)).metadata == {}
    gone = await client.conversations.delete(made.id)
    assert (gone.id, gone.deleted, gone.object) == (made.id, True, "conversation.deleted")
    with pytest.raises(NotFoundError):
        await client.conversations.retrieve(made.id)


async def test_items_of_all_kinds_are_shown_as_the_types_say(client: AsyncOpenAI) -> None:
    conversation = (await client.conversations.create(items=GIVEN[:2])).id
    added = await client.conversations.items.create(conversation, items=GIVEN[2:])
    assert (added.first_id, added.last_id) == (added.data[0].id, added.data[-1].id)
    assert not added.has_more
    listed = [
        item.to_dict()
        async for item in client.conversations.items.list(conversation, order="asc", limit=3)
    ]
    assert [item["type"] for item in listed] == [item.get("type", "message") for item in GIVEN]
    for item in listed:
        _ITEM.validate_python(item, strict=True)
        retrieve = client.conversations.items.retrieve
        one = await retrieve(str(item["id"]), conversation_id=conversation)
        assert one.to_dict() == item
    assert [item.to_dict() for item in added.data] == listed[2:]
    assert len({item["id"] for item in listed}) == len(GIVEN)
    newest = [item.id async for item in client.conversations.items.list(conversation)]
    assert newest == [item["id"] for item in reversed(listed)]


async def test_encrypted_reasoning_is_shown_if_it_is_asked_for(client: AsyncOpenAI) -> None:
    conversation = (await client.conversations.create(items=[GIVEN[4]])).id
    listing = client.conversations.items.list
    (item,) = (await listing(conversation)).data
    assert "encrypted_content" not in item.to_dict()
    (item,) = (await listing(conversation, include=["reasoning.encrypted_content"])).data
    assert item.to_dict()["encrypted_content"] == "gAAAA"


async def test_an_item_is_deleted(client: AsyncOpenAI) -> None:
    conversation = await client.conversations.create(items=GIVEN[:2])
    first, second = (await client.conversations.items.list(conversation.id, order="asc")).data
    after = await client.conversations.items.delete(str(first.id), conversation_id=conversation.id)
    assert after == conversation
    assert (await client.conversations.items.list(conversation.id)).data == [second]
    with pytest.raises(NotFoundError):
        await client.conversations.items.retrieve(str(first.id), conversation_id=conversation.id)


async def test_responses_are_bound_to_it(client: AsyncOpenAI) -> None:
    conversation = (await client.conversations.create()).id
    bound: dict[str, Any] = {"model": MODEL, "conversation": conversation}
    first = await client.responses.create(input="My name is Ana", **bound)
    assert first.conversation is not None
    assert first.conversation.id == conversation
    second = await client.responses.create(input="Who am I?", **bound)
    assert "My name is Ana" in second.output_text
    listed = (await client.conversations.items.list(conversation, order="asc")).data
    assert [item.to_dict()["role"] for item in listed] == ["user", "assistant"] * 2
    assert listed[1].id == first.output[0].id
    for item in listed:
        _ITEM.validate_python(item.to_dict(), strict=True)
    with pytest.raises(APIStatusError) as refused:
        await client.responses.create(model=MODEL, input="hi", conversation="conv_" + "0" * 32)
    assert refused.value.status_code == 404


async def test_the_session_of_the_agents(client: AsyncOpenAI) -> None:
    agent = Agent(
        "guide", tools=[look], model=OpenAIResponsesModel(model=MODEL, openai_client=client)
    )
    session = OpenAIConversationsSession(openai_client=client)
    first = await Runner.run(agent, "use the tool", session=session, run_config=_QUIET)
    assert "It is sunny at" in first.final_output
    kinds = [item.get("type") for item in await session.get_items()]
    assert kinds == ["message", "function_call", "function_call_output", "message"]
    second = await Runner.run(agent, "My name is Ana", session=session, run_config=_QUIET)
    assert "My name is Ana" in second.final_output
    third = await Runner.run(agent, "Who am I?", session=session, run_config=_QUIET)
    assert "My name is Ana" in third.final_output
    last = await session.pop_item()
    assert last is not None
    assert (await session.get_items(limit=1))[0] != last
    many: list[Any] = [{"role": "user", "content": f"{n}"} for n in range(45)]
    await session.add_items(many)
    assert len(await session.get_items()) == 4 + 2 + 1 + 45
    await session.clear_session()


async def test_agents_on_a_conversation_of_the_gateways(client: AsyncOpenAI) -> None:
    agent = Agent(
        "guide", tools=[look], model=OpenAIResponsesModel(model=MODEL, openai_client=client)
    )
    conversation = (await client.conversations.create()).id
    result = await Runner.run(
        agent, "use the tool", conversation_id=conversation, run_config=_QUIET
    )
    assert "It is sunny at" in result.final_output
    listed = (await client.conversations.items.list(conversation, order="asc")).data
    kinds = [item.type for item in listed]
    assert kinds == ["message", "function_call", "function_call_output", "message"]
