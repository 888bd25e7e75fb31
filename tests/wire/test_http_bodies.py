"""What a body may be: its size, type and packing, and how a wrong one is refused."""

from __future__ import annotations

import gzip
import json
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest
from backports import zstd
from hypothesis import given
from hypothesis import strategies as st

from gateway.unpacking import SLICE, UNPACKERS
from tests.support.events import reply
from tests.support.http_client import posted, requested
from tests.support.wire_stand import standing

if TYPE_CHECKING:
    from collections.abc import Callable

CREATE = json.dumps({"model": "m", "input": "packed", "store": False}).encode()
ENCODERS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "x-gzip": gzip.compress,
    "GZIP": gzip.compress,
    "zstd": zstd.compress,
    "identity": bytes,
    "": bytes,
}


@pytest.mark.parametrize("encoding", ENCODERS)
async def test_a_packed_body(encoding: str) -> None:
    async with standing(lambda _: reply("ok")) as stand:
        body = ENCODERS[encoding](CREATE)
        async with posted(stand.url, body, {"content-encoding": encoding}) as answer:
            assert (await answer.json())["status"] == "completed"
        assert stand.fake.exchanges[0].input[0]["content"] == "packed"


LONG = b'{"model":"m","input":"' + b"x" * 100_000 + b'"}'


@pytest.mark.parametrize(
    ("body", "headers", "status", "code"),
    [
        (CREATE, {"content-type": "text/plain"}, 415, "unsupported_media_type"),
        (
            CREATE,
            {"content-type": "multipart/form-data; boundary=x"},
            415,
            "unsupported_media_type",
        ),
        (CREATE, {"content-encoding": "br"}, 415, "unsupported_encoding"),
        (CREATE, {"content-encoding": "gzip, zstd"}, 415, "unsupported_encoding"),
        (CREATE, {"content-encoding": "gzip"}, 400, "invalid_encoding"),
        (CREATE, {"content-encoding": "zstd"}, 400, "invalid_encoding"),
        (gzip.compress(CREATE)[:-1], {"content-encoding": "gzip"}, 400, "invalid_encoding"),
        (zstd.compress(CREATE)[:-1], {"content-encoding": "zstd"}, 400, "invalid_encoding"),
        (gzip.compress(CREATE) + b"x", {"content-encoding": "gzip"}, 400, "invalid_encoding"),
        (zstd.compress(CREATE) + b"x", {"content-encoding": "zstd"}, 400, "invalid_encoding"),
        (b"", {"content-encoding": "gzip"}, 400, "invalid_encoding"),
        (b"", {"content-encoding": "zstd"}, 400, "invalid_encoding"),
        (LONG, {}, 413, "request_too_large"),
        (gzip.compress(LONG), {"content-encoding": "gzip"}, 413, "request_too_large"),
        (zstd.compress(LONG), {"content-encoding": "zstd"}, 413, "request_too_large"),
        (b"", {}, 400, "invalid_json"),
        (b"{", {}, 400, "invalid_json"),
        (b"[]", {}, 400, "invalid_request_error"),
        (b'{"model":"\xff"}', {}, 400, "invalid_json"),
    ],
    ids=lambda value: None if isinstance(value, str | int) else "",
)
async def test_a_wrong_body(body: bytes, headers: dict[str, str], status: int, code: str) -> None:
    async with standing(max_frame_bytes=64 << 10) as stand:
        async with posted(stand.url, body, headers) as answer:
            error = (await answer.json())["error"]
            assert (answer.status, error["code"]) == (status, code)
            assert error.keys() == {"type", "code", "message", "param"}
            if code == "unsupported_encoding":
                assert answer.headers["accept-encoding"] == "gzip, zstd"
        assert stand.fake.exchanges == []


@pytest.mark.parametrize(
    ("fields", "code", "param"),
    [
        ({"model": 7}, "invalid_type", "model"),
        ({"model": None}, "missing_required_parameter", "model"),
        ({"input": 7}, "invalid_type", "input"),
        ({"input": [7]}, "invalid_type", "input[0]"),
        ({"stream": "yes"}, "invalid_type", "stream"),
        ({"stream": 1}, "invalid_type", "stream"),
        ({"stream_id": "a"}, "invalid_value", "stream_id"),
        ({"generate": 1}, "invalid_type", "generate"),
        ({"store": "no"}, "invalid_type", "store"),
        ({"metadata": {"a": 1}}, "invalid_type", "metadata"),
        ({"tools": {}}, "invalid_type", "tools"),
        ({"previous_response_id": 1}, "invalid_type", "previous_response_id"),
        ({"conversation": 1}, "invalid_type", "conversation"),
        ({"conversation": "c", "previous_response_id": "r"}, "invalid_value", "conversation"),
    ],
)
async def test_a_wrong_field(fields: dict[str, Any], code: str, param: str) -> None:
    async with standing() as stand, posted(stand.url, fields) as answer:
        error = (await answer.json())["error"]
        assert (answer.status, error["code"], error["param"]) == (400, code, param)
        assert error["type"] == "invalid_request_error"


async def test_of_a_body_that_is_too_large_no_more_is_read_than_shows_it() -> None:
    async with standing(max_frame_bytes=64 << 10) as stand:
        # The head is enough, and so is the first piece over the limit: no end is ever sent.
        for headers, body in (
            ({"content-length": "65537"}, b""),
            ({"content-length": "9" * 15}, b""),
            ({"transfer-encoding": "chunked"}, b"10001\r\n" + b"x" * 65537),
        ):
            async with requested(stand.url, "POST", "/responses", body, headers) as answer:
                assert answer.status == 413


async def test_a_zip_bomb_is_refused_after_what_may_be_unpacked() -> None:
    bombs = {
        "gzip": gzip.compress(b" " * (64 << 20)),
        "zstd": zstd.compress(b" " * (1 << 30)),
    }
    async with standing(max_frame_bytes=1 << 20) as stand:
        for encoding, bomb in bombs.items():
            async with posted(stand.url, bomb, {"content-encoding": encoding}) as answer:
                assert answer.status == 413


def test_a_window_over_8_mib_is_refused() -> None:
    options = {int(zstd.CompressionParameter.window_log): 24}
    compressor = zstd.ZstdCompressor(options=options)
    packed = compressor.compress(b"x" * 64) + compressor.flush()
    with pytest.raises(ValueError, match="window"):
        list(UNPACKERS["zstd"]().feed(packed))


@pytest.mark.parametrize("encoding", ["gzip", "zstd"])
@given(data=st.data())
def test_unpacking_is_the_same_at_any_chunking(encoding: str, data: st.DataObject) -> None:
    plain = data.draw(st.binary(max_size=2000)) * data.draw(st.integers(1, 2000))
    packed = ENCODERS[encoding](plain)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(packed)), max_size=8)))
    unpacker = UNPACKERS[encoding]()
    pieces = [
        piece
        for start, end in zip([0, *cuts], [*cuts, len(packed)], strict=True)
        for piece in unpacker.feed(packed[start:end])
    ]
    assert unpacker.whole
    assert b"".join(pieces) == plain
    assert max(map(len, pieces), default=0) <= SLICE


@pytest.mark.parametrize("encoding", ["gzip", "zstd"])
@given(packed=st.binary(max_size=200))
def test_garbage_is_a_value_error(encoding: str, packed: bytes) -> None:
    unpacker = UNPACKERS[encoding]()
    with suppress(ValueError):
        for piece in unpacker.feed(packed):
            assert len(piece) <= SLICE
