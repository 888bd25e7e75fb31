"""Bodies whose events end with their line: JSON values, with `data:` before them or not. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from gateway.upstream.transport.faults import backend_fault
from lanes.codec import decode_lenient

if TYPE_CHECKING:
    from lanes.ports import Event

_DONE = b"[DONE]"
#: How often a value of many lines is looked at before its body ends: each look reads all of it.
_TRIES = 16
_raw = msgspec.json.Decoder(msgspec.Raw).decode
_list = msgspec.json.Decoder(list[msgspec.Raw]).decode


class JsonLines:
    """Splits one body into events: NDJSON, events without blank lines, or one whole JSON value.

    A value may go on over several lines, and may end with the body. Line ends are normalised by
    `SseSplitter`, which finds out that a body is one of these. `max_event_bytes` bounds a value.
    `is_stream` says that the body began as an event stream: there a line without a field is ignored
    unless it is a value, so one that turns out to be none is dropped.
    """

    __slots__ = (
        "_framed",
        "_is_stream",
        "_limit",
        "_lines",
        "_name",
        "_pending",
        "_room",
        "_tries",
    )

    def __init__(self, max_event_bytes: int, *, is_stream: bool = False) -> None:
        self._is_stream = is_stream
        self._limit = max_event_bytes
        self._pending: list[bytes] = []  # of the line that has not ended
        self._lines: list[bytes] = []  # of the value that has not ended
        self._room = max_event_bytes  # what both may still grow by
        self._tries = _TRIES
        self._name: str | None = None
        self._framed = False  # whether the value stands behind `data:`

    def feed(self, data: bytes) -> list[Event]:
        """Return the events that one read completes. Raises UpstreamFault if one is too large."""
        events: list[Event] = []
        first, *others = data.split(b"\n")
        self._hold(first)
        for line in others:
            ended = b"".join(self._pending)
            self._pending.clear()
            self._take(ended, events)
            if not self._lines:
                self._room, self._tries = self._limit, _TRIES
            self._hold(line)
        return events

    def finish(self) -> list[Event]:
        """Return the last events; a value that is not whole was torn, and is dropped."""
        events: list[Event] = []
        self._take(b"".join(self._pending), events)
        self._pending.clear()
        if is_whole(b"\n".join(self._lines)):
            self._end(events)
        self._lines.clear()
        return events

    def _hold(self, data: bytes) -> None:
        if data:
            self._pending.append(data)
            self._room -= len(data)
            if self._room < 0:
                raise backend_fault(f"The backend sent an event of more than {self._limit} bytes.")

    def _take(self, line: bytes, events: list[Event]) -> None:
        """Take a whole line."""
        text = line.strip()
        if self._lines and ((self._framed and not text) or _begins(line)):
            self._end(events)  # whatever it is: what follows is not part of it
        if not text:
            if not self._lines:
                self._name = None
        elif self._lines:
            self._lines.append(text if self._framed else line)
            if line[:1] in b"}]" and self._tries:
                self._tries -= 1
                if is_whole(b"\n".join(self._lines)):
                    self._end(events)
        else:
            self._begin(text, events)

    def _begin(self, text: bytes, events: list[Event]) -> None:
        """Take the first line of a value, or a line that is none."""
        field, _, value = text.partition(b":")
        self._framed = field == b"data"
        if field == b"event":
            self._name = value.strip().decode(errors="replace") or None
            return
        if field == b"error" and value.lstrip()[:1] == b"{":
            self._name, self._framed = "error", True
        if self._framed:
            text = value.strip()
        elif text[:1] not in b"{[":
            return
        text = _without_glued_end(text)
        self._lines = [text] if text else []
        if is_whole(text) or text[:1] not in b"{[":
            self._end(events)

    def _end(self, events: list[Event]) -> None:
        """End the value."""
        data = b"\n".join(self._lines)
        self._lines.clear()
        if self._is_stream and not self._framed and not is_whole(data):
            return
        events.extend((self._name, one) for one in _elements(data))
        self._name = None


def is_whole(text: bytes) -> bool:
    """Return whether a text is a whole JSON object or list, or `[DONE]`."""
    text = text.rstrip()
    if text[:1] not in (b"{", b"[") or text[-1:] not in (b"}", b"]"):
        return False
    if text == _DONE:
        return True
    try:
        _raw(text)
    except (ValueError, RecursionError):
        try:
            decode_lenient(text)
        except ValueError:
            return False
    return True


def data_of(values: list[bytes], others: list[bytes], *, bare_first: bool) -> list[bytes]:
    """Return the data of one block of an event stream: several where others hold whole values.

    Args:
        values: What its `data:` lines hold.
        others: Its lines of no known field. The standard ignores them, but some are the rest of a
            value, or a value that somebody put between events.
        bare_first: Whether the first of these came before the first `data:` line.
    """
    if len(others) > 1 and all(map(is_whole, others)):
        return others
    data = b"\n".join(values)
    bare = _without_glued_end(b"\n".join(others))
    if is_whole(bare):
        both = (bare, data) if bare_first else (data, bare)
        return [one for value in both for one in _elements(value)]
    if others and is_whole(joined := b"%b\n%b" % (data, bare)):
        return [joined]
    return [data] if data else []


def _without_glued_end(text: bytes) -> bytes:
    """Return a text without the `data: [DONE]` that somebody put right behind a whole value."""
    head, glued, tail = text.rpartition(b"data:")
    return head if glued and tail.strip() == _DONE and is_whole(head) else text


def _elements(data: bytes) -> list[bytes]:
    """Return the elements of a list of objects; any other value is one."""
    if not data.startswith(b"["):
        return [data] if data else []
    try:
        return [bytes(one) for one in _list(data)]
    except (ValueError, RecursionError):
        return [data]


def _begins(line: bytes) -> bool:
    """Return whether a line begins a value or an event, wherever it stands: it is not indented."""
    return line[:2] == b'{"' or line.startswith((b"data:", b"event:", b"error:"))
