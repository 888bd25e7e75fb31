"""One HTTP/1.1 connection to a backend: requests out, answers in, one at a time."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Protocol, cast

import httptools

from gateway.upstream.transport.faults import unreachable
from lanes.errors import UpstreamFault

if TYPE_CHECKING:
    from collections.abc import Callable

_MAX_HEAD_BYTES = 256 * 1024


class Stale(UpstreamFault):
    """A kept connection had gone before the backend answered anything: worth a fresh one."""


class AnswerSink(Protocol):
    """What a connection tells of the answer to the request it carries."""

    #: The loop's time of the last read.
    heard: float
    #: Takes the body bytes of each read.
    consume: Callable[[bytes], None]

    def on_head(self, status: int, headers: dict[str, str]) -> None:
        """Take the head, once."""

    def on_end(self) -> None:
        """Hear that the body ended as it should; the connection is no longer this answer's."""

    def on_lost(self, fault: UpstreamFault) -> None:
        """Hear that it will not; the connection is closed."""


class HttpConnection(asyncio.Protocol):
    """Calls `on_idle` when it could carry the next request and `on_lost` when it is gone.

    `data_received` is the token path: one parser call, one `consume` call per read.
    """

    def __init__(
        self, on_idle: Callable[[HttpConnection], None], on_lost: Callable[[HttpConnection], None]
    ) -> None:
        self.idle_since = 0.0
        self._on_idle = on_idle
        self._on_lost = on_lost
        self._time = asyncio.get_running_loop().time
        self._transport: asyncio.Transport | None = None
        self._answer: AnswerSink | None = None
        self._used = False
        self._expiry: asyncio.TimerHandle | None = None
        # What the parser calls. The body's pieces (one per HTTP chunk) go straight into a list.
        self._parts: list[bytes] = []
        self.on_body = self._parts.append
        self._parser: httptools.HttpResponseParser | None = httptools.HttpResponseParser(self)
        self._reset()

    def _reset(self) -> None:
        self._headers: dict[str, str] = {}
        self._head_room = _MAX_HEAD_BYTES
        self._begun = self._headed = self._ended = self._reusable = False

    @property
    def closed(self) -> bool:
        """Whether it can carry nothing more."""
        return self._transport is None or self._transport.is_closing()

    def send(self, request: list[bytes], answer: AnswerSink) -> None:
        """Send a whole request; the connection is `answer`'s until its end. Raises Stale."""
        if self._transport is None or self._transport.is_closing():
            raise _stale()
        self._reset()
        self._answer = answer
        answer.heard = self._time()
        self._transport.writelines(request)

    def read(self, *, on: bool) -> None:
        """Read on, or leave the bytes to the peer's send window. Idempotent."""
        if self._transport is None or self._transport.is_closing():
            return
        if on:
            self._transport.resume_reading()
        else:
            self._transport.pause_reading()

    def expire(self, seconds: float) -> None:
        """Close unless the answer ends within `seconds`."""
        late = unreachable("The backend did not end its answer.")
        self._expiry = asyncio.get_running_loop().call_later(seconds, self.drop, late)

    def abort(self) -> None:
        """Close now, whatever is still to be sent or read, and tell the answer nothing."""
        self._answer = None
        self._unexpire()
        if self._transport is not None:
            self._transport.abort()

    # -- asyncio.Protocol --

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the transport, of any loop and with or without TLS."""
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Take one read: parse, hand over the body, see whether it was the last."""
        answer = self._answer
        if answer is None or self._parser is None:
            self.abort()  # nobody asked: whatever comes next could not be told apart
            return
        answer.heard = self._time()
        fault = None
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            fault = unreachable(f"The backend's answer is no HTTP/1.1 ({error}).")
        parts = self._parts
        if parts:
            body = parts[0] if len(parts) == 1 else b"".join(parts)
            parts.clear()
            answer.consume(body)
        elif not self._headed:
            self._head_room -= len(data)
            if self._head_room < 0:
                fault = unreachable("The backend's answer has a head without end.")
        if self._ended:
            self._reusable = self._reusable and fault is None
            self._finish()
        elif fault is not None:
            self.drop(fault)

    def connection_lost(self, exc: Exception | None) -> None:
        """Hear that the transport is closed, by whom ever."""
        if self._headed and exc is None and self._until_close():
            self._reusable = False
            self._finish()
        elif self._used and not self._begun:
            self.drop(_stale())
        else:
            when = "before it ended" if self._headed else "without an answer"
            why = f" ({exc})" if exc else ""
            self.drop(unreachable(f"The backend closed the connection {when}{why}."))
        self._transport = None
        self._parser = None  # the two hold each other
        self._on_lost(self)

    # -- httptools, inside feed_data; `on_body` is set above --

    def on_message_begin(self) -> None:
        """Hear that an answer begins; one after the end was not asked for."""
        if self._ended:
            raise httptools.HttpParserError("an answer without a request")
        self._begun = True

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take one header line. Repeated ones are joined, as the standard has it."""
        if self._headed:
            return  # a trailer
        key, text = name.decode("latin-1").lower(), value.decode("latin-1")
        known = self._headers.get(key)
        self._headers[key] = text if known is None else f"{known}, {text}"

    def on_headers_complete(self) -> None:
        """Pass the head on, unless it is an interim one (1xx)."""
        if self._parser is None or self._answer is None or self._headed:
            return
        status = self._parser.get_status_code()
        if status >= 200:
            self._headed = True
            self._answer.on_head(status, self._headers)

    def on_message_complete(self) -> None:
        """Hear that the answer ended; what an interim one ends is only itself."""
        if self._headed and self._parser is not None:
            self._reusable = self._parser.should_keep_alive()
            self._ended = True
        else:
            self._headers = {}

    # -- the end of an answer --

    def _until_close(self) -> bool:
        """Whether closing the connection is how this body ends."""
        chunked = self._headers.get("transfer-encoding", "").lower().endswith("chunked")
        return not chunked and "content-length" not in self._headers

    def _finish(self) -> None:
        answer, self._answer = self._answer, None
        self._unexpire()
        if answer is None:
            return  # closed while it was told of its last bytes
        self._used = True
        if self._reusable and not self.closed:
            self.idle_since = self._time()
            self.read(on=True)  # or the peer's closing would go unseen
            self._on_idle(self)
        else:
            self.abort()
        answer.on_end()

    def drop(self, fault: UpstreamFault) -> None:
        """Close now, and tell the answer why."""
        answer = self._answer
        self.abort()
        if answer is not None:
            answer.on_lost(fault)

    def _unexpire(self) -> None:
        if self._expiry is not None:
            self._expiry.cancel()
            self._expiry = None


def _stale() -> UpstreamFault:
    return unreachable("The backend closed a kept connection without an answer.", kind=Stale)
