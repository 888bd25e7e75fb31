"""A backend that is asked for a response, and answers in the form of Chat Completions."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, cast

import pytest

from gateway.upstream.chat.stream import converter
from gateway.upstream.responses_stream import ResponsesStream
from gateway.upstream.transport.http.sse import SseSplitter
from lanes.codec import encode
from lanes.errors import UpstreamFault
from lanes.history.makers import Maker
from lanes.stream.profile import Profile
from tests.dialects.chatting import HEAD, Chunk, body, call, chunk, outcome, text
from tests.machines.drive import REQUEST, Played, start
from tests.support.dialect_reading import LIMIT, check

if TYPE_CHECKING:
    from collections.abc import Callable

    from gateway.upstream.transport.http.stream import HttpStream
    from lanes.ports import Event

    Receive = Callable[[list[Event]], None]


class _Reads:
    """A stream of the transport that has these reads, then breaks off or not."""

    def __init__(self, reads: list[bytes], fault: UpstreamFault | None) -> None:
        self._reads, self._fault = reads, fault
        self.sink: Receive | None = None
        self.redirected = 0
        self.release = self.close = self.afterwards = lambda: None

    def redirect(self, sink: Receive) -> None:
        self.sink = sink
        self.redirected += 1

    async def relay(self, sink: Receive) -> None:
        self.sink, splitter = sink, SseSplitter(LIMIT)
        for data in self._reads:
            if events := splitter.feed(data):
                self.sink(events)
        if self._fault is not None:
            raise self._fault
        if last := splitter.finish():
            self.sink(last)


async def relayed(data: bytes, size: int, fault: UpstreamFault | None = None) -> Played:
    reads = _Reads([data[at : at + size] for at in range(0, len(data), size)], fault)
    profile = Profile()
    other = partial(converter, REQUEST, Maker("", ""), profile)
    transport = cast("HttpStream", reads)
    stream = ResponsesStream(transport, profile, lambda _: None, None, None, other)
    run, sent = start(REQUEST, profile)

    def receive(events: list[Event]) -> None:
        for name, value in events:
            run.receive(name, value)

    try:
        await stream.relay(receive)
    except UpstreamFault as broken:
        run.fail(broken)
    else:
        run.end()
    assert reads.redirected == 1, "no later read is looked into"
    return Played(run, sent)


MESSAGE = {"role": "assistant", "content": "ab", "reasoning_content": "Hm"}
WHOLE = {**HEAD, "choices": [{"index": 0, "message": MESSAGE, "finish_reason": "stop"}]}
CALLED = [chunk(reasoning_content="Hm"), *text("a", "b"), call(0, "f", '{"a":1}', "c")]
PING = b": hold on\n\ndata: null\n\n"


@pytest.mark.parametrize("size", [1, 50, 100000])
@pytest.mark.parametrize("before", [b"", PING])
@pytest.mark.parametrize("chunks", [[WHOLE], [*CALLED[:-1], chunk("stop")]])
async def test_an_answer_of_chat(size: int, before: bytes, chunks: list[Chunk]) -> None:
    heard = await relayed(before + body(chunks, done=size == 1), size)
    check(heard)
    assert outcome(heard) == ["completed", "reasoning Hm", "message ab"]


async def test_calls_and_what_breaks_off() -> None:
    called = await relayed(body([*CALLED, chunk("tool_calls")]), 60)
    assert outcome(called)[-1] == 'function_call  f {"a":1}'
    broken = UpstreamFault("gone", status=502, code="server_error")
    assert outcome(await relayed(body(CALLED[:2], done=False), 60, broken))[0] == "failed"
    whole = await relayed(body([*CALLED, chunk("tool_calls")], done=False), 60, broken)
    assert outcome(whole)[0] == "completed", "it had said that it is over"


EVENTS: list[dict[str, Any]] = [
    {"type": "response.created", "response": {"status": "in_progress", "output": []}},
    {"type": "response.output_text.delta", "item_id": "m", "content_index": 0, "delta": "a"},
    {"type": "response.completed", "response": {"status": "completed", "output": []}},
]


@pytest.mark.parametrize("size", [1, 100000])
async def test_a_proper_answer_with_a_chunk_in_it_stays_one(size: int) -> None:
    events = [*EVENTS[:2], WHOLE, *EVENTS[2:]]
    data = PING + b"".join(b"data: %b\n\n" % encode(one) for one in events)
    assert outcome(await relayed(data, size)) == ["completed", "message a"]
