"""Bodies that are no proper event stream: their events come whole and in order, at any chunking."""

from __future__ import annotations

import gzip
import json
import zlib
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest
from backports import zstd
from hypothesis import assume, example, given
from hypothesis import strategies as st

from gateway.upstream.transport.faults import BackendAnswered
from gateway.upstream.transport.http.answer_body import AnswerBody
from gateway.upstream.transport.http.json_lines import JsonLines
from gateway.upstream.transport.http.sse import SseSplitter
from lanes.errors import UpstreamFault

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from lanes.ports import Event

LIMIT = 1 << 20
TEXTS = st.sampled_from(["", "a", "é🙂", 'data: "x"', "}\n{", "data:[DONE]", ": c", "[", "\r\n \n"])
VALUES = st.recursive(
    TEXTS | st.none() | st.integers(-9, 9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=5,
)
OBJECTS = st.dictionaries(st.sampled_from(["type", "a", "data", "event"]), VALUES, min_size=1)
LINES = {
    "NDJSON": (b"%b\n", b""),
    "NDJSON with blank lines": (b"%b\n\n", b""),
    "data lines": (b"data: %b\n", b""),
    "data lines without a space": (b"data:%b\n", b"data:[DONE]\n"),
    "data lines and lines of blanks": (b"data: %b\n \n", b"data: [DONE]\n \n"),
    "events without blank lines": (b"event: x\ndata: %b\n", b""),
    "comments between lines": (b": hi\ndata: %b\n", b""),
    "an event stream": (b"data: %b\n\n", b"data: [DONE]\n\n"),
    "an event stream without data:": (b": hi\n\n%b\n\n", b""),
    "ids": (b"id: 1\ndata: %b\n\n", b""),
}


def read(chunks: Iterable[bytes], headers: dict[str, str] | None = None) -> list[Event]:
    body = AnswerBody(200, headers or {}, LIMIT)
    return [event for chunk in chunks for event in body.feed(chunk)] + body.finish()


def cut(data: bytes, cuts: list[int]) -> list[bytes]:
    edges = sorted({0, len(data), *(at for at in cuts if at < len(data))})
    return [data[start:end] for start, end in pairwise(edges)]


def values(events: list[Event]) -> list[Any]:
    return [json.loads(data) for _, data in events if data != b"[DONE]"]


CUTS = st.lists(st.integers(0, 300), max_size=30)
ENDS = st.sampled_from([b"\n", b"\r\n", b"\r"])
MARKS = st.sampled_from([b"", b"\xef\xbb\xbf", b"\n\n", b"\xef\xbb\xbf \r\n", b": hello\n\n"])


@pytest.mark.parametrize("layout", LINES)
@given(st.lists(OBJECTS, min_size=1, max_size=4), ENDS, MARKS, CUTS)
def test_values_on_lines(
    layout: str, objects: list[Any], end: bytes, mark: bytes, cuts: list[int]
) -> None:
    line, last = LINES[layout]
    body = b"".join(line % json.dumps(one).encode() for one in objects) + last
    raw = mark + body.replace(b"\n", end)
    for chunks in ([raw], cut(raw, cuts), [raw[at : at + 1] for at in range(len(raw))]):
        assert values(read(chunks)) == objects


@given(
    OBJECTS | st.lists(OBJECTS, min_size=1, max_size=2),
    st.sampled_from([None, 2]),
    st.sampled_from([b"", b"\n", b"\r\n", b"\ndata: [DONE]\n\n", b"data: [DONE]\n\n"]),
    MARKS,
    CUTS,
)
def test_one_whole_value(
    value: Any, indent: int | None, tail: bytes, mark: bytes, cuts: list[int]
) -> None:
    if indent and tail.startswith(b"data"):
        tail = b"\n" + tail
    raw = mark + json.dumps(value, indent=indent).encode() + tail
    for chunks in ([raw], cut(raw, cuts), [raw[at : at + 1] for at in range(len(raw))]):
        assert values(read(chunks)) == (value if isinstance(value, list) else [value])


def bare_deflate(data: bytes) -> bytes:
    """Deflated without the header of zlib, as some servers understand the name."""
    packer = zlib.compressobj(wbits=-15)
    return packer.compress(data) + packer.flush()


@given(
    st.lists(OBJECTS, min_size=1, max_size=4),
    CUTS,
    st.sampled_from(["", "gzip", "deflate", "zstd"]),
    st.sampled_from([gzip.compress, zlib.compress, zstd.compress, bare_deflate, bytes]),
)
def test_a_compressed_body(
    objects: list[Any], cuts: list[int], named: str, pack: Callable[[bytes], bytes]
) -> None:
    """Whatever it says it is; only gzip is known by its bytes alone."""
    assume(named or pack in (gzip.compress, bytes))
    assume(named == "deflate" or pack is not bare_deflate)
    plain = b"".join(b"data: %b\n\n" % json.dumps(one).encode() for one in objects)
    packed = pack(plain)
    headers = {"content-encoding": named} if named else {}
    assert values(read(cut(packed, cuts), headers)) == objects


def test_each_event_of_a_flushed_gzip_comes_with_its_read() -> None:
    packer = zlib.compressobj(wbits=31)
    body = AnswerBody(200, {"content-encoding": "gzip"}, LIMIT)
    for number in range(3):
        data = packer.compress(b"data: %d\n\n" % number) + packer.flush(zlib.Z_SYNC_FLUSH)
        assert body.feed(data) == [(None, b"%d" % number)]


@pytest.mark.parametrize("layout", [b"%b\n", b"data: %b\n", b"data: %b\n \n"])
def test_an_event_comes_with_the_line_that_ends_it(layout: bytes) -> None:
    """At the latest once the next line shows that no blank line will end it."""
    body, seen = AnswerBody(200, {}, LIMIT), 0
    for number in range(5):
        seen += len(body.feed(layout % b'{"n":%d}' % number))
        assert seen >= number
    assert seen + len(body.finish()) == 5


def test_a_bomb_is_refused() -> None:
    packed = gzip.compress(b"data: " + b"x" * (64 * LIMIT))
    with pytest.raises(UpstreamFault, match=f"more than {LIMIT} bytes"):
        read([packed[at : at + 4096] for at in range(0, len(packed), 4096)])


@pytest.mark.parametrize("head", [b"", b'{"a":1}\n'])
def test_a_value_without_end_is_refused(head: bytes) -> None:
    with pytest.raises(UpstreamFault, match=f"more than {LIMIT} bytes"):
        read([head + b'{"a":"', *[b"x" * 4096] * 257])


def test_a_torn_value_is_dropped() -> None:
    assert read([b'{"a":1}\n{"b":']) == [(None, b'{"a":1}')]
    assert read([b'{\n  "a": 1,\n']) == []


@pytest.mark.parametrize(
    "page",
    [
        b"<!doctype html><title>Sign in</title>",
        b'\xef\xbb\xbf\n<html><script>\ndata: {"a":1}\n\n</script></html>',
        b"Internal Server Error",
        b": hi\n\nupstream connect error",
    ],
)
def test_what_is_no_stream_is_logged_by_its_size(page: bytes) -> None:
    for chunks in ([page], [page[at : at + 1] for at in range(len(page))]):
        with pytest.raises(BackendAnswered) as caught:
            read(chunks, {"content-type": "text/event-stream"})
        said = f"The backend answered 200 and {len(page)} bytes that are no event stream."
        assert caught.value.logged == said


@pytest.mark.parametrize(
    "body", [b"", b"\n\n", b": hi\n\n", b"data:\n\n", b"event: ping\n\nretry: 3"]
)
def test_an_empty_stream_is_one(body: bytes) -> None:
    assert read([body]) == []


def test_many_closing_lines_cost_linear_time() -> None:
    lines = JsonLines(LIMIT)
    lines.feed(b"{\n")
    for _ in range(20_000):
        lines.feed(b"}\n" * 10)
    assert lines.finish() == []


def test_a_proper_stream_stays_with_the_splitter() -> None:
    splitter = SseSplitter(LIMIT)
    assert splitter.feed(b'data: {"a":\ndata: 1}\n') == []
    assert splitter.feed(b'data: \n\ndata: {"b":1}\n\n') == [
        (None, b'{"a":\n1}\n'),
        (None, b'{"b":1}'),
    ]


#: Lines as backends, proxies and broken ones write them, in any order and with any end.
SOUP = st.lists(
    st.tuples(
        st.sampled_from(
            [
                *(b"event: x", b"event:", b"id: 1", b"retry: 3", b": c", b"", b" ", b"\t", b"junk"),
                *(b'data: {"a":1}', b'data:{"b":[2]}', b"data: [DONE]", b"data:", b"data: x"),
                *(b'data: {"c":', b"data: 3}", b"data: {", b"data: }", b'data: [{"d":4},{"e":5}]'),
                *(b'{"f":6}', b"{", b"}", b'{"g":', b' "h"}', b"[", b"]", b'[{"i":7}]', b"data"),
                *(b'error: {"j":8}', b'error:  {"k":9}', b"error: {", b"error: no", b"error:"),
                b'{"l":1}data: [DONE]',
            ]
        ),
        st.sampled_from([b"\n", b"\n", b"\n\n", b"\r\n", b"\r\n\r\n", b"\r", b"\n\n\n"]),
    ).map(b"".join),
    max_size=8,
).map(b"".join)


@given(SOUP, st.lists(st.integers(0, 120)))
@example(b'data: {"a":1}\n{\nevent: x\ndata: {"b":2}\n\ndata: {"c":3}\n\n', [16])
@example(b'data: {"a":1}\ndata: {', [14])
@example(b'data: {"a":1}\nerror: {"b":2}\n\nerror: {"c":3}\n\n', [20])
def test_reads_change_nothing_however_broken_a_body_is(soup: bytes, cuts: list[int]) -> None:
    reads = (cut(soup, cuts), [soup], [soup[at : at + 1] for at in range(len(soup))])
    one, *others = map(splitter_read, reads)
    assert all(other == one for other in others)


def splitter_read(chunks: list[bytes]) -> list[Event]:
    splitter = SseSplitter(LIMIT)
    return [event for chunk in chunks for event in splitter.feed(chunk)] + splitter.finish()


FIRST, SECOND, THIRD = (b'{"n":%d}' % number for number in range(3))
MIXED = [
    (b"data: %b\n%b\n\n", 2),
    (b"%b\ndata: %b\n\n", 2),
    (b"data: %b\n%b\ndata: %b\n\n", 3),
    (b"data: %b\ndata: %b\n%b\n\n", 3),
    (b": ping\n\ndata: %b\nid: 1\n%b\n: ping\n\n", 2),
]


@pytest.mark.parametrize(("layout", "count"), MIXED)
@pytest.mark.parametrize("size", [1, 1000])
def test_values_with_and_without_their_field_keep_their_order(
    layout: bytes, count: int, size: int
) -> None:
    raw = b"data: 0\n\n" + layout % (FIRST, SECOND, THIRD)[:count]
    chunks = [raw[at : at + size] for at in range(0, len(raw), size)]
    assert values(read(chunks)) == [0, *({"n": number} for number in range(count))]
