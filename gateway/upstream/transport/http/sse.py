"""Server-sent events: bytes at any chunking in, (event name, data) out. Pure, and never decodes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gateway.upstream.transport.faults import unreachable

if TYPE_CHECKING:
    from lanes.errors import UpstreamFault
    from lanes.ports import Event

_BOM = b"\xef\xbb\xbf"
_DATA = b"data: "
_SMALL = 4096  # of a longer read it is not worth asking whether it holds one event only

#: `event:` lines seen so far and the names in them, so that a known line costs one look-up. Shared
#: by all streams; a backend has a dozen names, and the bound keeps one that makes up names out.
_NAMES: dict[bytes, str] = {}
_MAX_NAMES = 256


class SseSplitter:
    """Splits one body into events; an event without data, or with empty data, is none.

    `max_event_bytes` bounds one event, all its lines together. Bytes are buffered only while an
    event is unfinished, and joined once, so a long event costs linear time at any chunking.
    """

    __slots__ = ("_after_cr", "_head", "_limit", "_pending", "_small", "_unusual")

    def __init__(self, max_event_bytes: int) -> None:
        self._limit = max_event_bytes
        self._pending = bytearray()
        self._head: bytes | None = b""  # what may be the start of a byte order mark; None: past it
        self._after_cr = False
        self._unusual = True  # the next read needs `_normalise` whatever is in it
        self._small = min(_SMALL, max_event_bytes)

    def feed(self, data: bytes) -> list[Event]:
        """Take one read; return the events it completes. Raises UpstreamFault on a huge event."""
        if self._unusual or b"\r" in data:
            data = self._normalise(data)
        if len(data) < self._small and not self._pending:
            lines = data.split(b"\n", 4)
            if len(lines) == 4:  # one event in one read, the everyday case
                head, line, blank, end = lines
                name = _NAMES.get(head)
                if name is not None and line[:6] == _DATA != line and not (blank or end):
                    return [(name, line[6:])]
            elif len(lines) == 3:  # the same without a name
                line, blank, end = lines
                if line[:6] == _DATA != line and not (blank or end):
                    return [(None, line[6:])]
        return self._feed(data)

    def finish(self) -> list[Event]:
        """Return the event the body ended in, if it only lacked its blank line. Call once."""
        rest = bytes(self._pending).removesuffix(b"\n")
        self._pending.clear()
        self._measure(rest)
        return _any(rest)

    def _feed(self, data: bytes) -> list[Event]:
        """Take a read of any layout, its line ends normalised."""
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
        return unreachable(f"The backend sent an event of more than {self._limit} bytes.")

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
            # The CR has ended its line already; this LF is the other half of the same line end.
            data = data.removeprefix(b"\n")
            self._after_cr = False
        if b"\r" in data:
            self._after_cr = data.endswith(b"\r")
            data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        self._unusual = self._after_cr
        return data


def _aligned(lines: list[bytes]) -> list[Event] | None:
    """Read events that all look `event: x, data: y, blank` or all `data: y, blank`, else None."""
    line = iter(lines)
    found: list[Event]
    try:
        if lines[0][:6] == _DATA:
            wanted = len(lines) // 2
            found = [
                (None, value[6:])
                for value, blank in zip(line, line, strict=False)
                if not blank and value[:6] == _DATA != value
            ]
        else:
            wanted = len(lines) // 3
            found = [
                (_NAMES[head], value[6:])
                for head, value, blank in zip(line, line, line, strict=False)
                if not blank and value[:6] == _DATA != value
            ]
    except KeyError:
        return None
    return found if len(found) == wanted else None


def _any(data: bytes) -> list[Event]:
    """Read events of any layout."""
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
