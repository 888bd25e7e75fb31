"""Pydantic AI: a tool loop, a conversation, an object, a stream and 40 runs at once."""

import asyncio
import sys
import warnings

from pydantic import BaseModel
from pydantic_ai import Agent, NativeOutput
from pydantic_ai.models.openai import OpenAIResponsesModel, OpenAIResponsesModelSettings
from pydantic_ai.providers.openai import OpenAIProvider

warnings.simplefilter("error", UserWarning)  # it warns where a socket cannot be used


class Person(BaseModel):
    name: str
    age: int


def look(place: str) -> str:
    """Look at a place."""
    return f"sunny at {place}"


async def use(agent) -> None:
    assert "sunny at" in (await agent.run("use the tool")).output
    first = await agent.run("My name is Ana")
    second = await agent.run("Who am I?", message_history=first.all_messages())
    assert "My name is Ana" in second.output
    person = await agent.run("Ana", output_type=NativeOutput(Person))
    assert person.output == Person(name="Ana", age=2)
    runs = await asyncio.gather(*(agent.run(f"use the tool, lane{n}x") for n in range(40)))
    for n, run in enumerate(runs):
        assert f"lane{n}x" in run.output
    behind = OpenAIResponsesModelSettings(openai_background=True)  # always over HTTP
    assert "behind" in (await agent.run("behind in 6 words", model_settings=behind)).output
    async with agent.run_stream("hello in 20 words") as stream:
        text = "".join([delta async for delta in stream.stream_text(delta=True)])
    assert len(text.split()) == 20


async def main() -> None:
    for transport in ("http", "websocket"):
        model = OpenAIResponsesModel(
            "rehearse", provider=OpenAIProvider(base_url=sys.argv[1], api_key="none")
        )
        settings = OpenAIResponsesModelSettings(openai_transport=transport)
        agent = Agent(model, model_settings=settings, tools=[look])
        async with agent:
            await use(agent)


asyncio.run(main())
print("all is well")
