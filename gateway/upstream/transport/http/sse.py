"""Server-sent events: bytes in any chunks -> (event name, data), still encoded. Pure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from gateway.upstream.transport.faults import backend_fault
from gateway.upstream.transport.http.json_lines import JsonLines, data_of, is_whole
from gateway.upstream.transport.http.last_event import is_torn

if TYPE_CHECKING:
    from lanes.errors import UpstreamFault
    from lanes.ports import Event

_BOM = b"\xef\xbb\xbf"
_DATA = b"data: "
_SMALL = 4096  # a longer read hardly ever holds one event only

#: Lines of which a block that has one event has one.
_VALUES = re.compile(rb"^(?:data:|error:|\{|[^\S\n]+$)", re.MULTILINE)

#: Bytes from which on an event is not split into lines, each of them a copy.
_LARGE = 64 * 1024

#: `event:` lines seen so far -> the names in them, so that a line costs one look-up. All streams
#: share it. A backend has a dozen names; the bound stops one that makes names up.
_NAMES: dict[bytes, str] = {}
_MAX_NAMES = 256


class SseSplitter:
    """Splits one body into events, and skips those without data or with empty data.

    `max_event_bytes` bounds one event, all its lines together. Bytes are buffered only while an
    event is unfinished, and joined once, so a long event costs linear time in chunks of any size.
    A body that begins with JSON, or whose events end with their lines, is read by `JsonLines`.
    """

    __slots__ = (
        "_after_cr",
        "_head",
        "_limit",
        "_lines",
        "_pending",
        "_small",
        "_spread",
        "_unusual",
    )

    def __init__(self, max_event_bytes: int) -> None:
        self._limit = max_event_bytes
        self._pending = bytearray()
        self._head: bytes | None = b""  # perhaps the start of a byte order mark; None: it is past
        self._lines: JsonLines | None = None
        self._spread = False  # whether the unfinished event has a value over several lines
        self._after_cr = False
        self._unusual = True  # the next read needs `_normalise` whatever is in it
        self._small = min(_SMALL, max_event_bytes)

    def feed(self, data: bytes) -> list[Event]:
        """Return the events that one read completes. Raises UpstreamFault if one is too large."""
        if self._unusual or b"\r" in data:
            data = self._normalise(data)
            if self._lines is not None:
                return self._lines.feed(data)
        if len(data) < self._small and not self._pending:
            lines = data.split(b"\n", 4)
            if len(lines) == 4:  # one event in one read, the usual case
                head, line, blank, end = lines
                name = _NAMES.get(head)
                if name is not None and line[:6] == _DATA != line and not (blank or end):
                    return [(name, line[6:])]
            elif len(lines) == 3:  # the same without an `event:` line
                line, blank, end = lines
                if line[:6] == _DATA != line and not (blank or end):
                    return [(None, line[6:])]
        return self._feed(data)

    def finish(self) -> list[Event]:
        """Return the last event, whose blank line is missing, unless it is torn. Call once."""
        rest = bytes(self._pending)
        self._pending.clear()
        if self._lines is None and _ends_by_lines(rest):
            self._read_lines(is_stream=True)
        if self._lines is not None:
            return [*self._lines.feed(rest), *self._lines.finish()]
        rest = rest.removesuffix(b"\n")
        self._measure(rest)
        return [event for event in _events(rest) if not is_torn(event)]

    def _feed(self, data: bytes) -> list[Event]:
        """Return the events of a read of any layout, its line ends normalised."""
        if self._pending or not data.endswith(b"\n\n"):
            data = self._complete(data)
            if self._lines is not None:
                return self._lines.feed(data)
        if not data:
            return []
        if len(data) > self._limit:
            self._measure(data)
        if len(data) > _LARGE and (event := _alone(data)) is not None:
            return [event]
        return _aligned(data.split(b"\n")) or self._any(data)

    def _any(self, data: bytes) -> list[Event]:
        """Return events of any layout, up to a block whose events end with their lines."""
        events: list[Event] = []
        blocks = data.split(b"\n\n")
        for number, block in enumerate(blocks):
            # Asked as in `_wait`: whether a block comes in one read or in several changes nothing.
            if len(_VALUES.findall(block)) > 1 and _ends_by_lines(block + b"\n"):
                rest = b"\n\n".join(blocks[number:]) + self._pending
                self._pending.clear()
                self._read_lines(is_stream=True)
                assert self._lines is not None
                return events + self._lines.feed(rest)
            events += _events(block)
        return events

    def _complete(self, data: bytes) -> bytes:
        """Keep the bytes of the unfinished last event, return those of the finished ones."""
        pending = self._pending
        if pending:
            straddles = pending[-1] == 0x0A and data[:1] == b"\n"
            pending += data
            if not straddles and b"\n\n" not in data:
                return self._wait(data)
            data = bytes(pending)
            pending.clear()
            self._spread = False
        end = data.rfind(b"\n\n") + 2
        if end == 1:
            pending += data
            return self._wait(data)
        pending += data[end:]
        self._wait(b"")
        return data[:end]

    def _wait(self, data: bytes) -> bytes:
        """Return nothing, or all that is pending where its events end with their lines."""
        pending = self._pending
        if len(pending) > self._limit + 1:  # its last byte may be the line end
            raise self._too_large()
        if self._spread or b"\n" not in data:
            return b""
        by_lines = _ends_by_lines(bytes(pending))
        self._spread = by_lines is None
        if not by_lines:
            return b""
        self._read_lines(is_stream=True)
        lines = bytes(pending)
        pending.clear()
        return lines

    def _read_lines(self, *, is_stream: bool = False) -> None:
        """Take each line for itself from here on; `_unusual` keeps the usual way clear of it."""
        self._lines, self._unusual = JsonLines(self._limit, is_stream=is_stream), True

    def _measure(self, data: bytes) -> None:
        if any(len(block) > self._limit for block in data.split(b"\n\n")):
            raise self._too_large()

    def _too_large(self) -> UpstreamFault:
        return backend_fault(f"The backend sent an event of more than {self._limit} bytes.")

    def _normalise(self, data: bytes) -> bytes:
        """Drop a leading byte order mark and blanks, and turn CR LF and CR into LF."""
        if self._head is not None:
            data = self._head + data
            if len(data) < len(_BOM) and _BOM.startswith(data):
                self._head = data
                return b""
            data = data.removeprefix(_BOM).lstrip()
            self._head = None if data else b""
            if data[:1] in (b"{", b"["):
                self._read_lines()
        if self._after_cr and data:
            # The CR has ended its line already; this LF belongs to the same line end.
            data = data.removeprefix(b"\n")
            self._after_cr = False
        if b"\r" in data:
            self._after_cr = data.endswith(b"\r")
            data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        self._unusual = self._after_cr or self._head is not None or self._lines is not None
        return data


def _alone(data: bytes) -> Event | None:
    """Return the event of data that is one in the usual form; it is large, so it is copied once."""
    name, start = None, 0
    if data[:6] != _DATA:
        start = data.find(b"\n") + 1
        line = data[: start - 1]
        if not line.startswith(b"event: "):
            return None
        name = _NAMES.get(line) or _named(line, line[7:])
    end = data.find(b"\n", start)
    if end != len(data) - 2 or not data.startswith(_DATA, start) or end == start + 6:
        return None
    return name, data[start + 6 : end]


def _aligned(lines: list[bytes]) -> list[Event] | None:
    """Return events that all are `event: x, data: y, blank`, or all `data: y, blank`, else None."""
    line = iter(lines)
    events: list[Event]
    try:
        if lines[0][:6] == _DATA:
            count = len(lines) // 2
            events = [
                (None, value[6:])
                for value, blank in zip(line, line, strict=False)
                if not blank and value[:6] == _DATA != value
            ]
        else:
            count = len(lines) // 3
            events = [
                (_NAMES[head], value[6:])
                for head, value, blank in zip(line, line, line, strict=False)
                if not blank and value[:6] == _DATA != value
            ]
    except KeyError:
        return None
    return events if len(events) == count else None


def _events(block: bytes) -> list[Event]:
    """Return the event of a block of lines; several where other lines hold whole values."""
    name: str | None = None
    values: list[bytes] = []
    others: list[bytes] = []  # the standard ignores them, but some hold a value without `data:`
    bare_first = False
    for line in block.split(b"\n"):
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if field == b"data":
            values.append(value)
        elif field == b"event":
            name = _named(line, value)
        elif field == b"error" and value.lstrip()[:1] == b"{":
            name = "error"
            values.append(value)
        elif field not in (b"", b"id", b"retry"):
            bare_first = bare_first or not values
            others.append(line)
    return [(name, data) for data in data_of(values, others, bare_first=bare_first)]


def _named(line: bytes, value: bytes) -> str | None:
    """Return the name in an `event:` line, and remember it."""
    name = value.decode(errors="replace") or None
    if name and len(line) < 128 and len(_NAMES) < _MAX_NAMES:
        _NAMES[line] = name
    return name


def _ends_by_lines(pending: bytes) -> bool | None:
    """Return whether the next event begins right behind the line of a whole one.

    None: the value goes on over several lines, so no end of a line ends it.
    """
    first: bytes | None = None
    lines = pending.split(b"\n")
    for line in lines[:-1]:
        if first is not None and line.isspace():
            return True  # meant as the blank line
        value = _value(line)
        if value is not None:
            if first is not None:
                return True
            first = value
            if not is_whole(first):
                return None
    return first is not None and _value(lines[-1]) is not None


def _value(line: bytes) -> bytes | None:
    """Return the value that begins on a line, perhaps without a field; None if none does."""
    field, colon, value = line.partition(b":")
    value = value.strip()
    if (field == b"data" and colon) or (field == b"error" and value[:1] == b"{"):
        return value
    return line if line[:1] == b"{" else None
