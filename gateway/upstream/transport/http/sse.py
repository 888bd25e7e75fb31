"""Server-sent events: bytes in any chunks -> (event name, data), still encoded. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gateway.upstream.transport.faults import backend_fault

if TYPE_CHECKING:
    from lanes.errors import UpstreamFault
    from lanes.ports import Event

_BOM = b"\xef\xbb\xbf"
_DATA = b"data: "
_SMALL = 4096  # a longer read hardly ever holds one event only

#: `event:` lines seen so far -> the names in them, so that a line costs one look-up. All streams
#: share it. A backend has a dozen names; the bound stops one that makes names up.
_NAMES: dict[bytes, str] = {}
_MAX_NAMES = 256


class SseSplitter:
    """Splits one body into events, and skips those without data or with empty data.

    `max_event_bytes` bounds one event, all its lines together. Bytes are buffered only while an
    event is unfinished, and joined once, so a long event costs linear time in chunks of any size.
    """

    __slots__ = ("_after_cr", "_head", "_limit", "_pending", "_small", "_unusual")

    def __init__(self, max_event_bytes: int) -> None:
        self._limit = max_event_bytes
        self._pending = bytearray()
        self._head: bytes | None = b""  # perhaps the start of a byte order mark; None: it is past
        self._after_cr = False
        self._unusual = True  # the next read needs `_normalise` whatever is in it
        self._small = min(_SMALL, max_event_bytes)

    def feed(self, data: bytes) -> list[Event]:
        """Return the events that one read completes. Raises UpstreamFault if one is too large."""
        if self._unusual or b"\r" in data:
            data = self._normalise(data)
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
        """Return the last event if only its blank line is missing. Call once, at the body's end."""
        rest = bytes(self._pending).removesuffix(b"\n")
        self._pending.clear()
        self._measure(rest)
        return _any(rest)

    def _feed(self, data: bytes) -> list[Event]:
        """Return the events of a read of any layout, its line ends normalised."""
        if self._pending or not data.endswith(b"\n\n"):
            data = self._complete(data)
        if not data:
            return []
        if len(data) > self._limit:
            self._measure(data)
        return _aligned(data.split(b"\n")) or _any(data)

    def _complete(self, data: bytes) -> bytes:
        """Keep the bytes of the unfinished last event, return those of the finished ones."""
        pending = self._pending
        if pending:
            straddles = pending[-1] == 0x0A and data[:1] == b"\n"
            pending += data
            if not straddles and b"\n\n" not in data:
                return self._wait()
            data = bytes(pending)
            pending.clear()
        end = data.rfind(b"\n\n") + 2
        if end == 1:
            pending += data
            return self._wait()
        pending += data[end:]
        self._wait()
        return data[:end]

    def _wait(self) -> bytes:
        if len(self._pending) > self._limit + 1:  # its last byte may be the line end
            raise self._too_large()
        return b""

    def _measure(self, data: bytes) -> None:
        if any(len(block) > self._limit for block in data.split(b"\n\n")):
            raise self._too_large()

    def _too_large(self) -> UpstreamFault:
        return backend_fault(f"The backend sent an event of more than {self._limit} bytes.")

    def _normalise(self, data: bytes) -> bytes:
        """Drop a leading byte order mark and turn CR LF and CR into LF."""
        if self._head is not None:
            data = self._head + data
            if len(data) < len(_BOM) and _BOM.startswith(data):
                self._head = data
                return b""
            self._head = None
            data = data.removeprefix(_BOM)
        if self._after_cr and data:
            # The CR has ended its line already; this LF belongs to the same line end.
            data = data.removeprefix(b"\n")
            self._after_cr = False
        if b"\r" in data:
            self._after_cr = data.endswith(b"\r")
            data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        self._unusual = self._after_cr
        return data


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


def _any(data: bytes) -> list[Event]:
    """Return events of any layout."""
    return [event for block in data.split(b"\n\n") if (event := _event(block))]


def _event(block: bytes) -> Event | None:
    name: str | None = None
    values: list[bytes] = []
    for line in block.split(b"\n"):
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if field == b"data":
            values.append(value)
        elif field == b"event":
            name = value.decode(errors="replace") or None
            if name and len(line) < 128 and len(_NAMES) < _MAX_NAMES:
                _NAMES[line] = name
    data = b"\n".join(values)
    return (name, data) if data else None
