"""The server process: uvicorn around the gateway, its bundled children, and an orderly end."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import gc
import logging
import resource
import signal
import sys
from functools import partial
from typing import TYPE_CHECKING, cast
from urllib.parse import urlsplit

import uvicorn

from gateway import logs
from gateway.app import Gateway
from gateway.client.handshake import CLOSE_TIMEOUT
from gateway.client.http_protocol import ClientHttp
from gateway.client.socket import ClientSocket
from gateway.client.tls_handshake import TlsHandshake
from gateway.config.configured_upstreams import upstreams
from gateway.process import children
from gateway.process.embedded_valkey import EmbeddedValkey
from gateway.process.listening import BACKLOG, Listener, OrderlyServer, listen
from gateway.process.metrics_server import MetricsServer

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable
    from types import FrameType

    from gateway.config.settings import Settings

log = logging.getLogger("multilane")

#: The number of that parameter in malloc.h, and its value in bytes.
_M_MMAP_THRESHOLD = -3
_LARGE_BLOCK = 1 << 20

#: Seconds the bundled upstream may take to listen.
START_TIMEOUT = 20.0


class GatewayServer(OrderlyServer):
    """uvicorn's server, but running responses may finish before it closes their sockets.

    Args:
        gateway: What it serves.
        listening: Called once it serves clients.
        metrics: The sockets for `/metrics`, if it has a port of its own.
    """

    def __init__(
        self,
        gateway: Gateway,
        listening: Callable[[], None] | None = None,
        metrics: Listener | None = None,
    ) -> None:
        settings = gateway.settings
        self.gateway = gateway
        self._listening = listening
        #: Where `/metrics` is served, if it has a port of its own.
        self.metrics = metrics
        self._metrics = None if metrics is None else MetricsServer(gateway.metrics, metrics)
        http = partial(
            ClientHttp, gateway.peers, settings.max_head_bytes, settings.handshake_timeout
        )
        door: Callable[..., asyncio.Protocol] = http
        if gateway.certificate is not None:
            context, timeout = gateway.certificate.context, settings.handshake_timeout
            door = partial(TlsHandshake, http, context, gateway.peers, timeout)
        super().__init__(
            uvicorn.Config(
                gateway.app,
                host=settings.host,
                port=settings.port,
                loop="auto",
                http=cast("type[asyncio.Protocol]", door),
                ws=ClientSocket,
                ws_max_size=settings.max_frame_bytes,
                ws_ping_interval=settings.ping_interval,
                ws_ping_timeout=settings.ping_timeout,
                ws_per_message_deflate=False,
                lifespan="on",
                log_config=None,
                access_log=False,
                server_header=False,
                proxy_headers=False,  # the door reads them, from trusted proxies alone
                backlog=BACKLOG,
                timeout_graceful_shutdown=round(CLOSE_TIMEOUT) + 2,
            )
        )

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start to serve, and only then announce it."""
        await super().startup(sockets)
        # uvicorn has no such signal; without a handler it would end the process.
        with contextlib.suppress(RuntimeError, ValueError):  # not in the main thread: a test's
            asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, self.gateway.reload)
        if self._metrics is not None and not self.should_exit:
            self._metrics.start()
        if self._listening is not None and not self.should_exit:
            self._listening()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Drain while upgrades get 503; then let uvicorn close the remaining sockets."""
        await self.gateway.drain(lambda: self.force_exit)
        await super().shutdown(sockets)
        if self.force_exit:
            # uvicorn skips it then, and logs that it was cancelled.
            await self.lifespan.shutdown()
        if self._metrics is not None:
            await self._metrics.stop()
        log.info("stopped at once" if self.force_exit else "stopped")

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """End in order on the first signal, at once on the second, of whichever kind."""
        self.force_exit = self.should_exit
        super().handle_exit(sig, frame)


def _allow_sockets(wanted: int) -> None:
    """Raise the soft limit of open files towards the hard one: each lane has a socket, too."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        with contextlib.suppress(OSError, ValueError):  # some hosts allow less than they report
            resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, most), hard))


def serve(
    settings: Settings,
    bundled: Callable[[contextlib.ExitStack], dict[str, str]] | None = None,
    announce: Callable[[Listener], None] | None = None,
) -> None:
    """Run the gateway until a signal.

    Args:
        settings: All settings.
        bundled: Starts an upstream if the settings name none, and returns the settings that lead
            to it; by default the rehearsal backend.
        announce: Called once clients are served.

    Raises:
        BindFailed: The address cannot be bound.
        ChildFailed: The bundled upstream does not start.
        EngineFailed: The bundled engine does not start.
    """
    logs.configure(settings.log_level, settings.log_format)
    # Until there is something to reload; a handler, as children would inherit that it is ignored.
    signal.signal(signal.SIGHUP, lambda *_: None)
    _allow_sockets(2 * settings.max_connections * (1 + settings.max_active))
    with contextlib.ExitStack() as stack:
        listener = listen(settings.host, settings.port, "--port or MULTILANE_PORT")
        stack.callback(listener.close)
        metrics = _metrics(settings, stack)
        if settings.upstream is None and not settings.upstreams:
            settings = settings.model_copy(update=(bundled or _rehearsal)(stack))
        else:
            _warn_of_paths(settings)
        settings, engine = _engine(settings, stack)

        def listening() -> None:
            scheme = "ws" if settings.tls_cert is None else "wss"
            log.info("%s://%s/v1/responses -> %s", scheme, listener.place, _places(settings))
            if metrics is not None:
                log.info("http://%s/metrics", metrics.place)
            if announce is not None:
                announce(listener)

        server = GatewayServer(Gateway(settings, engine), listening, metrics)
        _give_large_blocks_back()
        # Everything loaded by now stays, and what ends leaves no cycles behind (D13).
        gc.collect()
        gc.freeze()
        gc.set_threshold(10_000, 10, 10)
        server.run(listener.sockets)


def _metrics(settings: Settings, stack: contextlib.ExitStack) -> Listener | None:
    """Listen on the port that `/metrics` has of its own, if it has one."""
    if settings.metrics_port is None:
        return None
    ways = "--metrics-port or MULTILANE_METRICS_PORT"
    place = settings.metrics_host, settings.metrics_port
    listener = listen(*place, ways, option="--metrics-")
    stack.callback(listener.close)
    return listener


def _give_large_blocks_back() -> None:
    """Have glibc give a freed large block back to the system at once, whatever was freed before.

    By itself it raises the size of such blocks to that of the largest that was freed, and then
    keeps what frames of that size took (D13).
    """
    if sys.platform == "linux":
        with contextlib.suppress(AttributeError):  # other C libraries have no such thing
            ctypes.CDLL(None).mallopt(_M_MMAP_THRESHOLD, _LARGE_BLOCK)


def _warn_of_paths(settings: Settings) -> None:
    for one in upstreams(settings):
        if not urlsplit(one.url).path:
            which = f"the url of {one.name}" if settings.upstreams else "--upstream"
            endpoint = f"{one.place}/responses"
            log.warning("%s has no path: %s is asked; most backends want …/v1", which, endpoint)


def _places(settings: Settings) -> str:
    """Return the upstreams as the log names them."""
    return ", ".join(f"{one.prefix}{one.place}" for one in upstreams(settings))


def _rehearsal(stack: contextlib.ExitStack) -> dict[str, str]:
    argv = [sys.executable, "-m", "gateway", "rehearse", "--port", "0"]
    child = children.spawn(argv, name="the bundled upstream")
    stack.callback(child.stop)
    upstream = child.ready("ready ", START_TIMEOUT)
    log.warning("no --upstream: the bundled rehearsal backend answers, not a model")
    return {"upstream": upstream, "dialect": "openai", "model": "rehearse"}


def _engine(
    settings: Settings, stack: contextlib.ExitStack
) -> tuple[Settings, EmbeddedValkey | None]:
    """Start the bundled engine if it is the store."""
    if settings.redis_url == "embedded":
        engine = EmbeddedValkey(settings.state_dir)
        settings = settings.model_copy(update={"redis_url": engine.start()})
        stack.callback(engine.stop)
        return settings, engine
    if settings.redis_url == "memory":
        log.warning("redis-url memory: steers and stored responses end with this process")
    return settings, None
