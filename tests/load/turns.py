"""A gateway's socket that steers: every answer waits at its last delta, and a successor follows.

What it does on a steer is a `Turn`, which a test may spoil before it is played.
"""

from __future__ import annotations

import asyncio
import json
from collections import defaultdict
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING, Any

from gateway.tools.load.plan import MAX_TURNS
from tests.load.stub import Stub

if TYPE_CHECKING:
    from collections.abc import Callable

    from websockets.asyncio.server import ServerConnection

    from tests.load.script import Events

CALL = {"id": "fc_1", "type": "function_call", "name": "look", "call_id": "call_1"}
_WORDS = 20


@dataclass
class Turn:
    """What follows the last delta of a response that was steered, in order."""

    response: dict[str, Any]
    steer: dict[str, Any]
    steer_id: str
    others: list[str]  # what other lanes' steers said
    ended: Events = field(default_factory=list)
    told: Events = field(default_factory=list)
    ended_first: bool = False
    follow: list[dict[str, Any]] = field(default_factory=list)
    late: Events = field(default_factory=list)

    def event(self, kind: str, **fields: Any) -> dict[str, Any]:
        """One of the three steer events."""
        name = {"id": self.steer_id, "previous_response_id": self.response["id"]}
        return {"type": f"response.steer.{kind}", "steer": {**name, **fields.pop("steer", {})}}

    def failed(self, code: str, value: Any) -> dict[str, Any]:
        """`response.steer.failed`."""
        event = self.event("failed", steer={"input": value})
        return {**event, "error": {"type": "invalid_request_error", "code": code}}

    def end(self, status: str, reason: str | None = None, *more: dict[str, Any]) -> None:
        """How the response ends."""
        text = self.response.pop("_text")
        place = {"item_id": "msg", "output_index": 0}
        part = {"type": "output_text", "text": text, "annotations": []}
        item = {"id": "msg", "type": "message", "role": "assistant", "content": [part]}
        done = {"type": "response.output_text.done", **place, "content_index": 0, "text": text}
        events = [done, {"type": "response.output_item.done", "output_index": 0, "item": item}]
        for index, one in enumerate(more, 1):
            events += [
                {"type": f"response.output_item.{step}", "output_index": index, "item": one}
                for step in ("added", "done")
            ]
        details = {"reason": reason} if reason else None
        end = {**self.response, "status": status, "output": [item, *more]}
        events.append(
            {"type": f"response.{status}", "response": {**end, "incomplete_details": details}}
        )
        self.response["_text"] = text
        self.ended = events


class SteerStub(Stub):
    """Spoils the turn of the `at`th steer, or of every one if that is 0."""

    def __init__(self) -> None:
        super().__init__()
        self.at = 4
        self.repeats = True
        self.plant: Callable[[Turn], None] = lambda turn: None
        self._numbers = count(1)
        self._depth: dict[str, int] = {}
        self._steers: defaultdict[str, asyncio.Future[dict[str, Any]]] = defaultdict(asyncio.Future)
        self._said: list[tuple[str, str]] = []

    async def serve(self, connection: ServerConnection) -> None:
        lanes: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        async with asyncio.TaskGroup() as group:
            async for message in connection:
                frame = json.loads(message)
                if frame["type"] == "response.steer":
                    assert frame.keys() == {"type", "previous_response_id", "input"}
                    self._steers[frame["previous_response_id"]].set_result(frame)
                else:
                    self.creates.append(frame)
                    group.create_task(self._lane(connection, lanes[frame["stream_id"]], frame))
            for steer in self._steers.values():
                steer.cancel()

    async def _lane(
        self, connection: ServerConnection, lane: asyncio.Lock, create: dict[str, Any]
    ) -> None:
        async with lane:
            await self._respond(connection, create)

    async def _respond(self, connection: ServerConnection, create: dict[str, Any]) -> None:
        """A response, and whatever follows it."""
        response = self._begin(create)
        numbers = count()

        async def send(events: Events) -> None:
            for event in events:
                number = {"sequence_number": next(numbers), "stream_id": create["stream_id"]}
                await connection.send(json.dumps({**number, **event}))
                await asyncio.sleep(0)  # the other lanes' turn

        await send(_opening(response))
        turn = await self._turn(create, response)
        if turn.ended_first:
            await send(turn.ended + turn.told)
        else:
            await send(turn.told + turn.ended)
        for successor in turn.follow:
            await self._respond(connection, successor)
        await send(turn.late)

    def _begin(self, create: dict[str, Any]) -> dict[str, Any]:
        parent = create.get("previous_response_id")
        name = f"resp_{next(self._numbers):032x}"
        self._depth[name] = self._depth.get(parent or "", 0) + 1
        words = f'You said "{create["input"]}".'.split() if self.repeats else []
        words += ["so"] * (_WORDS - len(words))
        base: dict[str, Any] = {
            "id": name,
            "object": "response",
            "status": "in_progress",
            "output": [],
        }
        base |= {"previous_response_id": parent, "metadata": create["metadata"]}
        return {**base, "_text": " ".join(words)}

    async def _turn(self, create: dict[str, Any], response: dict[str, Any]) -> Turn:
        if self._depth[response["id"]] >= MAX_TURNS:
            turn = Turn(response, {}, "", [])
            turn.end("completed")
            return turn
        steer = await self._steers[response["id"]]
        value = steer["input"]
        said = value if isinstance(value, str) else value[0]["content"]
        others = [text for lane, text in self._said if lane != create["stream_id"]]
        self._said.append((create["stream_id"], said))
        turn = Turn(response, steer, f"steer_{len(self._said):032x}", others)
        turn.told = [turn.event("accepted")]
        turn.end("incomplete", "steered")
        turn.follow = [{**create, "input": said, "previous_response_id": response["id"]}]
        if self.at in (0, len(self._said)):
            self.plant(turn)
        return turn


def _opening(response: dict[str, Any]) -> Events:
    words = response["_text"].split(" ")
    shown = {key: value for key, value in response.items() if key != "_text"}
    added = {"id": "msg", "type": "message"}
    place: dict[str, Any] = {"item_id": "msg", "output_index": 0, "content_index": 0}
    deltas = [word if index == 0 else f" {word}" for index, word in enumerate(words)]
    return [
        {"type": "response.created", "response": shown},
        {"type": "response.in_progress", "response": shown},
        {"type": "response.output_item.added", "output_index": 0, "item": added},
        *({"type": "response.output_text.delta", **place, "delta": one} for one in deltas),
    ]
