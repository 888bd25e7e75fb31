"""A chat on the terminal that takes a new line while the answer is being written.

    make serve                                       # in another terminal
    pip install "openai[realtime]" && python examples/steering.py

Type "Tell me about whales in 300 words", and while it writes "No, ants, in 10 words". Ctrl-D ends
the chat. OPENAI_BASE_URL and OPENAI_MODEL name another gateway or model.
"""

import asyncio
import os
import sys
from typing import Any

from openai import AsyncOpenAI
from openai.resources.responses.responses import AsyncResponsesConnection

BASE_URL = os.environ.get("OPENAI_BASE_URL", "http://127.0.0.1:8080/v1")
MODEL = os.environ.get("OPENAI_MODEL", "rehearse")
ENDS = ("response.completed", "response.incomplete", "response.failed", "error")


def followed(event: Any) -> bool:
    """Return whether it is the end of a steered response, which its successor follows."""
    details = event.response.incomplete_details if event.type == "response.incomplete" else None
    return details is not None and details.reason == "steered"


class Chat:
    """One conversation; `latest` is its last response, `idle` is set while none is written."""

    def __init__(self, connection: AsyncResponsesConnection) -> None:
        self.connection, self.latest, self.idle = connection, "", asyncio.Event()
        self.idle.set()

    async def say(self, line: str) -> None:
        """Steer the answer that is being written, or begin a new turn."""
        if self.latest and not self.idle.is_set():
            await self.connection.response.steer(previous_response_id=self.latest, input=line)
            return
        self.idle.clear()
        parent = self.latest or None
        await self.connection.response.create(model=MODEL, input=line, previous_response_id=parent)

    async def listen(self) -> None:
        """Print what comes; a steer that comes too late becomes a turn of its own."""
        async for event in self.connection:
            if event.type == "response.created":
                self.latest = event.response.id
            elif event.type == "response.output_text.delta":
                print(event.delta, end="", flush=True)
            elif event.type == "response.steer.accepted":
                print(" [steered]")
            elif event.type == "response.steer.failed":
                self.idle.set()
                await self.say(str(event.steer.input))
            elif event.type in ENDS and not followed(event):
                print(f" [{event.type}]")
                self.idle.set()


async def main() -> None:
    """Chat until the input ends."""
    client = AsyncOpenAI(base_url=BASE_URL, api_key=os.environ.get("OPENAI_API_KEY", "none"))
    async with client, client.responses.connect() as connection:
        chat = Chat(connection)
        listening = asyncio.create_task(chat.listen())
        while line := await asyncio.to_thread(sys.stdin.readline):
            await chat.say(line.strip())
        await chat.idle.wait()
        listening.cancel()


asyncio.run(main())
