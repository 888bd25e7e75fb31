"""The upgrade to a WebSocket: its request, and the fault of a bad answer. Sans-IO."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import httptools
from websockets.client import ClientProtocol
from websockets.http11 import Response
from websockets.uri import parse_uri

from gateway.upstream.transport.faults import TransientFault, answer_fault, backend_fault
from lanes.errors import UpstreamFault
from lanes.frames import CANCEL, EXTENSIONS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gateway.upstream.transport.route import Route

_MAX_HEAD_BYTES = 256 * 1024
_MAX_BODY_BYTES = 64 * 1024
_END = b"\r\n\r\n"
_QUIET = logging.getLogger("multilane.websockets")
_QUIET.disabled = True  # its messages would quote what clients send


class Handshake:
    """One upgrade; `protocol` is the WebSocket once `feed` has returned bytes.

    Args:
        route: Where the backend is.
        path: The path below the base URL.
        headers: The headers of the request.
        limit: The most bytes of a message.
    """

    def __init__(self, route: Route, path: str, headers: Mapping[str, str], limit: int) -> None:
        scheme = "wss" if route.address.secure else "ws"
        uri = parse_uri(f"{scheme}://{route.host_header}{route.prefix}{path}{route.query}")
        # No compression: it costs more per event than the rest of the gateway.
        self.protocol = ClientProtocol(uri, max_size=limit, logger=_QUIET)
        request = self.protocol.connect()
        for name, value in {"user-agent": "multilane", **headers}.items():
            request.headers[name] = value
        self.protocol.send_request(request)
        self._received = bytearray()
        self._refusal: _Refusal | None = None
        #: Whether the backend says that it takes `response.cancel`.
        self.takes_cancel = False

    def feed(self, data: bytes) -> bytes | None:
        """Return the bytes that follow a good answer, None while it is not whole.

        Raises UpstreamFault for any other answer.
        """
        if self._refusal is not None:
            self._refuse(self._refusal, data)
            return None
        self._received += data
        end = self._received.find(_END)
        if end < 0:
            if len(self._received) > _MAX_HEAD_BYTES:
                raise backend_fault("The backend's answer has a head without end.")
            return None
        end += len(_END)
        if self._received.split(b" ", 2)[1:2] != [b"101"]:
            self._refusal = _Refusal()
            self._refuse(self._refusal, bytes(self._received))
            return None
        self.protocol.receive_data(bytes(self._received[:end]))
        for answer in self.protocol.events_received():
            if isinstance(answer, Response):
                named = ",".join(answer.headers.get_all(EXTENSIONS)).split(",")
                self.takes_cancel = CANCEL in map(str.strip, named)
        if (error := self.protocol.handshake_exc) is not None:
            raise backend_fault(f"The backend's upgrade to a WebSocket is wrong: {error}.")
        return bytes(self._received[end:])

    def broken(self, text: str, *, status: int = 502) -> UpstreamFault:
        """Return the fault of an unfinished answer, by its head or, without one, by `text`."""
        if self._refusal is not None and self._refusal.status:
            return self._refusal.fault()
        kind = TransientFault if status == 502 else UpstreamFault
        return backend_fault(text, status=status, kind=kind)

    def let_go(self) -> None:
        """Let go of the parsers: each refers to what feeds it (D13)."""
        self.protocol.parser.close()
        self.protocol.parser_exc = self.protocol.handshake_exc = None
        self._refusal = None

    def _refuse(self, refusal: _Refusal, data: bytes) -> None:
        try:
            refusal.feed(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            raise backend_fault(f"The backend's answer is no HTTP/1.1 ({error}).") from None
        if refusal.whole:
            raise refusal.fault()


class _Refusal:
    """An answer that is not an upgrade, as it arrives; the parser calls `on_…`."""

    def __init__(self) -> None:
        self.whole = False
        self.status = 0
        self._headers: dict[str, str] = {}
        self._body = bytearray()
        self._parser = httptools.HttpResponseParser(self)

    def feed(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def fault(self) -> UpstreamFault:
        return answer_fault(self.status, self._headers, bytes(self._body))

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        self.status = self._parser.get_status_code()

    def on_body(self, body: bytes) -> None:
        self._body += body[: _MAX_BODY_BYTES - len(self._body)]
        self.whole = self.whole or len(self._body) >= _MAX_BODY_BYTES

    def on_message_complete(self) -> None:
        self.whole = True
