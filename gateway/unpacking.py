"""Unpacks gzip and zstd in slices of bounded size, whatever a few bytes promise to become."""

from __future__ import annotations

import sys
import zlib
from typing import TYPE_CHECKING, Final, Protocol

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

#: Bytes to unpack at a time.
SLICE: Final = 256 * 1024
#: The largest window of a zstd frame is 8 MiB, as RFC 9659 has it for HTTP.
_WINDOW_LOG: Final = 23


class Unpacker(Protocol):
    """Unpacks one body."""

    @property
    def whole(self) -> bool:
        """Whether the packed data has come to its end."""

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Yield slices of what is in `data`. Raises ValueError, whose text says what is wrong."""


class Gzip:
    """One gzip member (RFC 1952)."""

    def __init__(self) -> None:
        self._stream = zlib.decompressobj(wbits=31)

    @property
    def whole(self) -> bool:
        """Whether the member has come to its end."""
        return self._stream.eof

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Yield slices of what is in `data` (see `Unpacker.feed`)."""
        stream = self._stream
        while data:
            _check_end(ended=stream.eof)
            try:
                yield stream.decompress(data, SLICE)
            except zlib.error:
                raise ValueError("it is not gzip") from None
            data = stream.unconsumed_tail or stream.unused_data


class Zstd:
    """One zstd frame (RFC 8878)."""

    def __init__(self) -> None:
        options = {int(zstd.DecompressionParameter.window_log_max): _WINDOW_LOG}
        self._stream = zstd.ZstdDecompressor(options=options)

    @property
    def whole(self) -> bool:
        """Whether the frame has come to its end."""
        return self._stream.eof

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Yield slices of what is in `data` (see `Unpacker.feed`)."""
        stream, more = self._stream, bool(data)
        while more:
            _check_end(ended=stream.eof)
            try:
                yield stream.decompress(data, SLICE)
            except zstd.ZstdError:
                raise ValueError("it is not zstd, or needs a window over 8 MiB") from None
            data = stream.unused_data
            more = bool(data) if stream.eof else not stream.needs_input


def _check_end(*, ended: bool) -> None:
    if ended:
        raise ValueError("something follows its end")


UNPACKERS: Final[Mapping[str, type[Gzip | Zstd]]] = {"gzip": Gzip, "x-gzip": Gzip, "zstd": Zstd}
