"""The process: uvicorn around the gateway, the bundled upstream beside it, an orderly end."""

from __future__ import annotations

import contextlib
import gc
import logging
import sys
from typing import TYPE_CHECKING

import uvicorn

from gateway import children, logs
from gateway.app import Gateway
from gateway.embedded import Embedded
from gateway.socket import CLOSE_TIMEOUT, Socket

if TYPE_CHECKING:
    import socket
    from collections.abc import Iterator
    from types import FrameType

    from gateway.settings import Settings

log = logging.getLogger("multilane")

#: Seconds for the bundled upstream to listen.
START_TIMEOUT = 20.0


class Server(uvicorn.Server):
    """uvicorn, but it lets running responses finish before it closes the sockets they use."""

    def __init__(self, gateway: Gateway) -> None:
        settings = gateway.settings
        self.gateway = gateway
        super().__init__(
            uvicorn.Config(
                gateway.app,
                host=settings.host,
                port=settings.port,
                loop="auto",
                http="httptools",
                ws=Socket,
                ws_max_size=settings.max_frame_bytes,
                ws_ping_interval=settings.ping_interval,
                ws_ping_timeout=settings.ping_timeout,
                ws_per_message_deflate=False,
                lifespan="on",
                log_config=None,
                access_log=False,
                server_header=False,
                timeout_graceful_shutdown=round(CLOSE_TIMEOUT) + 2,
            )
        )

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Drain, still answering upgrades with 503; then let uvicorn close what is left."""
        await self.gateway.drain(lambda: self.force_exit)
        await super().shutdown(sockets)
        if self.force_exit:
            # uvicorn leaves it out then, and logs that it was cancelled.
            await self.lifespan.shutdown()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """End in order on the first signal, at once on the second, whichever they are."""
        self.force_exit = self.should_exit
        super().handle_exit(sig, frame)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Handle signals as uvicorn does, but return instead of dying of them at the end."""
        with super().capture_signals():
            try:
                yield
            finally:
                self._captured_signals.clear()


def serve(settings: Settings) -> None:
    """Run the gateway until a signal; without an upstream, with the bundled one beside it.

    Raises ChildFailed or EngineFailed when the bundled backend or engine does not start.
    """
    logs.configure(settings.log_level, settings.log_format)
    with contextlib.ExitStack() as stack:
        if settings.upstream is None:
            argv = [sys.executable, "-m", "gateway", "rehearse", "--port", "0"]
            child = children.spawn(argv, name="the bundled upstream")
            stack.callback(child.stop)
            upstream = child.ready("ready ", START_TIMEOUT)
            log.warning("no --upstream: the bundled rehearsal backend answers, not a model")
            bundled = {"upstream": upstream, "dialect": "openai", "model": "rehearse"}
            settings = settings.model_copy(update=bundled)
        engine = None
        if settings.redis_url == "embedded":
            engine = Embedded(settings.state_dir)
            settings = settings.model_copy(update={"redis_url": engine.start()})
            stack.callback(engine.stop)
        elif settings.redis_url == "memory":
            log.warning("redis-url memory: steers and stored responses end with this process")
        server = Server(Gateway(settings, engine))
        log.info("ws://%s:%d/v1/responses -> %s", settings.host, settings.port, settings.upstream)
        # What is loaded by now stays, and what a delta leaves behind holds no cycles (D13).
        gc.collect()
        gc.freeze()
        gc.set_threshold(10_000, 10, 10)
        server.run()
