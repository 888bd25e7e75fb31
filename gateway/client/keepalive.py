"""Pings to a client's WebSocket, and who is gone if none is answered.

It depends on names that uvicorn does not promise to keep (D3); tests/wire/test_uvicorn_names.py
lists each one and its use.
"""

from __future__ import annotations

from typing import Any

from gateway.client.closing import ClientClosing


class ClientKeepalive(ClientClosing):
    """A WebSocket that keeps a peer that is merely busy."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._received_at = 0.0
        self._drained_at_ping = 0

    @property
    def unsent(self) -> int:
        """Bytes that the kernel has not taken yet."""
        return self.transport.get_write_buffer_size()

    def send_keepalive_ping(self) -> None:
        """Ping, and note how much the peer has acknowledged by then."""
        self._drained_at_ping = self.writer.drained
        super().send_keepalive_ping()

    def keepalive_timeout(self) -> None:
        """Close a peer without a pong, unless bytes flow in either direction.

        A peer that reads nothing cannot see the ping, so `stall_timeout` decides about it.
        """
        flows = self._received_at > self.ping_sent_at or self.writer.drained > self._drained_at_ping
        if flows or self.writer.watched:
            self.pong_timer = None
            self.pending_ping_payload = None
            self.schedule_ping()
            return
        unsent = self.unsent
        super().keepalive_timeout()
        if unsent:
            # A close would wait for a peer that takes nothing.
            self.transport.abort()
