"""Reads requests one at a time, bounded in size and time, before anything parses them.

It depends on names that uvicorn does not promise to keep (D3); tests/wire/test_uvicorn_names.py
lists each one and its use.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Final

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from gateway.client import request_head
from gateway.client.handshake import CLOSE_TIMEOUT
from gateway.client.reading_stage import Stage
from gateway.client.refusal import UpgradeRefused

if TYPE_CHECKING:
    import asyncio

#: Bytes of a body that have to arrive within each timeout.
BODY_PACE: Final = 8192
#: Bytes of a chunked body to parse at a time.
SLICE: Final = 16 * 1024


class HttpReading(HttpToolsProtocol, ABC):
    """One connection's requests, each whole or refused before the next one is looked at (D32).

    Args:
        max_head: Bytes of a request's head.
        timeout: Seconds for a head, and for each `BODY_PACE` bytes of a body.
        uvicorn: What uvicorn gives to a protocol.
    """

    def __init__(self, max_head: int, timeout: float, **uvicorn: Any) -> None:
        super().__init__(**uvicorn)
        self._max_head = max_head
        self._timeout = timeout
        self._stage = Stage.HEAD
        self._head = bytearray()
        #: Bytes behind the request that is due.
        self._behind = bytearray()
        #: Bytes of the body that are missing; None if it is chunked.
        self._left: int | None = 0
        self._body_read = self._body_checked = 0
        #: What one call of the parser found of the body.
        self._found: list[bytes] = []
        #: Bytes of a chunked body since the last that the application gets.
        self._around = 0
        self._begun = self._asked = self._whole = False
        self._refusal: UpgradeRefused | None = None
        self._deadline: asyncio.TimerHandle | None = None

    # What a subclass decides

    def judge(self) -> None:
        """Look at a head that is well formed, before the application sees it."""

    def impatient(self) -> UpgradeRefused | None:
        """Return the refusal of a client that is not waited for, if this is one."""
        return None

    @abstractmethod
    def upgrade(self, early: bytes) -> None:
        """Hand the connection to a WebSocket, with the bytes that came behind the head."""

    # Reading

    def data_received(self, data: bytes) -> None:
        """Read what belongs to the request that is due, and keep what is behind it."""
        self._unset_keepalive_if_required()
        if self._stage is Stage.HEAD:
            self._read_head(data)
        elif self._stage is Stage.BODY:
            self._read_body(data)
        elif self._stage is Stage.ANSWER:
            self._behind += data
            if len(self._behind) > self._max_head:
                self.flow.pause_reading()

    def _read_head(self, data: bytes) -> None:
        """Collect a head, so that the parser gets it whole: it joins pieces quadratically."""
        if self._deadline is None:
            self.start_deadline(self._timeout)
        head = self._head
        searched = max(0, len(head) - 2)
        head += data if head else data.lstrip(b"\r\n")
        found = request_head.HEAD_END.search(head, searched)
        size = found.end() if found else len(head)
        if size > self._max_head:
            self.refuse(request_head.too_large(f"The head is larger than {self._max_head} bytes."))
        elif head and not head[:1].isalpha():
            self.refuse(request_head.no_request())
        elif found:
            whole, behind = bytes(head[:size]), bytes(head[size:])
            head.clear()
            self._begin(whole, behind)
        elif head and (refusal := self.impatient()) is not None:
            self.refuse(refusal)

    def _begin(self, head: bytes, behind: bytes) -> None:
        self.stop_deadline()
        self._begun = self._whole = False
        self._body_read = self._body_checked = self._around = 0
        self._feed(head, behind)
        if self._stage is Stage.HEAD and self._begun and not self._asked:
            self.refuse(request_head.no_request())  # the preface of HTTP/2, for one
        if self._stage is not Stage.HEAD or not self._begun:
            return
        self._stage = Stage.BODY
        self._read_body(behind)
        if self._stage is Stage.BODY:
            refusal = self.impatient()
            if refusal is None:
                self.start_deadline(self._timeout)
            else:
                self.refuse(refusal)

    def _read_body(self, data: bytes) -> None:
        if not self._whole:
            size = len(data) if self._left is None else min(self._left, len(data))
            body, data = data[:size], data[size:]
            self._body_read += size
            if self._left is not None:
                self._left -= size
                self._feed(body)
            else:
                self._read_chunks(body)
        if self._whole and self._stage is Stage.BODY:
            self.stop_deadline()
            self._stage = Stage.ANSWER
            self._behind += data
            if self.cycle.response_complete:
                self._next()

    def _read_chunks(self, data: bytes) -> None:
        """Bound what is no body: the parser keeps trailers, and joins the pieces of a value."""
        for at in range(0, len(data), SLICE):
            piece = data[at : at + SLICE]
            self._around += len(piece)
            self._feed(piece)
            if self._stage is not Stage.BODY:
                return
            if self._around > self._max_head and not self._whole:
                message = f"Chunks have more than {self._max_head} bytes around them."
                self.refuse(request_head.too_large(message))

    def _next(self) -> None:
        """Turn to the request behind the one that was answered."""
        self._stage = Stage.HEAD
        self._asked = False
        if self._behind:
            data = bytes(self._behind)
            self._behind.clear()
            self.data_received(data)
        elif self.timeout_keep_alive_task is None:
            self.timeout_keep_alive_task = self.loop.call_later(
                self.timeout_keep_alive, self.timeout_keep_alive_handler
            )

    def _feed(self, data: bytes, early: bytes = b"") -> None:
        if not data:
            return
        try:
            self.parser.feed_data(data)
            self._pass_on()
        except httptools.HttpParserUpgrade:
            if self._should_upgrade():
                self._begun = False
                self.upgrade(early)
            else:
                # It is answered as if it asked for none, and the parser takes no more.
                self.cycle.keep_alive = False
        except httptools.HttpParserError:
            if self._whole:
                # What is behind a chunked request is lost in the parser.
                self._end_after_answer()
            else:
                self.refuse(self._refusal or request_head.no_request())

    def _pass_on(self) -> None:
        """Give the application what was found of the body at once: there may be many chunks."""
        if self._found:
            self._around = 0
            body = b"".join(self._found)
            self._found.clear()
            super().on_body(body)

    def _end_after_answer(self) -> None:
        if self.cycle.response_complete:
            self.linger()
        else:
            self.cycle.keep_alive = False

    # The parser's callbacks

    def on_message_begin(self) -> None:
        """Begin a request, unless one is under way."""
        if self._begun:
            raise ValueError("one request at a time")
        self._begun = True
        super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header; a trailer comes too late to be one (RFC 9110, 6.5.1)."""
        if not self._asked:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Judge the head before the application or the WebSocket library sees it."""
        version, method = self.parser.get_http_version(), self.parser.get_method().decode("ascii")
        try:
            request_head.check(method, self.url, version, self.headers)
            self.judge()
        except UpgradeRefused as refused:
            self._refusal = refused
            raise
        self._left = request_head.body_length(self.headers)
        super().on_headers_complete()
        self._asked = not self._should_upgrade()

    def on_body(self, body: bytes) -> None:
        """Collect a part of the body."""
        self._found.append(body)

    def on_message_complete(self) -> None:
        """Note that the request is whole."""
        self._pass_on()
        self._whole = True
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """Turn to the next request once this one is whole and answered."""
        if self._stage is Stage.OVER:
            self.server_state.total_requests += 1
            return
        super().on_response_complete()
        if self.transport.is_closing():
            return
        if self._stage is Stage.ANSWER:
            self._next()
        elif self._stage is Stage.BODY:  # its rest is only read so that the answer arrives
            self.start_deadline(self._timeout)

    def _should_upgrade(self) -> bool:
        return request_head.is_websocket(self.headers)

    # Ends

    def refuse(self, refusal: UpgradeRefused) -> None:
        """Answer with a refusal, if nothing else was answered, and close."""
        cycle = self.cycle if self._asked else None
        if cycle is None or not cycle.response_started:
            self.transport.write(refusal.response())
        if cycle is not None and not cycle.response_complete:
            cycle.disconnected = True
            cycle.message_event.set()
        self.linger()

    def linger(self) -> None:
        """Close once the client does: it must read the answer before a reset can overtake it."""
        self.stop_deadline()
        self._stage = Stage.OVER
        self._head.clear()
        self._behind.clear()
        if self.transport.is_closing():
            return
        self.flow.resume_reading()
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self._deadline = self.loop.call_later(CLOSE_TIMEOUT, self.transport.abort)

    def start_deadline(self, timeout: float) -> None:
        """Give the client `timeout` seconds for what it is to send."""
        self.stop_deadline()
        self._deadline = self.loop.call_later(timeout, self._late)

    def stop_deadline(self) -> None:
        """Wait for nothing of the client's."""
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _late(self) -> None:
        self._deadline = None
        brought, self._body_checked = self._body_read - self._body_checked, self._body_read
        if self._stage is Stage.BODY and self.cycle.response_complete:
            self.linger()
        elif self._stage is Stage.BODY and (self.flow.read_paused or brought >= BODY_PACE):
            self.start_deadline(self._timeout)
        elif (refusal := self.impatient()) is not None:
            self.refuse(refusal)
        elif self._stage is Stage.HEAD and not self._head:
            self.timeout_keep_alive_handler()  # an idle client is owed no answer
        else:
            message = f"The request took longer than {self._timeout:g} seconds."
            self.refuse(UpgradeRefused(408, "request_timeout", message))
