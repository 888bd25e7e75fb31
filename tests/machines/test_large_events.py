"""Large events are made in pieces and copied less often (D33); what they say is the same."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from gateway.client.outbox import SocketOutbox
from gateway.http.collector import Collector
from gateway.http.event_log import EventLog
from gateway.http.sse import SseOutbox, SseWriter
from lanes.events import Stamp
from lanes.stream.profile import Profile
from tests.machines.backend import (
    added,
    args,
    call,
    completed,
    created,
    delta,
    done,
    message,
    reasoning,
)
from tests.machines.drive import play
from tests.support.hang_guard import HANG

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.machines.drive import Event

SMALL = 'é\n"x'
LARGE = SMALL * 14_000


def streams(text: str) -> Iterator[list[Event]]:
    """Answers with this text, each made known in another way."""
    mark = {"type": "url_citation", "start_index": 0, "end_index": 1, "url": "u", "title": "t"}
    parts = [
        {"type": "output_text", "text": text, "annotations": [mark]},
        {"type": "refusal", "refusal": text},
        {"type": "output_text", "text": "short", "annotations": []},
        {"type": "of_tomorrow", "text": text},
    ]
    image = {"id": "ig_1", "type": "image_generation_call", "status": "completed", "result": text}
    summed = {"type": "summary_text", "text": text}
    for item in (
        message(text),
        message(None, content=parts),
        reasoning(text),
        reasoning("short", summary=[summed, {"type": "summary_text", "text": "short"}]),
        reasoning(encrypted_content=text),
        call(json.dumps({"k": text})),
        image,
    ):
        yield [created(), completed([item])]
        yield [created(), added(item), done(item), completed()]
        yield [created(), {**added(item), "agent": {"agent_name": "a"}}, done(item), completed()]
    yield [created(), added(message()), delta(text[:-1]), delta(text[-1:]), completed()]
    yield [created(), delta(text[:-1]), done(message(text)), completed([message(text)])]
    yield [created(), delta(text), done(message("another")), completed()]
    yield [created(), delta(text), {"type": "response.failed", "response": {"error": {}}}]
    yield [created(), delta(text)]
    yield [created(), added(call()), args(json.dumps(text)), done(call(json.dumps(text)))]


def shortened(value: Any) -> Any:
    """A value with the small text for the large one."""
    data = json.dumps(value)
    for depth in range(3):
        large, small = LARGE, SMALL
        for _ in range(depth):
            large, small = json.dumps(large)[1:-1], json.dumps(small)[1:-1]
        data = data.replace(json.dumps(large)[1:-1], json.dumps(small)[1:-1])
        cut, rest = json.dumps(large[:-1])[1:-1], json.dumps(small[:-1])[1:-1]
        data = data.replace(cut, rest)
    return json.loads(data)


def test_a_large_text_makes_the_same_events_as_a_small_one() -> None:
    for large, small in zip(streams(LARGE), streams(SMALL), strict=True):
        for profile in (Profile(), Profile(replays_reasoning=True)):
            expected, played = play(small, profile=profile), play(large, profile=profile)
            assert shortened(played.events) == expected.events, small
            entries, wanted = (
                [(entry.id, entry.calls, json.loads(entry.data)) for entry in run.entries()]
                for run in (played.run, expected.run)
            )
            assert shortened(entries) == json.loads(json.dumps(wanted)), small


class Wire:
    """Keeps what is written."""

    def __init__(self) -> None:
        self.data = b""

    def write_frames(self, frames: bytes) -> None:
        self.data += frames


@pytest.mark.parametrize("size", [1, 1 << 17])
async def test_every_outbox_takes_pieces(size: int) -> None:
    """They are one event to whoever reads it, behind those before and ahead of those after."""
    pieces = b'{"type":"response.x","text":', b'"%b"' % (b"x" * size), b',"k":[1]'
    written, logged, collected = [], [], []
    for event in (pieces, (b"".join(pieces),)):
        stamp, wire, sse, log, collector = Stamp("a"), Wire(), SseOutbox(), EventLog(), Collector()
        sent: list[bytes] = []
        writer = SseWriter(sent.append, heartbeat=HANG)
        sse.open(writer)
        for outbox in (SocketOutbox(wire), sse, log, collector):
            stamp.number = 7
            for body in ((b'{"type":"response.y"',), event, (b'{"type":"response.z"',)):
                outbox.put(stamp, *body)
            if not isinstance(outbox, EventLog | Collector):
                outbox.flush()
            assert stamp.number == 10
        writer.close()
        collector.put(stamp, b'{"type":"response.y","response":{"k":', b"[1]", b"}")
        written.append(wire.data)
        logged.append((log.events, b"".join(sent)))
        collected.append(collector.response())
    assert written[0] == written[1]
    assert logged[0] == logged[1]
    assert collected == [b'{"k":[1]}'] * 2
