"""How a store packs the parts of a response: a marker byte, then the bytes, deflated if large.

Items are packed as msgpack, so their JSON comes back byte for byte.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Final

import msgspec
from anyio.to_thread import run_sync

from lanes.history.entries import Entry
from lanes.long_strings import WINDOW, joined, windows
from lanes.stores.background import ResponseInput
from lanes.stores.base import UnreadableResponse

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_PLAIN: Final = b"\x00"
_DEFLATED: Final = b"\x01"
#: Bytes up to which deflating costs more than it saves.
DEFLATE_OVER: Final = 2048
#: Bytes beyond which a thread packs, since it would block the event loop for milliseconds.
THREAD_OVER: Final = 128 * 1024
#: Bytes beyond which a thread unpacks: they may be a thousand times as many then.
THREAD_UNPACKS_OVER: Final = 16 * 1024

#: The input items and the output items of one response.
ResponseItems = tuple[tuple[Entry, ...], tuple[Entry, ...]]

_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(ResponseItems)
_input_decoder = msgspec.msgpack.Decoder(ResponseInput)


def pack(data: bytes) -> bytes:
    """Return the bytes behind their marker, deflated where that is worth it."""
    if len(data) > DEFLATE_OVER:
        deflate = zlib.compressobj(1)
        pieces = [deflate.compress(piece) for piece in windows(data)]
        deflated = joined((_DEFLATED, *pieces, deflate.flush()))
        if len(deflated) <= len(data):
            return deflated
    return joined((_PLAIN, data))


def unpack(packed: bytes) -> bytes:
    """Return the bytes that were packed.

    Raises:
        UnreadableResponse: `pack` did not make this.
    """
    marker, data = packed[:1], memoryview(packed)[1:]
    if marker == _PLAIN:
        return joined((data,))
    if marker != _DEFLATED:
        raise UnreadableResponse
    try:
        return joined(_inflated(data))
    except zlib.error as error:
        raise UnreadableResponse from error


def _inflated(data: memoryview) -> Iterator[bytes]:
    """Yield what was deflated, a window at a time. Raises zlib.error and UnreadableResponse."""
    inflate = zlib.decompressobj()
    for piece in windows(data):
        yield inflate.decompress(piece, WINDOW)
        while inflate.unconsumed_tail:
            yield inflate.decompress(inflate.unconsumed_tail, WINDOW)
    yield inflate.flush()
    if not inflate.eof:
        raise UnreadableResponse


def pack_items(items: ResponseItems) -> bytes:
    """Return the items of one response as bytes."""
    return pack(_encoder.encode(items))


def unpack_items(packed: Sequence[bytes]) -> list[ResponseItems]:
    """Return the items of many responses.

    Raises:
        UnreadableResponse: `pack_items` did not make one of these.
    """
    try:
        return [_decoder.decode(unpack(data)) for data in packed]
    except msgspec.DecodeError as error:
        raise UnreadableResponse from error


async def pack_response(items: ResponseItems, body: bytes) -> tuple[bytes, bytes]:
    """Return the items and the object of a response packed, by a thread if they are large."""
    before, after = items
    size = len(body) + sum(len(entry.data) for entry in before + after)
    if size > THREAD_OVER:
        return await run_sync(lambda: (pack_items(items), pack(body)))
    return pack_items(items), pack(body)


async def unpack_body(packed: bytes) -> bytes:
    """Unpack a response object, in a thread if it is large (see `unpack`)."""
    if len(packed) > THREAD_UNPACKS_OVER:
        return await run_sync(unpack, packed)
    return unpack(packed)


async def unpack_chain(packed: Sequence[bytes]) -> list[ResponseItems]:
    """Unpack the items of a chain, in a thread if they are large (see `unpack_items`)."""
    if sum(map(len, packed)) > THREAD_UNPACKS_OVER:
        return await run_sync(unpack_items, packed)
    return unpack_items(packed)


async def pack_input(made_from: ResponseInput) -> bytes:
    """Return what a response was made from as bytes, packed by a thread if that is large."""

    def packed() -> bytes:
        return pack(_encoder.encode(made_from))

    return await run_sync(packed) if made_from.size > THREAD_OVER else packed()


async def unpack_input(packed: bytes) -> ResponseInput:
    """Return what a response was made from, unpacked by a thread if that is large.

    Raises:
        UnreadableResponse: `pack_input` did not make this.
    """
    try:
        if len(packed) > THREAD_UNPACKS_OVER:
            return await run_sync(lambda: _input_decoder.decode(unpack(packed)))
        return _input_decoder.decode(unpack(packed))
    except msgspec.DecodeError as error:
        raise UnreadableResponse from error
