"""A running rehearsal and the ways tests talk to it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from openai.types.responses import Response, ResponseStreamEvent
from pydantic import TypeAdapter

from tests.support.judge import judge

if TYPE_CHECKING:
    from collections.abc import Iterable

    import httpx2

_STRICT: TypeAdapter[Any] = TypeAdapter(ResponseStreamEvent)

WEATHER: dict[str, Any] = {
    "type": "function",
    "name": "get_weather",
    "parameters": {
        "type": "object",
        "properties": {
            "city": {"type": "string"},
            "days": {"type": "integer"},
            "unit": {"type": "string", "enum": ["celsius", "fahrenheit"]},
        },
        "required": ["city"],
    },
}


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def assistant(text: str, status: str = "completed") -> dict[str, Any]:
    part = {"type": "output_text", "text": text, "annotations": []}
    return {"type": "message", "role": "assistant", "status": status, "content": [part]}


def parse(lines: Iterable[str]) -> list[dict[str, Any]]:
    """Events of a stream in the one shape it may have."""
    events = []
    lines = iter(lines)
    for line in lines:
        assert line.startswith("event: ")
        data = next(lines)
        assert data.startswith("data: ")
        event = json.loads(data[6:])
        assert event["type"] == line[7:]
        assert next(lines, "") == ""
        _STRICT.validate_json(data[6:], strict=True)
        events.append(event)
    return events


@dataclass(frozen=True)
class Rehearsal:
    """Where it listens, a client for it, and its process."""

    url: str
    http: httpx2.Client
    pid: int

    def ask(
        self, said: str | list[dict[str, Any]], *, judged: bool = True, **more: Any
    ) -> list[dict[str, Any]]:
        """A stream, from created to its terminal.

        The judge is made for what clients get. A backend is freer: it may leave open what was open
        at a failure, and send encrypted content before it is whole.
        """
        body = {"model": "any-name", "input": said, "stream": True, **more}
        with self.http.stream("POST", "/responses", json=body) as answer:
            assert answer.status_code == 200, answer.read()
            assert answer.headers["content-type"].startswith("text/event-stream")
            events = parse(answer.iter_lines())
        if judged:
            judge(events)
        assert [event["sequence_number"] for event in events] == list(range(len(events)))
        return events

    def say(self, said: str | list[dict[str, Any]], **more: Any) -> str:
        """The text of a whole response, not streamed."""
        body = {"model": "any-name", "input": said, **more}
        answer = self.http.post("/responses", json=body)
        assert answer.status_code == 200, answer.text
        return Response.model_validate_json(answer.content, strict=True).output_text

    def stats(self) -> dict[str, int]:
        figures: dict[str, int] = self.http.get(self.url.removesuffix("v1") + "stats").json()
        return figures


def last(events: list[dict[str, Any]]) -> dict[str, Any]:
    """The terminal's response."""
    response: dict[str, Any] = events[-1]["response"]
    return response


def deltas(events: list[dict[str, Any]], kind: str) -> list[str]:
    return [event["delta"] for event in events if event["type"] == f"response.{kind}.delta"]
