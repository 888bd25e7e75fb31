"""An agent of openai-agents with a tool, over the gateway's WebSocket: plan, call, answer, go on.

    make serve                                       # in another terminal
    pip install openai-agents "openai[realtime]"
    python examples/agent_framework.py

The framework keeps one socket for the whole run, and sends the new items of each turn only:
`previous_response_id` names the rest, which the gateway has. OPENAI_BASE_URL and OPENAI_MODEL name
another gateway or model.
"""

from __future__ import annotations

import asyncio
import os

from agents import Agent, RunConfig, Runner, function_tool
from agents.models.openai_responses import OpenAIResponsesWSModel
from openai import AsyncOpenAI

BASE_URL = os.environ.get("OPENAI_BASE_URL", "http://127.0.0.1:8080/v1")
MODEL = os.environ.get("OPENAI_MODEL", "rehearse")


@function_tool
def weather(city: str) -> str:
    """Return the weather of a city."""
    print(f"[weather({city})]")
    return f"It is sunny in {city}."


async def main() -> None:
    """Ask twice; the second question continues the first answer."""
    key = os.environ.get("OPENAI_API_KEY", "none")
    async with AsyncOpenAI(base_url=BASE_URL, api_key=key) as client:
        model = OpenAIResponsesWSModel(MODEL, client)
        agent = Agent("guide", instructions="Be a guide.", tools=[weather], model=model)
        config = RunConfig(tracing_disabled=True)
        parent: str | None = None
        for question in ("Use the tool: what is the weather in Oslo?", "And what should I wear?"):
            print(f"> {question}")
            run = Runner.run_streamed(
                agent,
                question,
                previous_response_id=parent,
                auto_previous_response_id=True,
                run_config=config,
            )
            async for event in run.stream_events():
                if event.type == "raw_response_event":
                    print(getattr(event.data, "delta", ""), end="", flush=True)
            parent = run.last_response_id
            print()
        await model.close()


if __name__ == "__main__":
    asyncio.run(main())
