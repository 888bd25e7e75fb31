"""One HTTP/1.1 connection to a backend: requests out, answers in, one at a time."""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING, Final, Protocol, cast

import httptools

from gateway.upstream.transport.dialing import unread_check
from gateway.upstream.transport.faults import StaleConnection, backend_fault
from gateway.upstream.transport.paced_sender import PIECE, PacedProtocol, cut
from gateway.upstream.transport.retries import MOMENT

if TYPE_CHECKING:
    from collections.abc import Callable

    from lanes.errors import UpstreamFault

_MAX_HEAD_BYTES: Final = 256 * 1024
_KEPT_FOR: Final = re.compile(r"(?:^|[,;\s])timeout\s*=\s*\"?(\d{1,9})\b", re.ASCII | re.I)


class AnswerSink(Protocol):
    """What takes the answer to the request that a connection carries."""

    #: The loop's time of the last read.
    read_at: float
    #: Takes the body bytes of each read.
    consume: Callable[[bytes], None]

    def on_head(self, status: int, headers: dict[str, str]) -> None:
        """Take the head, once."""

    def on_end(self) -> None:
        """Note that the body ended as it should; the connection may carry the next request."""

    def on_lost(self, fault: UpstreamFault) -> None:
        """Note that the body will not end as it should; the connection is closed."""


class HttpConnection(PacedProtocol):
    """A connection that carries one request after the other.

    `data_received` is the token path: one parser call and one `consume` call for each read.

    Args:
        on_idle: Called when it can carry the next request.
        on_lost: Called when it is closed.
        keep_idle: Seconds for which it may be idle; less if the backend says so (`Keep-Alive`).
    """

    def __init__(
        self,
        on_idle: Callable[[HttpConnection], None],
        on_lost: Callable[[HttpConnection], None],
        keep_idle: float,
    ) -> None:
        super().__init__()
        #: The loop's time after which it is not used again; the backend's own hint bounds it.
        self.idle_until = 0.0
        self._keep_idle = keep_idle
        self._on_idle = on_idle
        self._on_lost = on_lost
        self._time = asyncio.get_running_loop().time
        self._transport: asyncio.Transport | None = None
        self._answer: AnswerSink | None = None
        self._used = False
        self._sent_at = 0.0
        self._owes = False  # a part of the request is still to be sent
        self._expiry: asyncio.TimerHandle | None = None
        # The parser calls `on_body` for each HTTP chunk, which goes straight into a list.
        self._parts: list[bytes] = []
        self.on_body = self._parts.append
        self._parser: httptools.HttpResponseParser | None = None
        self._reset()

    def _reset(self) -> None:
        self._headers: dict[str, str] = {}
        self._head_room = _MAX_HEAD_BYTES
        self._answered = self._has_head = self._ended = self._reusable = False

    @property
    def closed(self) -> bool:
        """Whether it can carry no more requests."""
        return self._transport is None or self._transport.is_closing()

    def usable(self) -> bool:
        """Return whether an idle connection can carry a request, by all that has arrived."""
        if self._transport is None or self._transport.is_closing():
            return False
        return self._time() < self.idle_until and not self._unread(0)

    def send(self, request: list[bytes], answer: AnswerSink, *, whole: bool = True) -> None:
        """Send a request; until its end the answer goes to `answer`.

        Args:
            request: The bytes, or the first of them; a large last part is sent piece by piece.
            answer: Takes the answer.
            whole: Whether that is all; otherwise `send_more` sends the rest.

        Raises:
            StaleConnection: The connection is closed.
        """
        if self._transport is None or self._transport.is_closing():
            raise _stale("before the request was sent")
        self._reset()
        self._owes = not whole
        self._answer = answer
        answer.read_at = self._sent_at = self._time()
        if len(request[-1]) <= PIECE:
            self._transport.writelines(request)
        else:
            self._sender.write(request[:-1])
            self._sender.write_large(cut(request[-1]))

    async def send_more(self, data: bytes, *, last: bool) -> None:
        """Send more of the request, and wait while the peer takes nothing.

        Nobody takes it once the answer is over: it is dropped.
        """
        if self._answer is not None and self._owes and not self.closed:
            self._answer.read_at = self._time()  # it cannot answer what it has not got
            self._owes = not last
            await self._sender.drained()
            if data:
                self._sender.write([data])
                await self._sender.drained()

    def read(self, *, on: bool) -> None:
        """Read, or stop reading, so that the peer must stop sending. Idempotent."""
        if self._transport is None or self._transport.is_closing():
            return
        if on:
            self._transport.resume_reading()
        else:
            self._transport.pause_reading()

    def expire(self, seconds: float) -> None:
        """Close unless the answer ends within `seconds`."""
        fault = backend_fault("The backend did not end its answer.")
        self._expiry = asyncio.get_running_loop().call_later(seconds, self.drop, fault)

    def abort(self) -> None:
        """Close now, without a word to the answer."""
        self._answer = None
        self._cancel_expiry()
        if self._sender.waiting or self._sender.full:
            self._sender.close()
        if self._transport is not None:
            self._transport.abort()

    # -- asyncio.Protocol --

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport, which may be of any event loop."""
        self._transport = cast("asyncio.Transport", transport)
        self._sender.transport = self._transport
        self._unread = unread_check(transport)
        self._parser = httptools.HttpResponseParser(self)

    def data_received(self, data: bytes) -> None:
        """Parse one read, pass the body on, and finish if it was the last read."""
        answer = self._answer
        if answer is None or self._parser is None:
            self.abort()  # no request: a later answer could not be told from these bytes
            return
        answer.read_at = self._time()
        fault = None
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            fault = backend_fault(f"The backend's answer is no HTTP/1.1 ({error}).")
        parts = self._parts
        if parts:
            body = parts[0] if len(parts) == 1 else b"".join(parts)
            parts.clear()
            answer.consume(body)
        elif not self._has_head:
            self._head_room -= len(data)
            if self._head_room < 0:
                fault = backend_fault("The backend's answer has a head without end.")
        if self._ended:
            self._reusable = self._reusable and fault is None
            self._finish()
        elif fault is not None:
            self.drop(fault)

    def connection_lost(self, exc: Exception | None) -> None:
        """End the answer, because one of the peers closed the connection."""
        if self._has_head and exc is None and self._ends_by_closing():
            self._reusable = False
            self._finish()
        elif self._used and not self._answered and self._time() - self._sent_at <= MOMENT:
            self.drop(_stale("without an answer"))
        else:
            when = "before it ended" if self._has_head else "without an answer"
            reason = f" ({exc})" if exc else ""
            self.drop(backend_fault(f"The backend closed the connection {when}{reason}."))
        if self._sender.waiting or self._sender.full:
            self._sender.close()
        self._transport = self._sender.transport = None
        self._parser = None  # they refer to each other
        self._on_lost(self)

    # -- called by httptools within feed_data; `on_body` is set above --

    def on_message_begin(self) -> None:
        """Note that an answer begins; a second one has no request."""
        if self._ended:
            raise httptools.HttpParserError("an answer without a request")
        self._answered = True

    def on_header(self, name: bytes, value: bytes) -> None:
        """Keep one header; repeated ones are joined by commas (RFC 9110, section 5.2)."""
        if self._has_head:
            return  # a trailer
        key, text = name.decode("latin-1").lower(), value.decode("latin-1")
        before = self._headers.get(key)
        self._headers[key] = text if before is None else f"{before}, {text}"

    def on_headers_complete(self) -> None:
        """Pass the head on, unless it is an interim one (1xx)."""
        if self._parser is None or self._answer is None or self._has_head:
            return
        status = self._parser.get_status_code()
        if status >= 200:
            self._has_head = True
            self._answer.on_head(status, self._headers)

    def on_message_complete(self) -> None:
        """Note that the answer ended; the end of an interim one (1xx) only clears its headers."""
        if self._has_head and self._parser is not None:
            owes = self._owes or bool(self._sender.waiting)
            self._reusable = self._parser.should_keep_alive() and not owes
            self._ended = True
        else:
            self._headers = {}

    # -- the end of an answer --

    def _ends_by_closing(self) -> bool:
        """Return whether the body ends by closing the connection."""
        chunked = self._headers.get("transfer-encoding", "").lower().endswith("chunked")
        return not chunked and "content-length" not in self._headers

    def _hinted(self) -> float:
        """Return for how many seconds the backend keeps the connection, less what a trip takes."""
        hint = _KEPT_FOR.search(self._headers.get("keep-alive", ""))
        seconds = float("inf") if hint is None else float(hint[1])
        return max(seconds - MOMENT, seconds / 2)

    def _finish(self) -> None:
        answer, self._answer = self._answer, None
        self._cancel_expiry()
        if answer is None:
            return  # it closed the connection while it took its last bytes
        self._used = True
        if self._reusable and not self.closed:
            self.idle_until = self._time() + min(self._keep_idle, self._hinted())
            self.read(on=True)  # otherwise nobody would notice that the peer closes it
            self._on_idle(self)
        else:
            self.abort()
        answer.on_end()

    def drop(self, fault: UpstreamFault) -> None:
        """Close now, and end the answer with a fault."""
        answer = self._answer
        self.abort()
        if answer is not None:
            answer.on_lost(fault)

    def _cancel_expiry(self) -> None:
        if self._expiry is not None:
            self._expiry.cancel()
            self._expiry = None


def _stale(when: str) -> UpstreamFault:
    return backend_fault(f"The backend closed the connection {when}.", kind=StaleConnection)
