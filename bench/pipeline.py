"""The gateway's token path in memory: upstream bytes in, finished WebSocket frames out."""

from __future__ import annotations

import time
from itertools import count
from typing import TYPE_CHECKING, Any

from gateway.client.outbox import SocketOutbox
from gateway.http.sse import SseOutbox, SseWriter
from gateway.upstream.transport.http.sse import SseSplitter
from lanes.codec import encode
from lanes.events import Stamp
from lanes.stream.profile import Profile
from lanes.stream.run import Run

if TYPE_CHECKING:
    from collections.abc import Callable

    from gateway.upstream.chat.stream import ChatConverter
    from lanes.ports import Event

_TEXT = "of the sea and the wind, "
_HEARTBEAT = 3600.0  # seconds
_LIMIT = 1 << 20  # bytes of one event
_ITEM = "msg_0123456789abcdef0123456789abcdef"


class Discard:
    """Implements `FrameWriter`: counts the writes and drops the bytes."""

    def __init__(self) -> None:
        self.writes = 0

    def write_frames(self, frames: bytes) -> None:  # noqa: ARG002
        """Count one write (see `FrameWriter.write_frames`)."""
        self.writes += 1


def sse(event: dict[str, Any], *, named: bool = True) -> bytes:
    """Return an event as a backend writes it, with its `event:` line if `named`."""
    head = f"event: {event['type']}\n".encode() if named else b""
    return head + b"data: " + encode(event) + b"\n\n"


def opening() -> list[dict[str, Any]]:
    """Return the events up to a text's first delta, as OpenAI sends them."""
    response = {"id": "resp_upstream", "object": "response", "status": "in_progress", "output": []}
    item = {"id": _ITEM, "type": "message", "role": "assistant", "status": "in_progress"}
    part = {"type": "output_text", "text": "", "annotations": [], "logprobs": []}
    place = {"item_id": _ITEM, "output_index": 0, "content_index": 0}
    return [
        {"type": "response.created", "response": response},
        {"type": "response.in_progress", "response": response},
        {"type": "response.output_item.added", "output_index": 0, "item": {**item, "content": []}},
        {"type": "response.content_part.added", **place, "part": part},
    ]


def delta() -> dict[str, Any]:
    """Return a text delta of about 250 bytes with its SSE lines, as OpenAI sends it."""
    return {
        "type": "response.output_text.delta",
        "sequence_number": 12,
        "item_id": _ITEM,
        "output_index": 0,
        "content_index": 0,
        "delta": _TEXT,
        "logprobs": [],
    }


def chunk(delta: dict[str, Any], **more: Any) -> bytes:
    """Return one chunk of Chat Completions as SSE."""
    choice = {"index": 0, "delta": delta, "finish_reason": None}
    head = {"id": "chatcmpl-0123456789abcdef", "object": "chat.completion.chunk", "created": 1}
    body = {**head, "model": "model-name", "choices": [choice], **more}
    return b"data: " + encode(body) + b"\n\n"


class Pipeline:
    """One response on its way from the splitter to the frames.

    Args:
        converter: Converts Chat Completions, None for a backend of the Responses API.
        stream_id: The client's lane; None over HTTP, as server-sent events.
    """

    def __init__(
        self, converter: ChatConverter | None = None, stream_id: str | None = "lane-1"
    ) -> None:
        self.writer = Discard()
        self.outbox = SocketOutbox(self.writer) if stream_id else self._http()
        self._split = SseSplitter(_LIMIT).feed
        self._convert: Callable[[list[Event]], list[Event]] | None = None
        if converter is not None:
            self._convert = converter.feed
        stamp, put, numbers = Stamp(stream_id), self.outbox.put, count()
        request = {"model": "model-name", "input": "hi", "store": False}
        self.run = Run(
            f"resp_{'0' * 32}",
            request,
            Profile(),
            lambda *pieces: put(stamp, *pieces),
            mint=lambda prefix: f"{prefix}_{next(numbers):032x}",
            clock=time.time,
        )
        self._receive = self.run.receive

    def _http(self) -> SseOutbox:
        outbox = SseOutbox()
        outbox.open(SseWriter(self.writer.write_frames, _HEARTBEAT))
        return outbox

    def sink(self, events: list[Event]) -> None:
        """Take the events of one read, without a flush."""
        receive = self._receive
        for name, data in events:
            receive(name, data)

    def read(self, data: bytes) -> None:
        """Take one network read and write its frames."""
        events = self._split(data)
        if self._convert is not None:
            events = self._convert(events)
        receive = self._receive
        for name, event in events:
            receive(name, event)
        self.outbox.flush()


class Replayed:
    """A pipeline that is opened anew for each round and then takes the same read again and again.

    Args:
        opened: The bytes before the first measured read.
        data: The measured read.
        converter: Makes the converter of each pipeline, None for the Responses API.
        stream_id: The client's lane; None over HTTP.
    """

    def __init__(
        self,
        opened: bytes,
        data: bytes,
        converter: Callable[[], ChatConverter] | None = None,
        stream_id: str | None = "lane-1",
    ) -> None:
        self._stream_id = stream_id
        self._opened = opened
        self._data = data
        self._converter = converter

    def fresh(self) -> None:
        """Open a new pipeline and check that it relays."""
        self.pipeline = Pipeline(self._converter() if self._converter else None, self._stream_id)
        self._read = self.pipeline.read
        self._read(self._opened)
        before = self.pipeline.writer.writes
        self._read(self._data)
        assert self.pipeline.writer.writes == before + 1, "the read makes no frame"

    def step(self) -> None:
        """Take the measured read once."""
        self._read(self._data)
