"""The upgrade to a WebSocket: what is asked, and what the answer makes of it. Sans-IO."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import httptools
from websockets.client import ClientProtocol
from websockets.uri import parse_uri

from gateway.upstream.transport.faults import TransientFault, refusal, unreachable
from lanes.errors import UpstreamFault

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gateway.upstream.transport.route import Route

_MAX_HEAD_BYTES = 256 * 1024
_MAX_BODY_BYTES = 64 * 1024
_END = b"\r\n\r\n"
_QUIET = logging.getLogger("multilane.websockets")
_QUIET.disabled = True  # it would write what clients say


class Handshake:
    """One upgrade below `route`; `protocol` is the WebSocket once `feed` has returned bytes."""

    def __init__(self, route: Route, path: str, headers: Mapping[str, str], limit: int) -> None:
        scheme = "wss" if route.address.secure else "ws"
        uri = parse_uri(f"{scheme}://{route.host_header}{route.prefix}{path}{route.query}")
        # No compression: it costs more an event than the whole way through the gateway.
        self.protocol = ClientProtocol(uri, max_size=limit, logger=_QUIET)
        request = self.protocol.connect()
        for name, value in {"user-agent": "multilane", **headers}.items():
            request.headers[name] = value
        self.protocol.send_request(request)
        self._got = bytearray()
        self._refused: _Refused | None = None

    def feed(self, data: bytes) -> bytes | None:
        """The bytes that follow a good answer, None while it is not whole. Raises UpstreamFault."""
        if self._refused is not None:
            self._refuse(self._refused, data)
            return None
        self._got += data
        end = self._got.find(_END)
        if end < 0:
            if len(self._got) > _MAX_HEAD_BYTES:
                raise unreachable("The backend's answer has a head without end.")
            return None
        end += len(_END)
        if self._got.split(b" ", 2)[1:2] != [b"101"]:
            self._refused = _Refused()
            self._refuse(self._refused, bytes(self._got))
            return None
        self.protocol.receive_data(bytes(self._got[:end]))
        self.protocol.events_received()
        if (wrong := self.protocol.handshake_exc) is not None:
            raise unreachable(f"The backend's upgrade to a WebSocket is wrong: {wrong}.")
        return bytes(self._got[end:])

    def broken(self, text: str, *, status: int = 502) -> UpstreamFault:
        """The fault when nothing more comes: the answer as far as it came, or `text`."""
        if self._refused is not None and self._refused.status:
            return self._refused.fault()
        kind = TransientFault if status == 502 else UpstreamFault
        return unreachable(text, status=status, kind=kind)

    def _refuse(self, refused: _Refused, data: bytes) -> None:
        try:
            refused.feed(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            raise unreachable(f"The backend's answer is no HTTP/1.1 ({error}).") from None
        if refused.whole:
            raise refused.fault()


class _Refused:
    """An answer that is no upgrade, on its way; `on_…` is what the parser calls."""

    def __init__(self) -> None:
        self.whole = False
        self.status = 0
        self._headers: dict[str, str] = {}
        self._body = bytearray()
        self._parser = httptools.HttpResponseParser(self)

    def feed(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def fault(self) -> UpstreamFault:
        return refusal(self.status, self._headers, bytes(self._body))

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        self.status = self._parser.get_status_code()

    def on_body(self, body: bytes) -> None:
        self._body += body[: _MAX_BODY_BYTES - len(self._body)]
        self.whole = self.whole or len(self._body) >= _MAX_BODY_BYTES

    def on_message_complete(self) -> None:
        self.whole = True
