"""Every stand gets a gateway more: its own speaks to the upstream through another over WebSocket.

The inner one is the backend that speaks the protocol, native steering included, so whatever holds
for one gateway has to hold for two.
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Literal

import anyio

from gateway.config.settings import Settings
from gateway.upstream.transport.websocket.client import WebSocketClient
from gateway.upstream.transport.websocket.native_steering import NativeSteering
from tests.support.gateway import serving
from tests.support.hang_guard import HANG
from tests.support.steered import Running

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping

    import pytest

    from gateway.process.server import GatewayServer
    from gateway.upstream.transport.websocket.stream import WebSocketStream

#: What is the business of whoever speaks to the upstream itself.
_INNER = ("dialect", "steer_boundary", "retries", "upstream_key")

Mode = Literal["gateway", "native"]


class Behind:
    """`inner` are the servers behind the stands' own; `posts` counts what was asked of them."""

    def __init__(self, steering: Mode) -> None:
        self.steering = steering
        self.inner: list[GatewayServer] = []
        self.posts = 0
        #: Settings of the inner gateways.
        self.settings: dict[str, Any] = {}

    @asynccontextmanager
    async def running(self, settings: Settings) -> AsyncIterator[str]:
        """As tests.support.gateway.running, but for two of them."""
        given = {name: getattr(settings, name) for name in _INNER}
        own = Settings(**{"upstream": settings.upstream, **given, **self.settings})
        async with serving(own) as (server, url):
            self.inner.append(server)
            way = {"upstream_transport": "websocket", "steering": self.steering}
            outer = settings.model_copy(update={"upstream": url, "dialect": "auto", **way})
            async with serving(outer) as (_, base_url):
                yield base_url

    def install(self, monkeypatch: pytest.MonkeyPatch) -> None:
        post, steer, passed_on = WebSocketClient.post, Running.steer, NativeSteering.steer
        steering: list[NativeSteering[Any]] = []

        async def counted(
            client: WebSocketClient, path: str, body: bytes, headers: Mapping[str, str]
        ) -> WebSocketStream:
            self.posts += 1
            return await post(client, path, body, headers)

        def kept(
            of: NativeSteering[Any],
            steer_id: str,
            messages: list[dict[str, Any]],
            refused: Callable[[], None],
        ) -> None:
            steering.append(of)
            passed_on(of, steer_id, messages, refused)

        async def steered(running: Running, value: Any = "steer", **extra: Any) -> str:
            """Return once the inner gateway has it too: one that comes late is in no successor."""
            told = await steer(running, value, **extra)
            with anyio.fail_after(HANG):
                while any(one.unanswered for one in steering):  # noqa: ASYNC110
                    await anyio.sleep(0.001)
            return told

        monkeypatch.setattr("tests.support.gateway_stand.running", self.running)
        monkeypatch.setattr(WebSocketClient, "post", counted)
        monkeypatch.setattr(NativeSteering, "steer", kept)
        monkeypatch.setattr(Running, "steer", steered)

    def kill(self) -> None:
        """Break all sockets of the inner gateways without a word."""
        for server in self.inner:
            for connection in list(server.server_state.connections):
                transport = connection.transport
                assert transport is not None
                transport.abort()
