"""Parts of responses as bytes: they come back as they were, in steps that are all short (D33)."""

from __future__ import annotations

import random
import zlib

import pytest

from lanes.history.entries import Entry
from lanes.long_strings import WINDOW
from lanes.stores.base import UnreadableResponse
from lanes.stores.packing import DEFLATE_OVER, pack, pack_items, unpack, unpack_body, unpack_chain
from tests.support.cpu_share import worked_aside

SIZES = [0, 1, DEFLATE_OVER, DEFLATE_OVER + 1, WINDOW - 1, WINDOW, WINDOW + 1, 3 * WINDOW + 7]


def test_it_comes_back() -> None:
    noise = random.Random(1).randbytes(max(SIZES))
    for size in SIZES:
        for data in (noise[:size], b"x" * size, noise[: size // 2] * 2):
            packed = pack(data)
            assert unpack(packed) == data
            assert len(packed) <= len(data) + 1


def test_what_was_packed_in_one_step_is_read() -> None:
    data = b"x" * 3 * WINDOW
    assert unpack(b"\x01" + zlib.compress(data, 1)) == data


def test_what_is_broken_is_unreadable() -> None:
    packed = pack(random.Random(1).randbytes(WINDOW) * 2 + b"x" * WINDOW)
    for broken in (b"", b"\x02x", b"\x01", b"\x01x", packed[:-1], packed[: len(packed) // 2]):
        with pytest.raises(UnreadableResponse):
            unpack(broken)


async def test_what_unpacks_to_much_is_unpacked_aside() -> None:
    """A few KB of it may be tens of MB."""
    text = b'"%b"' % (b"x" * 25_000_000)
    items = (Entry(text),), ()
    packed, body = pack_items(items), pack(text)
    assert max(len(packed), len(body)) < 128 * 1024
    await unpack_body(pack(random.Random(1).randbytes(WINDOW)))  # the first one starts a thread
    with worked_aside():
        unpacked = await unpack_body(body), await unpack_chain([packed])
    assert unpacked == (text, [items])
