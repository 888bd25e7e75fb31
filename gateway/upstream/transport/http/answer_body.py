"""The body of one answer: what its first bytes show it to be, and the events in it (D45). Pure.

Backends and the proxies before them name the type of a body wrongly, or not at all, and some
compress what was not to be compressed. So the bytes decide.
"""

from __future__ import annotations

import zlib
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from gateway.unpacking import Zstd
from gateway.upstream.transport.faults import answer_fault, backend_fault
from gateway.upstream.transport.http.sse import SseSplitter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from lanes.errors import UpstreamFault
    from lanes.ports import Event

#: How much of a body that is no stream is kept for its fault.
_MAX_KEPT: Final = 64 * 1024
_BOM, _PAGE = b"\xef\xbb\xbf", b"<"
#: How compressed bodies begin; the latter are characters of texts, too.
_GZIP, _ZLIB, _ZSTD = b"\x1f", b"x", b"("
#: What begins a line of an event stream.
_FIELDS: Final = (b":", b"data", b"event", b"id", b"retry")
_ENCODING: Final = "content-encoding"
#: zlib's `wbits` for a gzip or zlib header of any size, and for none.
_AUTOMATIC, _BARE = 47, -15
_READABLE: Final = frozenset({"identity", "", "gzip", "x-gzip", "deflate", "zstd"})


class AnswerBody:
    """Reads one body: an event stream, lines of JSON, one JSON value, or a page that is none.

    Args:
        status: The HTTP status of the answer.
        headers: Its headers, with lower-case names.
        max_event_bytes: The largest event.
    """

    def __init__(self, status: int, headers: Mapping[str, str], max_event_bytes: int) -> None:
        self.splitter = SseSplitter(max_event_bytes)
        self._status = status
        self._headers = headers
        self._named = encoding(headers)  # which may be wrong
        self._inflate: Callable[[bytes], Iterator[bytes]] | None = None
        self._looked = self._begun = self._is_page = False
        self._kept: bytearray | None = bytearray()  # the body up to its first event
        #: Whether what follows may go to `splitter` at once.
        self.plain = False

    def feed(self, data: bytes) -> list[Event]:
        """Return the events of one read. Raises UpstreamFault where the body cannot be one."""
        if data and not self._looked:
            self._looked = True
            self._inflate = _inflating(data, self._named)
        if self._inflate is None:
            return self._read(data)
        events: list[Event] = []
        try:
            for text in self._inflate(data):
                events += self._read(text)
        except (zlib.error, ValueError):
            raise backend_fault("The backend sent a broken compressed answer.") from None
        return events

    def finish(self) -> list[Event]:
        """Return the last events. Raises UpstreamFault if the body was something else."""
        events: list[Event] = [] if self._is_page else self.splitter.finish()
        if events or self._kept is None or not _is_foreign(bytes(self._kept)):
            return events
        raise self._fault(bytes(self._kept))

    def _fault(self, kept: bytes) -> UpstreamFault:
        plain = {name: self._headers[name] for name in self._headers if name != _ENCODING}
        return answer_fault(self._status, plain, kept)

    def _read(self, data: bytes) -> list[Event]:
        if not self._begun:
            text = (bytes(self._kept or b"") + data).removeprefix(_BOM).lstrip()
            self._begun = not _BOM.startswith(text)
            self._is_page = text.startswith(_PAGE)
        events = [] if self._is_page else self.splitter.feed(data)
        if events:
            self._kept = None
            self.plain = self._inflate is None
        elif self._kept is not None:
            self._kept += data[: _MAX_KEPT - len(self._kept)]
            if self._is_page and len(self._kept) == _MAX_KEPT:
                raise self._fault(bytes(self._kept))
        return events


def _inflating(start: bytes, named: str) -> Callable[[bytes], Iterator[bytes]] | None:
    """Return what unpacks a body, slice by slice; None if it is not compressed.

    Args:
        start: Its first bytes.
        named: How it is compressed by its headers.
    """
    packed = named not in ("identity", "")
    if start.startswith(_GZIP) or (packed and start.startswith(_ZLIB)):
        return _Inflater(_AUTOMATIC).feed
    if packed and start.startswith(_ZSTD):
        return Zstd().feed
    text = start.removeprefix(_BOM).lstrip()
    texts = (*_FIELDS, b"{", b"[", _PAGE, _BOM)
    if named == "deflate" and not any(text[: len(one)] == one[: len(text)] for one in texts):
        return _Inflater(_BARE).feed  # as some servers understand its name
    return None


class _Inflater:
    """Inflates one body, and ignores what follows its end."""

    def __init__(self, wbits: int) -> None:
        self._stream = zlib.decompressobj(wbits)

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Yield slices of what is in `data`. Raises zlib.error."""
        while data and not self._stream.eof:
            yield self._stream.decompress(data, _MAX_KEPT)
            data = self._stream.unconsumed_tail


def encoding(headers: Mapping[str, str]) -> str:
    """Return how a body is compressed, `identity` or empty if it is not."""
    return headers.get(_ENCODING, "identity").strip().lower()


def is_readable(headers: Mapping[str, str]) -> bool:
    """Return whether `AnswerBody` can read a body of these headers."""
    return encoding(headers) in _READABLE


def unpacked(headers: Mapping[str, str], body: bytes) -> tuple[Mapping[str, str], bytes]:
    """Return the headers and the beginning of a whole body, as it was before it was compressed."""
    if not is_readable(headers):
        return headers, body
    inflate = _inflating(body, encoding(headers))
    with suppress(zlib.error, ValueError):
        body = body if inflate is None else next(inflate(body), b"")[:_MAX_KEPT]
    return {name: headers[name] for name in headers if name != _ENCODING}, body


def _is_foreign(text: bytes) -> bool:
    """Return whether a body without an event is neither an event stream nor the start of JSON."""
    if text.removeprefix(_BOM).lstrip().startswith((b"{", b"[{")):
        return False
    lines = (line.strip() for line in text.splitlines())
    return any(line and not line.startswith(_FIELDS) for line in lines)
