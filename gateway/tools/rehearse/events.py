"""A plan -> the events of OpenAI's stream, each with the words that it takes to say."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gateway.tools.rehearse.calls import ScriptedCall
from gateway.tools.rehearse.items import SEAL
from gateway.tools.rehearse.response import response, usage
from gateway.tools.rehearse.script import Ending, ScriptedMessage, ScriptedReasoning

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from gateway.tools.rehearse.script import AnswerPlan

#: The time before an event, in words, and the event.
TimedEvent = tuple[int, dict[str, Any]]

_PIECES_BEFORE_FAILURE = 5
_CALLS = {
    "function": ("fc", "function_call", "arguments", "function_call_arguments"),
    "custom": ("ctc", "custom_tool_call", "input", "custom_tool_call_input"),
}


class _Broken(Exception):
    """The plan stops in the middle of a part."""


class ResponseEvents:
    """One response on its way.

    Args:
        request: The checked request.
        plan: The plan of the answer.
        seed: 32 hex digits that make the response's ids unique.
        now: The clock, in seconds since the epoch.
    """

    def __init__(
        self, request: dict[str, Any], plan: AnswerPlan, seed: str, now: Callable[[], float]
    ) -> None:
        self._plan = plan
        self._seed = seed
        self._now = now
        self._encrypted = "reasoning.encrypted_content" in (request.get("include") or [])
        self._limit: int | None = request.get("max_output_tokens")
        self._number = -1
        self._written = self._reasoned = 0
        self._full = False
        self.response = response(request, f"resp_{seed}", int(now()))

    def timed(self) -> Iterator[TimedEvent]:
        """Yield every event in order. A cut response ends without a terminal event."""
        yield 0, self._snapshot("response.created")
        yield 0, self._snapshot("response.in_progress")
        try:
            for index, part in enumerate(self._plan.parts):
                yield from self._part(index, part)
                if self._full:
                    break
            self._break_off()
        except _Broken:
            if self._plan.ending is Ending.CUT:
                return
            self._end("failed")
            message = "You asked me to fail midway."
            self.response["error"] = {"code": "server_error", "message": message}
        else:
            self._end("incomplete" if self._full else "completed")
        yield 0, self._snapshot(f"response.{self.response['status']}")

    def _part(
        self, index: int, part: ScriptedReasoning | ScriptedMessage | ScriptedCall
    ) -> Iterator[TimedEvent]:
        if self._limit is not None and self._written >= self._limit:
            self._full = True
            return
        match part:
            case ScriptedReasoning():
                yield from self._reasoning(index, part)
            case ScriptedMessage():
                yield from self._message(index, part)
            case ScriptedCall():
                yield from self._call(index, part)

    @property
    def _status(self) -> str:
        """The status of an item that ends now."""
        return "incomplete" if self._full else "completed"

    def _within_limit(self, pieces: Iterable[str]) -> Iterator[str]:
        """Yield as many pieces as the plan and `max_output_tokens` allow."""
        for piece in pieces:
            if self._limit is not None and self._written >= self._limit:
                self._full = True
                return
            # A scripted failure hits the answer, not the reasoning before it.
            if self._written - self._reasoned >= _PIECES_BEFORE_FAILURE:
                self._break_off()
            self._written += 1
            yield piece

    def _think(self, pieces: Iterable[str]) -> Iterator[str]:
        """Yield the same pieces, counted as reasoning."""
        for piece in self._within_limit(pieces):
            self._reasoned += 1
            yield piece

    def _break_off(self) -> None:
        if self._plan.ending in (Ending.FAIL, Ending.CUT):
            raise _Broken

    def _end(self, status: str) -> None:
        self.response["status"] = status
        self.response["usage"] = usage(self._plan.words_in, self._written, self._reasoned)
        if status == "completed":
            self.response["completed_at"] = int(self._now())
        elif status == "incomplete":
            self.response["incomplete_details"] = {"reason": "max_output_tokens"}

    def _id(self, prefix: str, index: int) -> str:
        """Return the id of the part at `index`."""
        return f"{prefix}_{self._seed[:-4]}{index:04x}"

    def _item(self, state: str, index: int, item: dict[str, Any]) -> dict[str, Any]:
        """Make an item's `added` or `done` event; later snapshots hold every done item."""
        if state == "done":
            self.response["output"] = [*self.response["output"], item]
        return self._event(f"response.output_item.{state}", output_index=index, item=item)

    def _snapshot(self, kind: str) -> dict[str, Any]:
        return self._event(kind, response=dict(self.response))

    def _event(self, kind: str, **fields: Any) -> dict[str, Any]:
        """Make the next event of the stream."""
        self._number += 1
        return {"type": kind, "sequence_number": self._number, **fields}

    def _reasoning(self, index: int, part: ScriptedReasoning) -> Iterator[TimedEvent]:
        item: dict[str, Any] = {"id": self._id("rs", index), "type": "reasoning", "summary": []}
        sealed = {"encrypted_content": "rehearsal-partial"} if self._encrypted else {}
        yield 0, self._item("added", index, {**item, **sealed})
        waited = 0
        for at, pieces in enumerate(part.parts):
            where = {"item_id": item["id"], "output_index": index, "summary_index": at}
            if not part.shown:
                waited += sum(1 for _ in self._think(pieces))
            elif not self._full:
                yield from self._summary(where, pieces, item["summary"])
        if self._encrypted:
            sealed = {"encrypted_content": f"{SEAL}{self._seed}{index}"}
        yield waited, self._item("done", index, {**item, **sealed})

    def _summary(
        self, where: dict[str, Any], pieces: tuple[str, ...], summary: list[dict[str, str]]
    ) -> Iterator[TimedEvent]:
        kind, part = "response.reasoning_summary", {"type": "summary_text", "text": ""}
        yield 0, self._event(f"{kind}_part.added", **where, part=part)
        text = ""
        for piece in self._think(pieces):
            text += piece
            yield 1, self._event(f"{kind}_text.delta", **where, delta=piece)
        part = {"type": "summary_text", "text": text}
        yield 0, self._event(f"{kind}_text.done", **where, text=text)
        yield 0, self._event(f"{kind}_part.done", **where, part=part)
        summary.append(part)

    def _message(self, index: int, message: ScriptedMessage) -> Iterator[TimedEvent]:
        item_id = self._id("msg", index)
        where = {"item_id": item_id, "output_index": index, "content_index": 0}
        key, kind = ("refusal", "refusal") if message.refusal else ("text", "output_text")
        bare: dict[str, Any] = {} if message.refusal else {"logprobs": []}
        part = {"type": kind, **({} if message.refusal else {"annotations": []}), **bare}
        item = {"id": item_id, "type": "message", "role": "assistant", "status": "in_progress"}
        yield 0, self._item("added", index, {**item, "content": []})
        yield 0, self._event("response.content_part.added", **where, part={**part, key: ""})
        text = ""
        for piece in self._within_limit(message.pieces):
            text += piece
            yield 1, self._event(f"response.{kind}.delta", **where, delta=piece, **bare)
        part = {**part, key: text}
        yield 0, self._event(f"response.{kind}.done", **where, **{key: text}, **bare)
        yield 0, self._event("response.content_part.done", **where, part=part)
        yield 0, self._item("done", index, {**item, "status": self._status, "content": [part]})

    def _call(self, index: int, call: ScriptedCall) -> Iterator[TimedEvent]:
        prefix, kind, key, event = _CALLS[call.kind]
        item_id = self._id(prefix, index)
        where = {"item_id": item_id, "output_index": index}
        item = {"id": item_id, "type": kind, "call_id": self._id("call", index), "name": call.name}
        item |= {} if call.namespace is None else {"namespace": call.namespace}
        # Custom calls carry no status, and the end of their input no name.
        function = call.kind == "function"
        opened = {"status": "in_progress"} if function else {}
        named = {"name": call.name} if function else {}
        yield 0, self._item("added", index, {**item, **opened, key: ""})
        text = ""
        for piece in self._within_limit(call.pieces):
            text += piece
            yield 1, self._event(f"response.{event}.delta", **where, delta=piece)
        yield 0, self._event(f"response.{event}.done", **where, **{key: text}, **named)
        closed = {"status": self._status} if function else {}
        yield 0, self._item("done", index, {**item, **closed, key: text})
