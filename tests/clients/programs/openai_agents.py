"""OpenAI's agents: tool loops, streams and sessions, with the HTTP model and the socket's."""

import asyncio
import sys

from agents import Agent, RunConfig, Runner, SQLiteSession, function_tool
from agents.memory import OpenAIConversationsSession, OpenAIResponsesCompactionSession
from agents.models.openai_responses import OpenAIResponsesModel, OpenAIResponsesWSModel
from openai import AsyncOpenAI

QUIET = RunConfig(tracing_disabled=True)


@function_tool
def look(place: str) -> str:
    """Look at a place."""
    return f"sunny at {place}"


async def use(agent, client) -> None:
    for chained in (False, True):
        whole = await Runner.run(
            agent, "use the tool", run_config=QUIET, auto_previous_response_id=chained
        )
        assert "sunny at" in whole.final_output
        streamed = Runner.run_streamed(
            agent, "use the tool", run_config=QUIET, auto_previous_response_id=chained
        )
        assert len([event async for event in streamed.stream_events()]) > 10
        assert "sunny at" in streamed.final_output
    for session in (SQLiteSession("one"), OpenAIConversationsSession(openai_client=client)):
        for asked in ("use the tool", "My name is Ana"):
            await Runner.run(agent, asked, session=session, run_config=QUIET)
        last = await Runner.run(agent, "Who am I?", session=session, run_config=QUIET)
        assert "My name is Ana" in last.final_output, (session, last.final_output)


async def compact(agent, client) -> None:
    """The session sends its history to be compacted, and keeps what comes back."""
    for mode in ("input", "previous_response_id", "auto"):
        kept = SQLiteSession(mode)
        session = OpenAIResponsesCompactionSession(
            mode,
            kept,
            client=client,
            model="gpt-rehearse",
            compaction_mode=mode,
            should_trigger_compaction=lambda context: len(context["session_items"]) > 3,
        )
        for asked in ("My name is Ana", "use the tool", "go on"):
            await Runner.run(agent, asked, session=session, run_config=QUIET)
        kinds = [item.get("type") for item in await kept.get_items()]
        assert "compaction" in kinds, (mode, kinds)
        last = await Runner.run(agent, "Who am I?", session=session, run_config=QUIET)
        assert "My name is Ana" in last.final_output, (mode, last.final_output)


async def main() -> None:
    async with AsyncOpenAI(base_url=sys.argv[1], api_key="none") as client:
        for kind in (OpenAIResponsesModel, OpenAIResponsesWSModel):
            model = kind("rehearse", client)
            await use(Agent("guide", instructions="Guide.", tools=[look], model=model), client)
            if isinstance(model, OpenAIResponsesWSModel):
                await model.close()
        model = OpenAIResponsesModel("gpt-rehearse", client)
        await compact(Agent("guide", instructions="Guide.", tools=[look], model=model), client)


asyncio.run(main())
print("all is well")
