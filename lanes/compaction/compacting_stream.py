"""SHELL: a response that compacts: a compaction item, and perhaps the answer behind it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from lanes.codec import encode
from lanes.compaction.staged_stream import StagedStream
from lanes.compaction.summary import NoSummary, SummaryReader
from lanes.events import new_id
from lanes.history.entries import COMPACTION

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from lanes.compaction.summary import Summary
    from lanes.ports import Event, Stream
    from lanes.stream.run import Run

    Sink = Callable[[list[Event]], None]


@dataclass(frozen=True, slots=True)
class CompactionSteps:
    """What a response that compacts does, one after the other.

    Attributes:
        again: Asks once more, in another way, if there was no summary.
        seal: Seals the summary and what is kept beside it.
        answer: Asks for the answer to the compacted history, if there is to be one.
        most: Bytes that the summary may have.
    """

    again: Callable[[], Awaitable[Stream]] | None
    seal: Callable[[str], Awaitable[str]]
    answer: Callable[[str], Awaitable[Stream]] | None
    most: int


class CompactingStream(StagedStream):
    """The events of such a response, as a backend would send them that compacts by itself.

    Args:
        first: The answer to the request for a summary.
        asked: The settings of that request.
        steps: What comes then.
        run: The response.
    """

    def __init__(
        self, first: Stream, asked: Mapping[str, Any], steps: CompactionSteps, run: Run
    ) -> None:
        super().__init__(first)
        # The limit is for an answer. What counts here is that the summary is there.
        self.profile = replace(first.profile, counts_limit=False)
        self._first = first
        self._asked = asked
        self._steps = steps
        self._run = run
        self._announced = False
        self._item = {"type": COMPACTION, "id": new_id("cmp"), "encrypted_content": ""}

    async def relay(self, sink: Sink) -> None:
        """Relay the item, and then the answer (see `Stream.relay`)."""
        summary = await self._summarise(sink)
        if summary is None:
            return
        item = {**self._item, "encrypted_content": await self._steps.seal(summary.text)}
        sink([_event("response.output_item.done", item=item)])
        if self._steps.answer is None:
            ended = {"status": "completed", "usage": summary.usage}
            sink([_event("response.completed", response=ended)])
            return
        self._run.snapshots.spent = summary.usage
        answer = self._steps.answer
        stream = await self._open_stage(lambda: answer(summary.text))
        if stream is not None:
            self._run.trust(stream.profile)
            await self._relay_stage(stream, sink)

    async def _summarise(self, sink: Sink) -> Summary | None:
        """Return the summary; None if it is not wanted any more. Raises UpstreamFault."""
        try:
            return await self._read(self._first, sink)
        except NoSummary:
            if self._steps.again is None:
                raise
        stream = await self._open_stage(self._steps.again)
        return None if stream is None else await self._read(stream, sink)

    async def _read(self, stream: Stream, sink: Sink) -> Summary | None:
        reader = SummaryReader(self._asked, stream.profile, self._steps.most)

        def take(events: list[Event]) -> None:
            reader.receive(events)
            if reader.begun:
                self._announce(sink)
            if reader.over:
                stream.release()

        await self._relay_stage(stream, take)
        return reader.summary() if self._wanted else None

    def _announce(self, sink: Sink) -> None:
        """Begin the response and open its item, once."""
        if self._announced:
            return
        self._announced = True
        sink(
            [
                _event("response.created", response={}),
                _event("response.output_item.added", item=self._item),
                _event("response.compaction.compacting", item_id=self._item["id"]),
            ]
        )


def _event(name: str, **fields: Any) -> Event:
    return name, encode({"type": name, **fields})
