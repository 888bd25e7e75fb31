"""One WebSocket connection as an asyncio protocol, without a task of its own."""

from __future__ import annotations

import asyncio
import socket
from time import monotonic_ns
from typing import TYPE_CHECKING, Protocol, cast

import msgspec
from websockets.client import ClientProtocol
from websockets.exceptions import InvalidStatus
from websockets.protocol import OPEN
from websockets.uri import parse_uri

from gateway.tools.load import websocket_frames

if TYPE_CHECKING:
    from collections.abc import Callable

_SLOW_PAUSE = 0.5  # seconds between two reads of a slow reader
_SLOW_BUFFER = 65536  # bytes that the kernel may hold for it meanwhile
_HEAD_END = b"\r\n\r\n"


class ConnectRefused(Exception):
    """The gateway cannot be reached or refuses the upgrade; the message is for the user."""


class Receiver(Protocol):
    """Takes what a client reads."""

    def receive(self, payload: bytes, now: int) -> None:
        """Take one message; `now` is the time of the read in nanoseconds."""

    def lost(self, reason: str) -> None:
        """Take the news that an open connection has ended, and why."""


class LoadClient(asyncio.Protocol):
    """A WebSocket from its upgrade to its end.

    The `websockets` library checks the upgrade; websocket_frames.py reads the frames after it.

    Args:
        url: The WebSocket's address.
        key: The API key, if the gateway wants one.
        receiver: Takes the messages, and the end of the connection.
        slow: Read twice a second only.
    """

    def __init__(self, url: str, key: str | None, receiver: Receiver, *, slow: bool) -> None:
        loop = asyncio.get_running_loop()
        self.opened: asyncio.Future[None] = loop.create_future()
        self.closed: asyncio.Future[None] = loop.create_future()
        self._key = key
        self._receiver = receiver
        self._slow = slow
        self._upgrade = ClientProtocol(parse_uri(url), max_size=None)
        self._left = False
        self._head = b""
        self._frames = websocket_frames.FrameReader()
        self._reason = "connection lost"
        self._read: Callable[[bytes], None] = self._read_head

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Ask for the upgrade."""
        # uvloop's transports are no subclass of asyncio's.
        self._transport = transport = cast("asyncio.Transport", transport)
        if self._slow:
            raw = transport.get_extra_info("socket")
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _SLOW_BUFFER)
        request = self._upgrade.connect()
        request.headers["User-Agent"] = "multilane-load"
        if self._key:
            request.headers["Authorization"] = f"Bearer {self._key}"
        self._upgrade.send_request(request)
        transport.writelines(self._upgrade.data_to_send())

    def data_received(self, data: bytes) -> None:
        """Read what came; a slow reader then pauses for a while."""
        self._read(data)
        if self._slow and not self._transport.is_closing():
            self._transport.pause_reading()
            asyncio.get_running_loop().call_later(_SLOW_PAUSE, self._resume)

    def connection_lost(self, exc: Exception | None) -> None:
        """End every wait, with the reason."""
        if not self.opened.done():
            self._upgrade.receive_eof()
            error = self._upgrade.handshake_exc or exc
            self.opened.set_exception(ConnectRefused(_why(error)))
        else:
            self._receiver.lost(self._reason if exc is None else f"{self._reason}: {exc}")
        if not self.closed.done():
            self.closed.set_result(None)

    def send(self, payload: bytes) -> None:
        """Send one text message."""
        self._transport.write(websocket_frames.masked_frame(websocket_frames.TEXT, payload))

    def leave(self) -> None:
        """Send a close frame; what comes before the peer's answer is still read."""
        if not self._left and not self._transport.is_closing():
            self._left = True
            self._transport.write(websocket_frames.close_frame())

    def abort(self) -> None:
        """End the connection at once."""
        self._transport.abort()

    def _read_head(self, data: bytes) -> None:
        """Read the answer to the upgrade, and the first frames if they came with it."""
        self._head += data
        head, mark, rest = self._head.partition(_HEAD_END)
        if not mark:
            return
        self._upgrade.receive_data(head + mark)
        if self._upgrade.state is OPEN:
            self._read, self._head = self._read_frames, b""
            self.opened.set_result(None)
            if rest:
                self._read_frames(rest)
            return
        self._read = self._read_refusal
        self._read_refusal(rest)

    def _read_refusal(self, data: bytes) -> None:
        self._upgrade.receive_data(data)
        if self._upgrade.handshake_exc is not None:
            self._transport.close()

    def _read_frames(self, data: bytes) -> None:
        now = monotonic_ns()
        receive = self._receiver.receive
        for opcode, payload in self._frames.feed(data):
            if opcode <= websocket_frames.BINARY:
                receive(payload, now)
            elif opcode == websocket_frames.PING:
                self._transport.write(websocket_frames.masked_frame(websocket_frames.PONG, payload))
            elif opcode == websocket_frames.CLOSE:
                self._reason = f"closed with {websocket_frames.close_reason(payload)}"
                self.leave()
                self._transport.close()

    def _resume(self) -> None:
        if not self._transport.is_closing():
            self._transport.resume_reading()


def _why(error: Exception | None) -> str:
    """Describe a failed upgrade in one line, in the gateway's own words where it sent some."""
    if not isinstance(error, InvalidStatus):
        return str(error or "the connection was closed during the upgrade")
    answer = error.response
    try:
        body = msgspec.json.decode(answer.body or b"")
        message = body["error"]["message"]
    except (msgspec.MsgspecError, LookupError, TypeError):
        message = answer.reason_phrase
    return f"the upgrade was refused with {answer.status_code}: {message}"
