"""The same messages, however the bytes are cut, and nothing that is too large."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from websockets.client import ClientProtocol
from websockets.frames import Frame, Opcode
from websockets.protocol import State
from websockets.uri import parse_uri

from gateway.upstream.transport.websocket.frame_splitter import FrameSplitter, FrameTooLarge

LENGTHS = st.sampled_from([0, 1, 125, 126, 127, 300, 65535, 65536, 70000])
MESSAGES = st.lists(st.tuples(LENGTHS, st.sampled_from(["text", "binary", "parts", "ping"])))


class Reader:
    """A splitter, and the protocol behind it."""

    def __init__(self, limit: int = 1 << 20) -> None:
        uri = parse_uri("ws://x/")
        self.protocol = ClientProtocol(uri, state=State.OPEN, max_size=limit)
        self.pieces: list[bytes] = []
        self.skipped: list[tuple[bytes, bytes]] = []
        self.splitter = FrameSplitter(limit, self.other, lambda *ends: self.skipped.append(ends))
        self.others = 0

    def other(self, frame: bytes) -> list[bytes]:
        self.others += 1
        self.protocol.receive_data(frame)
        messages = []
        for got in self.protocol.events_received():
            if isinstance(got, Frame) and got.opcode in (0, 1, 2):
                self.pieces.append(bytes(got.data))
                if got.fin:
                    messages.append(b"".join(self.pieces))
                    self.pieces.clear()
        return messages


def frames(number: int, length: int, kind: str) -> tuple[bytes, list[bytes]]:
    """The bytes of one message, and what is to come of it."""
    data = bytes([97 + number % 26]) * length
    if kind == "ping":
        return Frame(Opcode.PING, data[:9]).serialize(mask=False), []
    if kind == "parts":
        first = Frame(Opcode.TEXT, data[: length // 2], fin=False).serialize(mask=False)
        within = Frame(Opcode.PING, b"").serialize(mask=False)
        last = Frame(Opcode.CONT, data[length // 2 :]).serialize(mask=False)
        return first + within + last, [data]
    opcode = Opcode.TEXT if kind == "text" else Opcode.BINARY
    return Frame(opcode, data).serialize(mask=False), [data]


@given(MESSAGES, st.lists(st.integers(1, 70000)), st.sampled_from([0, 1, 7, 4096]))
def test_any_cut(messages: list[tuple[int, str]], cuts: list[int], every: int) -> None:
    made = [frames(number, *message) for number, message in enumerate(messages)]
    data = b"".join(bytes for bytes, _ in made)[: 300_000 if every != 1 else 3000]
    wanted = [text for _, texts in made for text in texts]
    reader, got, at = Reader(), [], 0
    sizes = iter(cuts)
    while at < len(data):
        size = every or next(sizes, 65536)
        got += reader.splitter.feed(data[at : at + size])
        at += size
    assert reader.protocol.parser_exc is None
    assert got == wanted[: len(got)]
    if len(data) == sum(len(bytes) for bytes, _ in made):
        assert got == wanted
    assert reader.others == 0 or any(kind != "text" for _, kind in messages)


@pytest.mark.parametrize("every", [1, 7, 999, 4096, 1 << 20])
@pytest.mark.parametrize("length", [4001, 70_000])
def test_what_is_too_large_is_passed_over(length: int, every: int) -> None:
    reader = Reader(limit=4000)
    large = b"<" + b"-" * (length - 2) + b">"
    data = frames(0, 4000, "text")[0] + Frame(Opcode.TEXT, large).serialize(mask=False)
    data = data + frames(1, 9, "text")[0] + frames(2, 5000, "text")[0] + frames(3, 1, "text")[0]
    got = []
    for at in range(0, len(data), every):
        got += reader.splitter.feed(data[at : at + every])
    assert got == [b"a" * 4000, b"b" * 9, b"d"]
    assert reader.skipped == [(large[:1024], large[-1024:]), (b"c" * 1024, b"c" * 1024)]


@pytest.mark.parametrize("kind", ["binary", "masked"])
def test_what_is_too_large_and_no_plain_text(kind: str) -> None:
    opcode = Opcode.BINARY if kind == "binary" else Opcode.TEXT
    frame = Frame(opcode, b"x" * 1001).serialize(mask=kind == "masked")
    with pytest.raises(FrameTooLarge):
        Reader(limit=1000).splitter.feed(frame)


def test_parts_that_are_too_large_together() -> None:
    reader = Reader(limit=1000)
    reader.splitter.feed(frames(0, 1600, "parts")[0])
    assert reader.protocol.close_sent is not None
    assert reader.protocol.close_sent.code == 1009


@pytest.mark.parametrize("length", [3, 200, 70000])
def test_a_masked_frame_is_the_protocols_to_refuse(length: int) -> None:
    reader = Reader()
    assert reader.splitter.feed(Frame(Opcode.TEXT, b"x" * length).serialize(mask=True)) == []
    assert reader.protocol.parser_exc is not None


def test_a_text_within_parts_of_another_is_refused() -> None:
    reader = Reader()
    reader.splitter.feed(Frame(Opcode.TEXT, b"x", fin=False).serialize(mask=False))
    assert reader.splitter.feed(frames(0, 5, "text")[0]) == []
    assert reader.protocol.parser_exc is not None
