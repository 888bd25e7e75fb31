"""A backend in memory whose every event the play decides, and which knows where it may be cut."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lanes.errors import UpstreamFault
from lanes.stream.profile import Profile
from lanes.stream.run_states import RunStep
from tests.steering import watch
from tests.support.events import message, response

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from lanes.ports import BackendSteering, Event

CLIENT_OWNED = ("call", "custom")
_ITEMS: dict[str, dict[str, Any]] = {
    "message": message(""),
    "reason": {"type": "reasoning", "summary": []},
    "sealed": {"type": "reasoning", "summary": [], "encrypted_content": "gA=="},
    "call": {"type": "function_call", "name": "w", "arguments": "", "status": "in_progress"},
    "custom": {"type": "custom_tool_call", "name": "w", "input": ""},
    "hosted": {"type": "web_search_call", "status": "in_progress", "action": {"type": "search"}},
}
_ITEMS["hosted"]["action"] |= {"query": "q", "queries": ["q"]}
_DELTAS = {
    "message": "output_text",
    "reason": "reasoning_text",
    "sealed": "reasoning_summary_text",
    "call": "function_call_arguments",
    "custom": "custom_tool_call_input",
}
_DONE: dict[str, dict[str, Any]] = {
    "call": {"status": "completed"},
    "hosted": {"status": "completed"},
    "message": {"status": "completed"},
}


@dataclass(eq=False)
class Body:
    """One request and its answer on the way; a lanes.ports.Stream. `open` is the item under way."""

    lane: str | None
    items: list[dict[str, Any]]
    answered: asyncio.Future[None]
    over: asyncio.Future[None]
    texts: list[str]
    profile: Profile
    open: str | None = None
    text: str = ""
    steering: BackendSteering | None = None
    called: bool = False
    began: bool = False
    count: int = -1
    backlog: list[Event] = field(default_factory=list)
    sink: Callable[[list[Event]], None] | None = None

    @property
    def live(self) -> bool:
        """Whether the gateway still listens."""
        return not self.over.done()

    @property
    def safe(self) -> bool:
        """Whether the response may stop here (protocol.md 5)."""
        plain = self.open is None or (self.profile.cuts_text and self.open in ("message", "reason"))
        return plain and not self.called

    @property
    def ours(self) -> bool:
        """Whether it is the gateway that has to find the boundary."""
        return True

    # What the play does

    def begin(self) -> None:
        self.began = True
        self._say("response.created", response=response("r1", "in_progress"))

    def item(self, kind: str) -> None:
        self.open, self.text = kind, ""
        self.count += 1
        self._say("response.output_item.added", output_index=self.count, item=self._item(kind))

    def delta(self, text: str) -> None:
        kind = self.open or ""
        place: dict[str, Any] = {"item_id": f"i{self.count}", "output_index": self.count}
        if kind in ("message", "reason"):
            place["content_index"] = 0
        elif kind == "sealed":
            place["summary_index"] = 0
        self.text += text
        self._say(f"response.{_DELTAS[kind]}.delta", **place, delta=text)

    def done(self) -> None:
        kind = self.open or ""
        # Set first: the event itself may be the boundary at which the gateway hangs up.
        self.open, self.called = None, self.called or kind in CLIENT_OWNED
        whole = {**self._item(kind), **_DONE.get(kind, {})}
        if kind == "message":
            whole["content"] = message(self.text)["content"]
        elif kind in CLIENT_OWNED:
            whole["arguments" if kind == "call" else "input"] = self.text
        elif kind == "sealed":
            whole["summary"] = [{"type": "summary_text", "text": self.text}] if self.text else []
        elif kind == "reason" and self.text:
            whole["content"] = [{"type": "reasoning_text", "text": self.text}]
        self._say("response.output_item.done", output_index=self.count, item=whole)

    def end(self, how: str) -> None:
        """completed, incomplete, failed, or cut off."""
        if how == "cut off":
            if self.live:
                self.over.set_result(None)
            return
        extra: dict[str, Any] = {"output": []}
        if how == "incomplete":
            extra["incomplete_details"] = {"reason": "max_output_tokens"}
        elif how == "failed":
            extra["error"] = {"code": "server_error", "message": "boom"}
        self._say(f"response.{how}", response=response("r1", how, **extra))

    def _item(self, kind: str) -> dict[str, Any]:
        item = {**_ITEMS[kind], "id": f"i{self.count}"}
        if kind in CLIENT_OWNED:
            item["call_id"] = f"c{id(self)}-{self.count}"
        return item

    def _say(self, kind: str, **fields: Any) -> None:
        event = (None, json.dumps({"type": kind, **fields}).encode())
        if self.sink is None:
            self.backlog.append(event)
        elif self.live:
            self.sink([event])

    # What the gateway does

    async def relay(self, sink: Callable[[list[Event]], None]) -> None:
        self.sink = sink
        if self.backlog:
            sink(self.backlog)
        try:
            await self.over
        finally:
            if self.live:
                self.over.cancel()

    def close(self) -> None:
        """The gateway hangs up: for a steer only where that is safe, for its client anywhere."""
        if not self.safe and watch.last != [RunStep.CANCEL]:
            raise AssertionError(f"cut inside {self.open}, finished calls: {self.called}")
        self.release()

    def release(self) -> None:
        if self.live:
            self.over.set_result(None)

    def pause(self) -> None:
        """Nothing here is fast enough to need it."""

    def resume(self) -> None:
        """The same."""


class Backend:
    """Implements lanes.ports.Upstream; `bodies` are all requests, in order of arrival."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, *, cuts_text: bool, max_active: int
    ) -> None:
        self.profile = Profile(cuts_text=cuts_text)
        self.bodies: list[Body] = []
        self.loop = loop
        self._max_active = max_active

    @property
    def live(self) -> list[Body]:
        return [body for body in self.bodies if body.live]

    def on(self, lane: str | None) -> Body:
        """The latest request on a lane."""
        return [body for body in self.bodies if body.lane == lane][-1]

    def begun(self, lane: str | None) -> Body:
        """The one of which the client hears on a lane that it has begun."""
        return self.on(lane)

    def make(self, lane: str | None, items: list[dict[str, Any]], texts: list[str]) -> Body:
        """An answer that is on its way to a request with these items."""
        futures = self.loop.create_future(), self.loop.create_future()
        return Body(lane, items, *futures, texts, self.profile)

    async def open(
        self, body: Mapping[str, Any], items: Sequence[bytes], headers: Mapping[str, str]
    ) -> Body:
        lane = body["metadata"].get("lane")
        read = [json.loads(item) for item in items]
        assert len(self.live) < self._max_active, "too many at a time"
        assert lane not in [one.lane for one in self.live], "two runs on one lane"
        made = self.make(lane, read, texts_of(read))
        self.bodies.append(made)
        try:
            await made.answered
        except UpstreamFault:
            made.release()
            raise
        except asyncio.CancelledError:
            made.release()
            raise
        return made


def texts_of(items: list[dict[str, Any]]) -> list[str]:
    """What was said in these items, by whom ever; nothing that is empty."""
    found = []
    for item in items:
        content = item.get("content") if item["type"] == "message" else None
        text = content if isinstance(content, str) else "".join(p["text"] for p in content or ())
        found.append(text)
    return [text for text in found if text]
