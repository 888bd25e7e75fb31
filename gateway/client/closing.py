"""The end of an open WebSocket: who closes it with which code, and how the close frame arrives.

It depends on names that uvicorn does not promise to keep (D3); tests/wire/test_uvicorn_names.py
lists each one and its use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from websockets.frames import CloseCode, Frame, Opcode

from gateway.client.handshake import ClientHandshake

if TYPE_CHECKING:
    from websockets.frames import Close


class ClientClosing(ClientHandshake):
    """A WebSocket that closes after all that was written before, and waits for its peer then."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._reason = ""  # why we closed it

    def end(self, code: int, reason: str = "") -> None:
        """Close with a code after everything written before. Idempotent."""
        # A close that came in the same read was answered already, and is handled next.
        if self.close_sent or self.disconnected or self.conn.close_rcvd is not None:
            return
        self.queue.put_nowait({"type": "websocket.disconnect", "code": code, "reason": reason})
        self._reason = reason
        self.conn.send_close(code, reason)
        self._write_control()
        self.linger()

    def fail(self, code: int, reason: str) -> None:
        """Close because of what the peer sent. Idempotent.

        Its close frame is not waited for before our side of the connection ends (RFC 6455, 7.1.7).
        """
        if self.close_sent or self.conn.close_rcvd is not None:
            return
        self.end(code, reason)
        self._end_our_side()

    @property
    def code(self) -> int:
        """Close code, ours before the peer's; 1006 without a close frame."""
        close = self.conn.close_sent or self.conn.close_rcvd
        return 1006 if close is None else int(close.code)

    @property
    def why(self) -> str:
        """Why it ended, in our words: those of a client are its own."""
        sent, received = self.conn.close_sent, self.conn.close_rcvd
        if self._reason:
            return self._reason
        if received is not None and (sent is None or sent.code == received.code):
            return "client closed"
        if sent is None:
            return "connection lost"
        return "no pong" if sent.code == CloseCode.INTERNAL_ERROR else "protocol error"

    def _end_our_side(self) -> None:
        if self.transport.can_write_eof():
            self.transport.write_eof()

    def _write_control(self) -> None:
        self.transport.write(b"".join(self.conn.data_to_send()))

    def handle_close(self, event: Any) -> None:
        """Close, because the peer closes or answers our close frame."""
        super().handle_close(event)
        # Nothing may follow our close frame. The peer may have stopped reading before, so unsent
        # data must not keep the connection open.
        self.linger()

    def handle_parser_exception(self) -> None:
        """Close with the reason why a frame is invalid, and discard what the peer still sends."""
        if self.close_sent:
            return
        if self.conn.close_rcvd is not None:
            self._answer_close(self.conn.close_rcvd)
        close = self.conn.close_sent
        code, reason = (close.code, close.reason) if close is not None else (1002, "")
        self.queue.put_nowait({"type": "websocket.disconnect", "code": code, "reason": reason})
        self._write_control()
        self._end_our_side()
        self.linger()

    def _answer_close(self, received: Close) -> None:
        """Answer a close within a fragmented message like any other, not as the library does."""
        *pongs, _refusal = [one for one in self.conn.data_to_send() if one]
        payload = b"" if received.code == 1005 else received.serialize()
        self.transport.write(b"".join([*pongs, Frame(Opcode.CLOSE, payload).serialize(mask=False)]))
        self.conn.close_sent = received

    def shutdown(self) -> None:
        """Close with 1012 as the server stops, so that our close frame arrives."""
        if self.handshake_complete and not self._refused:
            self.end(1012, "service restart")
        else:
            super().shutdown()
