"""Frames, percentiles and the plan."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from websockets.frames import Frame, Opcode

from gateway.tools.load import websocket_frames
from gateway.tools.load.plan import (
    MAX_TURNS,
    ChainHead,
    LoadPlan,
    parent_for,
    slow_count,
    socket_url,
)
from gateway.tools.load.tally import Histogram

PAYLOADS = [b"", b"a", b"x" * 125, b"y" * 126, b"z" * 65535, b"w" * 65536]


@pytest.mark.parametrize("size", [1, 2, 3, 7, 4096, 1 << 20])
def test_frames_come_out_whole_at_any_chunking(size: int) -> None:
    payloads = PAYLOADS if size > 1 else PAYLOADS[:4]
    data = b"".join(Frame(Opcode.TEXT, payload).serialize(mask=False) for payload in payloads)
    reader = websocket_frames.FrameReader()
    messages = [
        message for at in range(0, len(data), size) for message in reader.feed(data[at : at + size])
    ]
    assert messages == [(websocket_frames.TEXT, payload) for payload in payloads]


def test_fragments_are_joined_around_a_ping() -> None:
    frames = [
        Frame(Opcode.BINARY, b"one ", fin=False),
        Frame(Opcode.PING, b"?"),
        Frame(Opcode.CONT, b"two ", fin=False),
        Frame(Opcode.CONT, b"three"),
        Frame(Opcode.TEXT, b"next"),
    ]
    data = b"".join(frame.serialize(mask=False) for frame in frames)
    assert websocket_frames.FrameReader().feed(data) == [
        (websocket_frames.PING, b"?"),
        (websocket_frames.BINARY, b"one two three"),
        (websocket_frames.TEXT, b"next"),
    ]


@pytest.mark.parametrize(
    ("payload", "reason"),
    [(b"", "1005"), (b"\x03\xe8", "1000"), (b"\x03\xf4restart", "1012 (restart)")],
)
def test_close_frames_in_words(payload: bytes, reason: str) -> None:
    assert websocket_frames.close_reason(payload) == reason


@given(st.lists(st.integers(0, 2**62), min_size=1), st.sampled_from([0.5, 0.9, 0.99, 1.0]))
def test_percentiles_are_near_the_exact_ones(values: list[int], share: float) -> None:
    histogram = Histogram()
    for value in values:
        histogram.add(value)
    exact = sorted(values)[max(1, -int(-share * len(values) // 1)) - 1]
    found = histogram.percentile(share)
    assert found is not None
    assert abs(found - exact) <= exact / 128
    assert histogram.max == max(values)


def test_no_values_no_percentile() -> None:
    assert Histogram().percentile(0.5) is None


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("ws://h:1/v1/responses", "ws://h:1/v1/responses"),
        ("wss://h", "wss://h/v1/responses"),
        ("http://h:1/v1", "ws://h:1/v1/responses"),
        ("https://h/v1/", "wss://h/v1/responses"),
        ("https://h/v1/responses?a=b", "wss://h/v1/responses?a=b"),
    ],
)
def test_urls_become_socket_urls(url: str, address: str) -> None:
    assert socket_url(url) == address


@pytest.mark.parametrize("url", ["", "h:1", "ftp://h/v1", "ws:///v1"])
def test_other_urls_are_refused(url: str) -> None:
    with pytest.raises(ValueError, match="expected ws://"):
        socket_url(url)


@pytest.mark.parametrize(("value", "count"), [(0, 0), (0.5, 4), (1, 1), (3, 3), (99, 8)])
def test_slow_readers_are_a_number_or_a_share(value: float, count: int) -> None:
    assert slow_count(value, 8) == count


def test_parents_follow_the_fork_share() -> None:
    own, other = ChainHead("own", 1), ChainHead("other", 2)
    picks = [parent_for(random.Random(seed), 0.2, own, [other]) for seed in range(500)]
    assert 50 < picks.count(other) < 150
    assert parent_for(random.Random(1), 1.0, own, []) == own
    assert parent_for(random.Random(1), 0.0, None, [other]) is None
    assert parent_for(random.Random(1), 0.0, ChainHead("long", MAX_TURNS), []) is None


def test_every_prompt_holds_its_marker() -> None:
    assert LoadPlan(url="", text="hi {x}").prompt("m", "a", 1) == "hi {x} [m]"
    assert LoadPlan(url="", text="{turn}:{lane}:{marker}").prompt("m", "a", 2) == "2:a:m"
