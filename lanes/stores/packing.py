"""How a response's parts are written down: a marker byte, then the bytes, deflated if large.

Pure. Items are msgpack, so their JSON comes back byte for byte.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Final

import msgspec
from anyio.to_thread import run_sync

from lanes.history.entries import Entry
from lanes.stores.base import UnreadableResponse

if TYPE_CHECKING:
    from collections.abc import Sequence

_PLAIN: Final = b"\x00"
_DEFLATED: Final = b"\x01"
#: Below this, in bytes, deflating saves less than it costs.
SMALL: Final = 2048
#: Above this, in bytes, it would hold up the event loop for milliseconds: a thread does it.
LARGE: Final = 128 * 1024

#: Of one response: its input items and its output items.
Items = tuple[tuple[Entry, ...], tuple[Entry, ...]]

_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Items)


def pack(data: bytes) -> bytes:
    """Mark the bytes, deflated where that is worth it."""
    if len(data) > SMALL:
        deflated = zlib.compress(data, 1)
        if len(deflated) < len(data):
            return _DEFLATED + deflated
    return _PLAIN + data


def unpack(packed: bytes) -> bytes:
    """Undo `pack`. Raises UnreadableResponse."""
    marker, data = packed[:1], packed[1:]
    if marker == _PLAIN:
        return data
    if marker != _DEFLATED:
        raise UnreadableResponse
    try:
        return zlib.decompress(data)
    except zlib.error as error:
        raise UnreadableResponse from error


def pack_items(items: Items) -> bytes:
    """Write the items of one response down."""
    return pack(_encoder.encode(items))


def unpack_items(packed: Sequence[bytes]) -> list[Items]:
    """Read the items of many responses. Raises UnreadableResponse."""
    try:
        return [_decoder.decode(unpack(data)) for data in packed]
    except msgspec.DecodeError as error:
        raise UnreadableResponse from error


async def pack_response(items: Items, body: bytes) -> tuple[bytes, bytes]:
    """Pack the items and the object of a response, aside if they are large."""
    before, after = items
    size = len(body) + sum(len(entry.data) for entry in before + after)
    if size > LARGE:
        return await run_sync(lambda: (pack_items(items), pack(body)))
    return pack_items(items), pack(body)


async def unpack_body(packed: bytes) -> bytes:
    """Undo `pack`, aside if it is large. Raises UnreadableResponse."""
    if len(packed) > LARGE:
        return await run_sync(unpack, packed)
    return unpack(packed)


async def unpack_chain(packed: Sequence[bytes]) -> list[Items]:
    """`unpack_items`, aside if there is much. Raises UnreadableResponse."""
    if sum(map(len, packed)) > LARGE:
        return await run_sync(unpack_items, packed)
    return unpack_items(packed)
