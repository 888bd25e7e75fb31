"""Server-sent events: the standard's layouts, and that chunking never matters."""

from __future__ import annotations

import re
import time
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.upstream.transport.http.last_event import is_torn
from gateway.upstream.transport.http.sse import SseSplitter
from lanes.errors import UpstreamFault

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lanes.ports import Event

DELTA = b'event: response.output_text.delta\ndata: {"delta":"a"}\n\n'
END = b'event: response.completed\ndata: {"response":{}}\n\n'
END_EVENT: Event = ("response.completed", b'{"response":{}}')
DELTA_EVENT: Event = ("response.output_text.delta", b'{"delta":"a"}')


def split(chunks: Iterable[bytes], limit: int = 1024) -> list[Event]:
    splitter = SseSplitter(limit)
    return [event for chunk in chunks for event in splitter.feed(chunk)] + splitter.finish()


def cut(data: bytes, size: int) -> list[bytes]:
    return [data[at : at + size] for at in range(0, len(data), size)]


def reference(data: bytes) -> list[Event]:
    """The standard's algorithm, line by line, after a blank beginning; the end may end an event."""
    events: list[Event] = []
    name, values = b"", list[bytes]()
    text = data.removeprefix(b"\xef\xbb\xbf").lstrip()
    lines = re.split(rb"\r\n|\n|\r", text)
    for at, line in enumerate([*lines, b""]):
        field, _, value = line.partition(b":")
        value = value[1:] if value[:1] == b" " else value
        if field == b"data":
            values.append(value)
        elif field == b"event":
            name = value
        elif not line:
            if any(values) or len(values) > 1:
                event = (name.decode(errors="replace") or None, b"\n".join(values))
                # The last line of all is the end of the body, and an empty one before it as well.
                events += [] if at >= len(lines) - 1 and is_torn(event) else [event]
            name, values = b"", []
    return events


@pytest.mark.parametrize(
    ("body", "events"),
    [
        (DELTA, [DELTA_EVENT]),
        (DELTA * 20, [DELTA_EVENT] * 20),
        (b"data: {}\n\n", [(None, b"{}")]),
        (b"data: {}\n\n" * 3, [(None, b"{}")] * 3),
        (b"data:{}\n\n", [(None, b"{}")]),
        (b"data:  {}\n\n", [(None, b" {}")]),
        (b"data: a\ndata:b\ndata: c\n\n", [(None, b"a\nb\nc")]),
        (b"data: a\ndata\n\n", [(None, b"a\n")]),
        (b"data: 1\nevent: x\n\n", [("x", b"1")]),
        (b"event: x\nevent: y\ndata: 1\n\n", [("y", b"1")]),
        (b"event: x\nevent:\ndata: 1\n\n", [(None, b"1")]),
        (b"event: x\n\ndata: 1\n\n", [(None, b"1")]),
        (b"id: 7\nretry: 10\nzebra: 1\nzebra\ndata: 1\n\n", [(None, b"1")]),
        (b": hello\n\n:\n\n" + DELTA, [DELTA_EVENT]),
        (b"\n\n\n\n" + DELTA + b"\n" + DELTA, [DELTA_EVENT] * 2),
        (b"event: x\n\n", []),
        (b"event: x\ndata: \n\n", []),
        (b"data\n\ndata:\n\ndata: \n\n", []),
        (DELTA * 2 + b"event: response.output_text.delta\ndata: \n\n", [DELTA_EVENT] * 2),
        (b"data: 1\n\ndata: \n\n", [(None, b"1")]),
        (b"data: [DONE]\n\n", [(None, b"[DONE]")]),
        ("event: é\ndata: 渐🙂é\n\n".encode(), [("é", "渐🙂é".encode())]),
        (b"event: \xff\ndata: \xff\xfe\n\n", [("\ufffd", b"\xff\xfe")]),
        (DELTA[:-1], []),
        (DELTA[:-2], []),
        (END[:-1], [END_EVENT]),
        (DELTA + END[:-2], [DELTA_EVENT, END_EVENT]),
        (END + END[:-3], [END_EVENT]),
        (DELTA + b"data: 1\r", [DELTA_EVENT, (None, b"1")]),
        (b"", []),
        (b"\xef\xbb", []),
    ],
)
@pytest.mark.parametrize("line_end", [b"\n", b"\r\n", b"\r"])
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
@pytest.mark.parametrize("size", [1, 7, 4096])
def test_layouts(body: bytes, events: list[Event], line_end: bytes, mark: bytes, size: int) -> None:
    raw = mark + body.replace(b"\n", line_end)
    assert split(cut(raw, size)) == events
    assert reference(raw) == events or raw.endswith(b"\xef\xbb")


def test_known_names_are_read_alike() -> None:
    splitter = SseSplitter(1024)
    assert [splitter.feed(DELTA) for _ in range(3)] == [[DELTA_EVENT]] * 3
    assert splitter.feed(DELTA + b": c\n\n" + DELTA) == [DELTA_EVENT] * 2
    assert splitter.feed(b"event: response.output_text.delta\ndata: a\rdata: b\n\n") == [
        ("response.output_text.delta", b"a\nb")
    ]
    assert splitter.finish() == []


def test_names_without_end_are_read_and_not_remembered() -> None:
    splitter = SseSplitter(1024)
    for number in range(1000):
        assert splitter.feed(b"event: n%d\ndata: 1\n\n" % number) == [(f"n{number}", b"1")]
    assert splitter.feed(DELTA) == [DELTA_EVENT]


def test_an_event_comes_with_the_read_that_ends_it() -> None:
    """A CR LF cut in two neither makes a blank line nor holds back what is complete."""
    splitter = SseSplitter(1024)
    assert splitter.feed(b"data: {\r") == []
    assert splitter.feed(b"\ndata: }\r\n\r") == [(None, b"{\n}")]
    assert splitter.feed(b"\n") == []
    assert splitter.feed(b"\ndata: 1\n\n") == [(None, b"1")]


@pytest.mark.parametrize("size", [1, 7, 64, 4096])
@pytest.mark.parametrize("line_end", [b"\n", b"\r\n"])
def test_the_limit_is_exact_at_any_chunking(size: int, line_end: bytes) -> None:
    fits = b"event: x" + line_end + b"data: " + b"x" * (99 - 8 - len(line_end) - 6)
    fits = fits if line_end == b"\n" else fits + b"x"  # CR LF counts as one
    ending = line_end * 2
    small = b"data: 1" + ending
    assert len(split(cut((small + fits + ending) * 2, size), limit=99)) == 4
    assert len(split(cut(small + fits, size), limit=99)) == 2
    with pytest.raises(UpstreamFault, match="99 bytes"):
        split(cut(small + fits + b"x" + ending, size), limit=99)
    with pytest.raises(UpstreamFault, match="99 bytes"):
        split(cut(small + fits + b"x", size), limit=99)


def test_a_line_without_end_is_refused_soon() -> None:
    splitter = SseSplitter(10_000)
    for _ in range(10):
        splitter.feed(b"x" * 1000)
    with pytest.raises(UpstreamFault):
        splitter.feed(b"xx")


def test_a_huge_event_in_small_reads_costs_linear_time() -> None:
    splitter = SseSplitter(8 * 1024 * 1024)
    splitter.feed(b"data: ")
    chunk = b"x" * 256
    began = time.process_time()
    for _ in range(6 * 1024 * 4):
        splitter.feed(chunk)
    ((_, data),) = splitter.feed(b"\n\n")
    assert len(data) == 6 * 1024 * 1024
    assert time.process_time() - began < 2  # quadratic: about 20


LINES = st.sampled_from(
    [
        b"",
        b"",
        b"data: {",
        b"data: x",
        b"data:",
        b"data",
        b"data:  y",
        b"event: response.output_text.delta",
        b"event:z",
        b"event",
        b"id: 1",
        b"retry: 5",
        b": ping",
        b":",
        b"unknown: 1",
        "data: é🙂".encode(),
    ]
) | st.binary(max_size=12).filter(lambda line: not re.search(rb"[{\[]|error:", line))
BODIES = st.builds(
    lambda mark, lines: mark + b"".join(line + end for line, end in lines),
    st.sampled_from([b"", b"\xef\xbb\xbf"]),
    st.lists(st.tuples(LINES, st.sampled_from([b"\n", b"\n", b"\r\n", b"\r", b"\n\n"]))),
)


@given(BODIES, st.lists(st.integers(0, 400)))
def test_any_chunking_reads_like_the_standard(body: bytes, cuts: list[int]) -> None:
    edges = sorted({0, len(body), *(at for at in cuts if at < len(body))})
    chunks = [body[start:end] for start, end in pairwise(edges)]
    assert split(chunks) == split([body]) == split(cut(body, 1)) == reference(body)


def test_a_large_event_is_read_as_a_small_one_is() -> None:
    """It is not split into lines where it has the usual form."""
    small, large = b"{}", b'{"k":"%b"}' % (b"x" * 100_000)
    layouts = [
        *(b"data: %b\n\n", b"event: x\ndata: %b\n\n", b"event: \ndata: %b\n\n"),
        *(b"event:x\ndata: %b\n\n", b"event: x\ndata:%b\n\n", b"data: %b\nevent: x\n\n"),
        *(b": x\ndata: %b\n\n", b"event: x\nid: 1\ndata: %b\n\n", b"event: x\ndata: %b\n\n\n\n"),
        *(b"event: x\ndata: \ndata: %b\n\n", b"event: x\ndata: %b\n\nevent: y\ndata: 1\n\n"),
        *(b"event: x\ndata: %b\ndata: 1\n\n", b"event: x\n\ndata: %b\n\n", b"%b\n\n"),
    ]
    for layout in layouts:
        expected = [(name, data.replace(small, large)) for name, data in split([layout % small])]
        for size in (1 << 20, 50_000, 99_999):
            assert split(cut(layout % large, size), 1 << 20) == expected, layout
