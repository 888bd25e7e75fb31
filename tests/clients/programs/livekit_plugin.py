"""LiveKit's plugin for OpenAI: turns, a tool, and answers that are interrupted."""

import asyncio
import sys

from livekit.agents import function_tool, llm, utils
from livekit.plugins.openai import responses


@function_tool
async def look(place: str) -> str:
    """Look at a place."""
    return f"sunny at {place}"


def asked(text):
    context = llm.ChatContext.empty()
    context.add_message(role="user", content=text)
    return context


async def answer(model, context, *, most=None, tools=()):
    """Read an answer, or the first deltas of it."""
    text, calls, read = "", [], 0
    async with model.chat(chat_ctx=context, tools=list(tools)) as stream:
        async for chunk in stream:
            if most is not None and read >= most:
                break
            read += 1
            if chunk.delta:
                text += chunk.delta.content or ""
                calls += chunk.delta.tool_calls or []
    return text, calls


async def use(model) -> None:
    context = asked("My name is Ana")
    text, _ = await answer(model, context)
    context.add_message(role="assistant", content=text)
    context.add_message(role="user", content="Who am I?")
    assert "My name is Ana" in (await answer(model, context))[0]
    _, [call] = await answer(model, asked("use the tool"), tools=[look])
    assert call.name == "look"
    for most in range(22):
        await answer(model, asked(f"first{most}topic in 20 words"), most=most)
        text, _ = await answer(model, asked(f"next{most}topic in 6 words"))
        assert f"next{most}topic" in text, (most, text)


async def main() -> None:
    base_url = sys.argv[1]
    socket = base_url.replace("http", "ws", 1) + "/responses"
    async with utils.http_context.open():
        for url, use_websocket in ((socket, True), (base_url, False)):
            model = responses.LLM(
                model="rehearse", api_key="none", base_url=url, use_websocket=use_websocket
            )
            await use(model)
            await model.aclose()


asyncio.run(main())
print("all is well")
