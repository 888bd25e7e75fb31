"""Long plain strings cut out of JSON, so that what is left is short, and put back later. Pure.

A string is plain if it has no escape, as base64 has none: then its JSON is the same within any
other string. A mark stands for it meanwhile, a short string that nobody can guess; it may be moved,
copied and joined with others. No step takes longer than copying the strings does.

Some encoders escape a few characters of base64 all the same: every slash, or the `=` at its end.
The former are undone; beside the latter the long words of a string are cut out one by one.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from io import BytesIO
from typing import TYPE_CHECKING, Final

from lanes.codec import decode

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

#: Bytes from which on a string is cut out.
LONG: Final = 4096
#: Bytes for each escape from which on a string has few of them.
_FEW: Final = 1024
#: Bytes to look at, or to copy, in one call.
WINDOW: Final = 256 * 1024
_BACKSLASH: Final = ord("\\")
#: What a string holds, up to its end or to an escape that the window cuts.
_CONTENT: Final = re.compile(rb'[^"\\]*+(?:\\.[^"\\]*+)*+', re.DOTALL)
#: Bytes of a character at most.
_CHARACTER: Final = 4
#: How long the number in a mark is, and what follows it.
_DIGITS, _TAIL = 8, 2


class TooMuch(Exception):
    """The JSON has more bytes or values than is allowed."""


class LongStrings:
    """The strings that were cut out of some JSON.

    Equal strings have equal marks, and a mark has a blank if its string has one.

    Args:
        max_rest: Bytes that may be left, without the strings.
        max_values: Values that may be in there.
        check: Whether the strings have to be checked: nobody decoded them yet.
    """

    def __init__(
        self, *, max_rest: int | None = None, max_values: int | None = None, check: bool = False
    ) -> None:
        self._max_rest = max_rest
        self._max_values = max_values
        self._check = check
        self._mark = secrets.token_hex(12).encode()
        self._strings: list[memoryview] = []
        self._known: dict[tuple[int, bytes, bytes], list[int]] = {}

    def cut(self, data: bytes) -> bytes:
        """Return the JSON with a mark for each long plain string.

        Invalid JSON stays so, whatever is cut out.

        Raises:
            TooMuch: More is left than is allowed.
            ValueError: A long string is not valid.
        """
        pieces: list[bytes] = []
        gaps: list[bytes] = []
        at = kept = cut = 0
        while (start := data.find(b'"', at)) >= 0:
            self._bound(start - cut, len(gaps))
            gaps.append(data[at:start])
            end = string_end(data, start + 1)
            if end < 0:
                break
            if end - start > LONG:
                for begin, stop, string in _plain(data, start + 1, end):
                    if self._check:
                        _check_plain(string)
                    pieces += (data[kept:begin], self._marked(string))
                    kept, cut = stop, cut + stop - begin
            at = end + 1
        self._bound(len(data) - cut, len(gaps))
        if self._max_values is not None:
            self._bound(0, _values(b"".join(gaps)) + _values(data[at:]))
        return b"".join((*pieces, data[kept:])) if pieces else data

    def restore(self, data: bytes) -> bytes:
        """Return JSON with the strings in the place of their marks."""
        pieces = self._pieces(data)
        return joined(pieces) if len(pieces) > 1 else data

    def restored_size(self, data: bytes) -> int:
        """Return how many bytes `restore` would make of it."""
        parts = data.split(self._mark)[1:]
        marks = len(parts) * (len(self._mark) + _DIGITS + _TAIL)
        return len(data) - marks + sum(len(self._strings[int(part[:_DIGITS])]) for part in parts)

    def excerpt(self, text: str, most: int) -> str:
        """Return a text with its strings; of one that is far too long, both ends.

        Args:
            text: The text, out of JSON that was cut.
            most: Characters that there are at each end at least.
        """
        pieces = self._pieces(text.encode())
        room = most * _CHARACTER
        if sum(map(len, pieces)) <= 2 * room:
            return joined(pieces).decode()
        ends = _head(pieces, room), _tail(pieces, room)
        return "".join(end.decode(errors="ignore") for end in ends)

    def _pieces(self, data: bytes) -> list[bytes | memoryview]:
        head, *parts = data.split(self._mark)
        pieces: list[bytes | memoryview] = [head]
        for part in parts:
            pieces += (self._strings[int(part[:_DIGITS])], part[_DIGITS + _TAIL :])
        return pieces

    def _bound(self, rest: int, values: int) -> None:
        if self._max_rest is not None and rest > self._max_rest:
            raise TooMuch(f"more than {self._max_rest} bytes beside its long plain strings")
        if self._max_values is not None and values > self._max_values:
            raise TooMuch(f"more than {self._max_values} values")

    def _marked(self, string: memoryview) -> bytes:
        """Return the mark of a string."""
        key = len(string), bytes(string[:32]), bytes(string[-32:])
        alike = self._known.setdefault(key, [])
        digest = hashlib.blake2b(string).digest() if alike else b""
        for number in alike:
            if hashlib.blake2b(self._strings[number]).digest() == digest:
                break
        else:
            number = len(self._strings)
            alike.append(number)
            self._strings.append(string)
        return b"%b%0*d%b" % (self._mark, _DIGITS, number, b" ." if _has_blank(string) else b"..")


def without_long_strings(data: bytes) -> bytes:
    """Return JSON of which only the short strings are wanted, in steps that are all short."""
    return LongStrings().cut(data) if len(data) > WINDOW else data


def values_in(data: bytes) -> int:
    """Return how many values some JSON holds, the items of arrays and the pairs of objects."""
    if _values(data) < 1000:
        return _values(data)
    gaps: list[bytes] = []
    at = 0
    while (start := data.find(b'"', at)) >= 0:
        gaps.append(data[at:start])
        at = string_end(data, start + 1) + 1
        if not at:
            break
    return _values(b"".join(gaps)) + _values(data[at:])


def _values(outside: bytes) -> int:
    return outside.count(b",") + outside.count(b"[") + outside.count(b"{")


def joined(pieces: Iterable[bytes | memoryview]) -> bytes:
    """Return what `b"".join` does; it copies a window at a time."""
    whole = BytesIO()  # it grows without being copied, and nor does its value
    for piece in pieces:
        for part in windows(piece):
            whole.write(part)
    return whole.getvalue()


def windows(data: bytes | memoryview) -> Iterable[bytes | memoryview]:
    """Return all of some bytes, in parts that are short."""
    if len(data) <= WINDOW:
        return (data,)
    view = memoryview(data)
    return (view[at : at + WINDOW] for at in range(0, len(view), WINDOW))


def _head(pieces: Sequence[bytes | memoryview], size: int) -> bytes:
    head = b""
    for piece in pieces:
        head += piece[: size - len(head)]
    return head


def _tail(pieces: Sequence[bytes | memoryview], size: int) -> bytes:
    tail = b""
    for piece in reversed(pieces):
        tail = bytes(piece[max(0, len(piece) + len(tail) - size) :]) + tail
    return tail


def string_end(data: bytes, at: int) -> int:
    """Return where the quote is that ends the string whose content begins at `at`; -1 if none."""
    end, searched = -1, at
    while end < 0 and searched < len(data):
        end = data.find(b'"', searched, searched + WINDOW)
        searched += WINDOW
    if end < 0 or data[end - 1] != _BACKSLASH:
        return end
    while (match := _CONTENT.match(data, at, at + WINDOW)) and match.end() > at:
        at = match.end()
    return at if data[at : at + 1] == b'"' else -1


def _plain(data: bytes, start: int, end: int) -> Iterator[tuple[int, int, memoryview]]:
    """Yield what can be cut out of a long string: from where to where, and what stands for it."""
    view = memoryview(data)
    escapes = _count(data, b"\\", start, end)
    if not escapes:
        yield start, end, view[start:end]
    elif escapes == _count(data, b"\\/", start, end):
        yield start, end, memoryview(_without_escaped_slashes(data, start, end))
    elif escapes * _FEW < end - start:
        at = start
        while at < end:
            stop = data.find(b"\\", at, end)
            stop = end if stop < 0 else stop
            if stop - at > LONG and _is_word(data, at, stop):
                yield at, stop, view[at:stop]
            at = stop + (6 if data[stop + 1 : stop + 2] == b"u" else 2)


def _count(data: bytes, mark: bytes, start: int, end: int) -> int:
    """Return what `data.count` does, for a mark that cannot overlap with itself."""
    more = len(mark) - 1
    windows = range(start, end, WINDOW)
    return sum(data.count(mark, at, min(at + WINDOW + more, end)) for at in windows)


def _is_word(data: bytes, start: int, stop: int) -> bool:
    """Return whether this is one word, and no part of JSON that is the content of the string."""
    return data[start] not in b":," and not any(
        data.find(mark, at, min(at + WINDOW, stop)) >= 0
        for at in range(start, stop, WINDOW)
        for mark in (b" ", b"[", b"]", b"{", b"}")
    )


def _without_escaped_slashes(data: bytes, start: int, end: int) -> bytes:
    """Return a string whose only escape is that of slashes, without it; a window at a time."""
    pieces = []
    while start < end:
        stop = min(start + WINDOW, end)
        stop += data[stop - 1] == _BACKSLASH
        pieces.append(data[start:stop].replace(b"\\/", b"/"))
        start = stop
    return joined(pieces)


def _has_blank(string: memoryview) -> bool:
    return any(b" " in bytes(string[at : at + WINDOW]) for at in range(0, len(string), WINDOW))


def _check_plain(string: memoryview) -> None:
    """Raise ValueError if a string without escapes is no JSON; look at a window at a time."""
    at = 0
    while at < len(string):
        stop = min(at + WINDOW, len(string))
        while stop < len(string) and string[stop] & 0xC0 == 0x80 and stop < at + WINDOW + 4:
            stop += 1  # a character ends first
        decode(b'"%b"' % bytes(string[at:stop]))
        at = stop
