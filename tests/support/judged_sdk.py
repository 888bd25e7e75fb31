"""Puts the judge between the wire and an official client, and follows each lane with the SDK's own
accumulator, the one behind `responses.stream()`: it raises on anything that is out of order."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from openai import omit
from openai.lib.streaming.responses._responses import ResponseStreamState

from tests.support.judge import StreamJudge
from tests.support.judge_response import TERMINALS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from openai.resources.responses.responses import AsyncResponsesConnection, ResponsesConnection
    from openai.types.responses import Response
    from openai.types.responses.responses_server_event import ResponsesServerEvent

#: The gateway's own model name for what `multilane rehearse` answers.
MODEL = "rehearse"


def judged(connection: AsyncResponsesConnection | ResponsesConnection) -> StreamJudge:
    """Judge each frame before the client parses it."""
    judge = StreamJudge()
    parse = connection.parse_event

    def parse_event(data: str | bytes) -> ResponsesServerEvent:
        judge.receive(json.loads(data))
        return parse(data)

    # Shadows the method on this one connection; `recv` and iteration both go through it.
    vars(connection)["parse_event"] = parse_event
    return judge


class Follower:
    """What one lane said: its events, and the SDK's own reading of its latest response."""

    def __init__(self) -> None:
        self.events: list[Any] = []
        self.deltas = ""
        self.ended: Response | None = None
        self._state: Any = None

    def receive(self, event: Any) -> None:
        self.events.append(event)
        if event.type == "response.created":
            self._state = ResponseStreamState(text_format=omit, input_tools=omit)
            self.deltas, self.ended = "", None
        if event.type == "error":
            raise AssertionError(event.to_json())
        self._state.handle_event(event)
        if event.type == "response.output_text.delta":
            self.deltas += event.delta
        elif event.type in TERMINALS:
            self.ended = event.response
            if event.type == "response.completed":
                assert self._state._completed_response.output_text == event.response.output_text


class Lanes:
    """Every lane of a connection, by `stream_id`; the order of lanes is the order on the wire."""

    def __init__(self) -> None:
        self.order: list[str | None] = []
        self._lanes: dict[str | None, Follower] = {}

    def __getitem__(self, lane: str | None) -> Follower:
        return self._lanes.setdefault(lane, Follower())

    def receive(self, event: Any) -> None:
        lane = event.to_dict().get("stream_id")
        self.order.append(lane)
        self[lane].receive(event)

    def running(self, lanes: tuple[str | None, ...]) -> bool:
        return any(self[lane].ended is None for lane in lanes)

    def take(self, events: Iterator[Any], *lanes: str | None) -> list[Response]:
        """Read until the latest response of each of these lanes has ended."""
        self._begin(lanes)
        while self.running(lanes):
            self.receive(next(events))
        return self._end(lanes)

    async def follow(self, events: AsyncIterator[Any], *lanes: str | None) -> list[Response]:
        """`take` for the asynchronous client."""
        self._begin(lanes)
        while self.running(lanes):
            self.receive(await anext(events))
        return self._end(lanes)

    def _begin(self, lanes: tuple[str | None, ...]) -> None:
        for lane in lanes:
            self[lane].ended = None

    def _end(self, lanes: tuple[str | None, ...]) -> list[Response]:
        ended = [self[lane].ended for lane in lanes]
        assert None not in ended
        return [response for response in ended if response is not None]
