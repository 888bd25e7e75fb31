"""Bytes from a server, in any chunks -> whole WebSocket messages. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

_TEXT = 0x81  # a text frame that is a whole message
_MASKED = 0x80
_FIN = 0x80
_CONTINUATION = 0x0
_DATA = (0x1, 0x2)
#: How many bytes at either end of an event that is too large are read, to find its lane.
EDGE = 1024


class FrameTooLarge(ValueError):
    """A frame is larger than allowed."""


class FrameSplitter:
    """Takes text messages out of their frames. It is on the token path, so it reads nothing else.

    Args:
        limit: The most bytes of a payload.
        other: Takes every other frame, whole, and returns the messages that end with it.
        large: Takes the two ends of a text message over the limit, which is skipped.
    """

    def __init__(
        self,
        limit: int,
        other: Callable[[bytes], list[bytes]],
        large: Callable[[bytes, bytes], None],
    ) -> None:
        self._limit = limit
        self._other = other
        self._large = large
        self._to_skip = 0
        self._first = self._last = b""
        # The reads that hold the beginning of an unfinished frame.
        self._kept: list[bytes] = []
        self._have = self._need = 0
        self._fragmented = False

    def feed(self, data: bytes) -> list[bytes]:
        """Return the messages that this read completes. Raises FrameTooLarge, except for a text."""
        if self._to_skip:
            data = self._skip(data)
        elif self._kept:
            data = self._joined(data)
        messages: list[bytes] = []
        at, end = 0, len(data)
        while at < end:
            if at + 4 <= end and data[at + 1] == 126:  # nearly all events are of such a size
                start = at + 4
                stop = start + (data[at + 2] << 8 | data[at + 3])
            else:
                start, stop = self._bounds(data, at, end)
            if stop - start > self._limit:
                data = self._begin_skip(data, at, start, stop)
                at, end = 0, len(data)
                continue
            if stop > end:
                self._keep(data[at:], stop - at)
                break
            if data[at] == _TEXT and data[at + 1] < _MASKED and not self._fragmented:
                messages.append(data[start:stop])
            else:
                messages += self._special(data[at:stop])
            at = stop
        return messages

    def _bounds(self, data: bytes, at: int, end: int) -> tuple[int, int]:
        """Return where a payload starts and stops; beyond `end` if its header is not whole."""
        size = data[at + 1] & ~_MASKED if at + 2 <= end else 0
        start = at + {126: 4, 127: 10}.get(size, 2)
        if start > end:
            return start, start
        if size > 125:
            size = int.from_bytes(data[at + 2 : start], "big")
        if data[at + 1] & _MASKED:
            size += 4  # its mask; no server may send one, and `other` reports that
        return start, start + size

    def _begin_skip(self, data: bytes, at: int, start: int, stop: int) -> bytes:
        if data[at] != _TEXT or data[at + 1] >= _MASKED or self._fragmented:
            raise FrameTooLarge
        self._to_skip = stop - start
        self._first = self._last = b""
        return self._skip(data[start:])

    def _skip(self, data: bytes) -> bytes:
        """Skip a message that is too large, and return the rest of the read."""
        skipped = data[: self._to_skip]
        self._to_skip -= len(skipped)
        self._first += skipped[: EDGE - len(self._first)]
        self._last = (self._last + skipped[-EDGE:])[-EDGE:]
        if not self._to_skip:
            self._large(self._first, self._last)
        return data[len(skipped) :]

    def _joined(self, data: bytes) -> bytes:
        """Return the kept reads and this one once they hold a whole frame, else nothing."""
        self._kept.append(data)
        self._have += len(data)
        if self._have < self._need:
            return b""
        whole = b"".join(self._kept)
        self._kept.clear()
        return whole

    def _keep(self, data: bytes, need: int) -> None:
        self._kept.append(data)
        self._have, self._need = len(data), need

    def _special(self, frame: bytes) -> list[bytes]:
        opcode, fin = frame[0] & 0x0F, bool(frame[0] & _FIN)
        if opcode in _DATA and not fin:
            self._fragmented = True
        elif opcode == _CONTINUATION and fin:
            self._fragmented = False
        return self._other(frame)
