"""Three lanes on one socket: two write at the same time, and a third forks from one of them.

    make serve                                       # in another terminal
    pip install "openai[realtime]"
    python examples/lanes.py

OPENAI_BASE_URL and OPENAI_MODEL name another gateway or model.
"""

from __future__ import annotations

import os
from collections import defaultdict
from typing import TYPE_CHECKING

from openai import OpenAI

if TYPE_CHECKING:
    from openai.resources.responses.responses import ResponsesConnection

BASE_URL = os.environ.get("OPENAI_BASE_URL", "http://127.0.0.1:8080/v1")
MODEL = os.environ.get("OPENAI_MODEL", "rehearse")


def answers(connection: ResponsesConnection, count: int) -> dict[str, str]:
    """Print the deltas of `count` responses as they come; return the response id of each lane."""
    texts: defaultdict[str, str] = defaultdict(str)
    responses: dict[str, str] = {}
    while len(responses) < count:
        event = connection.recv()
        lane = str(getattr(event, "stream_id", None))
        if event.type == "error":
            raise SystemExit(f"{lane}: {event.error.message}")
        if event.type == "response.output_text.delta":
            texts[lane] += event.delta
            print(f"{lane:>9} | {event.delta.strip()}")
        elif event.type in ("response.completed", "response.incomplete", "response.failed"):
            responses[lane] = event.response.id
    for lane in responses:
        print(f"\n{lane}: {texts[lane]}")
    return responses


def main() -> None:
    """Ask on two lanes at once, then let a third continue what the first has said."""
    client = OpenAI(base_url=BASE_URL, api_key=os.environ.get("OPENAI_API_KEY", "none"))
    with client.responses.connect() as connection:
        ask = connection.response.create
        ask(stream_id="plan", model=MODEL, input="My name is Ada. Plan a trip, in 30 words.")
        ask(stream_id="research", model=MODEL, input="What is there to see in Oslo? In 30 words.")
        plan = answers(connection, 2)["plan"]
        ask(stream_id="critic", model=MODEL, input="Criticise it.", previous_response_id=plan)
        answers(connection, 1)


if __name__ == "__main__":
    main()
