"""Plain HTTP from clients, up to the upgrade: uvicorn's, which lets go of itself at its end."""

from __future__ import annotations

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol


class HttpProtocol(HttpToolsProtocol):
    """The HTTP/1.1 connection of one client, until it ends or becomes a WebSocket.

    It and its parser refer to each other, and so do it and the request in progress. Unlike its base
    it breaks both circles, so that nothing of a connection waits for the collector (D13).
    """

    def handle_websocket_upgrade(self) -> None:
        """Hand the connection over to the WebSocket, and parse nothing more."""
        super().handle_websocket_upgrade()
        del self.parser
        self._forget_requests()

    def connection_lost(self, exc: Exception | None) -> None:
        """Release what belongs to a connection that is gone."""
        super().connection_lost(exc)
        self._unset_keepalive_if_required()
        self._forget_requests()

    def _forget_requests(self) -> None:
        for cycle in (self.cycle, *(waiting for waiting, _ in self.pipeline)):
            if cycle is not None:
                cycle.on_response = _do_nothing
        self.pipeline.clear()


def _do_nothing() -> None:
    """Stand in for what follows the last response of a connection."""
