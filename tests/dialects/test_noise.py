"""What carries nothing is skipped, wherever it stands and however it is written (protocol.md 4)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.upstream.transport.http.sse import SseSplitter
from lanes.codec import encode
from lanes.stream.profile import Profile
from tests.dialects.chatting import DONE, call, chunk, counted, hear, outcome, text
from tests.machines.drive import Played, start
from tests.support import noise
from tests.support.dialect_reading import LIMIT
from tests.support.events import reply

if TYPE_CHECKING:
    from collections.abc import Iterable

#: Bounded by the number of bodies; how long they take is the machine's affair.
pytestmark = pytest.mark.timeout(300)

CHAT = [
    b"data: %b\n\n" % encode(one)
    for one in (
        *(chunk(reasoning_content="Hm"), *text("a", "b")),
        *(call(0, "f", '{"a"', "c1"), call(0, None, ":1}"), chunk("tool_calls"), counted()),
    )
] + [DONE]


def relayed(reads: Iterable[bytes]) -> Played:
    """Play one body of Responses events."""
    splitter = SseSplitter(LIMIT)
    run, sent = start({"model": "m"}, Profile())
    for read in reads:
        for name, data in splitter.feed(read):
            run.receive(name, data)
    for name, data in splitter.finish():
        run.receive(name, data)
    run.end()
    return Played(run, sent)


def between(events: list[bytes], noises: list[tuple[int, bytes]]) -> bytes:
    """The events with noise before those at these places."""
    made = list(events)
    for at, data in sorted(noises, reverse=True):
        made.insert(min(at, len(events)), data)
    return b"".join(made)


def places(objects: Any) -> Any:
    return st.lists(st.tuples(st.integers(0, 12), noise.lines(objects)), max_size=6)


def cut(body: bytes, size: int) -> list[bytes]:
    return [body[at : at + size] for at in range(0, len(body), size)]


@given(
    places(noise.OBJECTS), st.sampled_from([1, 11, 4096]), st.sampled_from([b"\n", b"\r\n", b"\r"])
)
def test_a_responses_stream(noises: list[tuple[int, bytes]], size: int, end: bytes) -> None:
    body = between(list(reply("a", "b")), noises).replace(b"\n", end)
    played = relayed(cut(body, size))
    assert outcome(played) == ["completed", "message ab"]


@given(
    places(noise.OBJECTS | noise.CHUNKS),
    st.sampled_from([1, 11, 4096]),
    st.sampled_from([b"\n", b"\r\n", b"\r"]),
)
def test_a_chat_stream(noises: list[tuple[int, bytes]], size: int, end: bytes) -> None:
    body = between(CHAT, noises).replace(b"\n", end)
    played = hear(cut(body, size))
    assert outcome(played) == [
        "completed",
        "reasoning Hm",
        "message ab",
        'function_call  f {"a":1}',
    ]


@pytest.mark.parametrize("data", [b'{"type":"response.output_text.delta","delta":"x', b"x{}", b"{"])
def test_what_may_have_held_a_part_of_the_answer_ends_it(data: bytes) -> None:
    events = list(reply("a", "b"))
    body = between(events, [(4, b"data: %b\n\n" % data)])
    assert relayed([body]).terminal["status"] == "failed"
    torn = between(CHAT, [(2, b"data: %b\n\n" % data)])
    assert hear([torn]).terminal["status"] == "failed"


@pytest.mark.parametrize("words", [b"overloaded", b'"overloaded"', b'["overloaded"'])
def test_an_error_in_words_is_one(words: bytes) -> None:
    body = between(list(reply("a", "b")), [(4, b"event: error\ndata: %b\n\n" % words)])
    failed = relayed([body]).terminal
    assert "overloaded" in failed["error"]["message"]
    failed = hear([between(CHAT, [(2, b"event: error\ndata: %b\n\n" % words)])]).terminal
    assert "overloaded" in failed["error"]["message"]


def test_skipped_events_are_counted() -> None:
    quiet = relayed([between(list(reply("a", "b")), [])])
    played = relayed([between(list(reply("a", "b")), [(2, b"data: null\n\ndata: ping\n\n")] * 2)])
    assert played.run.skipped - quiet.run.skipped == 4
