"""One backend, as `lanes` sees it: a dialect spoken over an HTTP client."""

from __future__ import annotations

import logging
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol

from gateway.config.setting_types import check_transport
from gateway.logs import ThrottledWarnings
from gateway.upstream import model_list
from gateway.upstream.detection.detector import DialectDetector
from gateway.upstream.dialect import Dialect
from gateway.upstream.transport.faults import BackendAnswered, unreachable
from gateway.upstream.transport.http.client import HttpClient
from gateway.upstream.transport.websocket.client import SocketClient
from gateway.upstream.transport.websocket.limits import SocketLimits
from gateway.upstream.wrapped_steering import WrappedSteering
from lanes.errors import UpstreamFault
from lanes.ports import Stream
from lanes.stream.profile import Profile

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from gateway.config.upstream_settings import UpstreamSettings
    from gateway.upstream.dialect import Converter
    from gateway.upstream.transport.http.stream import EventStream
    from gateway.upstream.transport.websocket.stream import SocketStream
    from lanes.ports import BackendSteering, Event

log = logging.getLogger("multilane.upstream")

#: Stands in while nobody knows how the backend speaks: where most are asked, with a key as most
#: want it shown.
_UNSETTLED: Final = Dialect("auto", Profile())


class Backend:
    """Implements lanes.ports.Upstream for one backend."""

    def __init__(self, settings: UpstreamSettings) -> None:
        self.name = settings.name
        self._settings = settings
        self._client = HttpClient(
            settings.url,
            connect_timeout=settings.connect_timeout,
            first_byte_timeout=settings.first_byte_timeout,
            idle_timeout=settings.idle_timeout,
            max_event_bytes=settings.max_event_bytes,
            retries=settings.retries,
        )
        self._settling = DialectDetector(settings, self._client)
        self._socket: SocketClient | None = None
        self._notices = ThrottledWarnings(log)

    @property
    def _dialect(self) -> Dialect:
        return self._settling.known or _UNSETTLED

    @property
    def _sender(self) -> HttpClient | SocketClient:
        """Whoever carries requests; to be asked for once the dialect is known."""
        if self._settings.transport == "http":
            return self._client
        if self._socket is None:
            self._socket = self._socket_client()
        return self._socket

    @property
    def _asked(self) -> str:
        way = "POST" if self._settings.transport == "http" else "WebSocket"
        return f"{way} {self._settings.place}{self._dialect.path}"

    @property
    def _profile(self) -> Profile:
        settings, profile = self._settings, self._dialect.profile
        cuts_text = profile.cuts_text and settings.steer_boundary == "text"
        steerable = profile.steerable and settings.steerable
        return replace(profile, cuts_text=cuts_text, steerable=steerable)

    def _headers(self, client: Mapping[str, str]) -> dict[str, str]:
        """What is sent: the client's, the operator's, and one key at most."""
        headers, key = {**client, **self._settings.headers}, self._settings.key
        if key is not None:
            headers.pop("authorization", None)  # the client's is for others to see
            headers |= self._dialect.auth(key.get_secret_value())
        return headers

    async def prepare(self, model: str | None) -> None:
        """Find out the dialect before it is needed; a backend that is away is no fault yet."""
        try:
            await self._settle({}, model)
        except UpstreamFault as fault:
            if fault.status != 503 or isinstance(fault, BackendAnswered):  # else that is us, ending
                log.info("upstream %s: its dialect is asked for again later", self.name)

    async def open(
        self, body: Mapping[str, Any], items: Sequence[bytes], headers: Mapping[str, str]
    ) -> TrackedStream:
        """Send one request and wait for the head of its answer. Raises UpstreamFault."""
        await self._settle(headers, body.get("model"))
        request = self._dialect.request(body, items)
        try:
            stream = await self._sender.post(self._dialect.path, request, self._headers(headers))
        except UpstreamFault as fault:
            self._notice(fault)
            if fault.status == 404 and fault.code == "not_found" and fault.param is None:
                # The backend names nothing that it did not find: it may be the place itself.
                fault.message += f" ({self._asked})"
            raise
        return self._watched(body, stream)

    def _watched(self, body: Mapping[str, Any], stream: EventStream | SocketStream) -> _Watched:
        made = self._dialect.converter
        converter = None if made is None else made(body)
        steering = None
        if stream.steering is not None:
            steering = WrappedSteering(stream.steering, partial(self._watched, body))
        return _Watched(stream, self._profile, self._notice_cut, converter, steering)

    async def models(self, headers: Mapping[str, str]) -> dict[str, int]:
        """Ask which models it has (see `models.read`). Raises UpstreamFault."""
        wanted = {**self._headers(headers), "accept": "application/json"}
        return model_list.read(
            await self._client.fetch("GET", "/models", wanted, timeout=model_list.TIMEOUT)
        )

    async def aclose(self) -> None:
        """Close all connections to the backend."""
        await self._client.aclose()
        if self._socket is not None:
            await self._socket.aclose()

    async def _settle(self, headers: Mapping[str, str], model: object) -> None:
        """Know the dialect from here on. Raises UpstreamFault."""
        try:
            if self._settling.known is None:
                named = model if isinstance(model, str) else None
                await self._settling.ask(self._headers(headers), named)
            self._check_transport()
        except UpstreamFault as fault:
            self._notice(fault)
            raise

    def _check_transport(self) -> None:
        """Raise UpstreamFault if it was found out to speak something else."""
        try:
            check_transport(self._settings.transport, self._dialect.name)
        except ValueError as wrong:
            raise unreachable(f"No answer over WebSocket: {wrong}.") from None

    def _socket_client(self) -> SocketClient:
        settings = self._settings
        terms = SocketLimits(
            connect=settings.connect_timeout,
            first_byte=settings.first_byte_timeout,
            idle=settings.idle_timeout,
            max_event=settings.max_event_bytes,
            lanes=self._dialect.websocket_lanes,
        )
        native = settings.steering == "native"
        return SocketClient(settings.url, terms, retries=settings.retries, native=native)

    def _notice(self, fault: UpstreamFault) -> None:
        """Tell the operator what is theirs to mend. Never the backend's words: they quote input."""
        prefix, hint = self._settings.prefix, self._settings.hint(fault.status)
        if not isinstance(fault, BackendAnswered):
            if fault.status != 503:  # that is us, shutting down
                self._notices.warning("unreached", f"{prefix}{fault.message} ({self._asked})")
        elif hint is not None or fault.status >= 500:
            line = f"{prefix}The backend answers {fault.status} to {self._asked}"
            self._notices.warning(f"answered {fault.status}", f"{line}; {hint}" if hint else line)

    def _notice_cut(self, fault: UpstreamFault) -> None:
        if fault.status != 503:
            line = f"{self._settings.prefix}An answer was cut: {fault.message} ({self._asked})"
            self._notices.warning("cut", line)


class PeekableStream(Stream, Protocol):
    """A stream that can be looked into before it is relayed."""

    async def first(self) -> list[Event]:
        """Wait for its first events (see EventStream)."""


class TrackedStream(PeekableStream, Protocol):
    """A stream that tells when the backend is rid of its request."""

    def afterwards(self, then: Callable[[], None]) -> None:
        """Call `then` when nothing of the request is at the backend any more; at once if so."""


class _Watched:
    """A stream whose breaking off is noticed, and which speaks as the Responses API does."""

    def __init__(
        self,
        stream: EventStream | SocketStream,
        profile: Profile,
        notice: Callable[[UpstreamFault], None],
        converter: Converter | None,
        steering: BackendSteering | None,
    ) -> None:
        self.profile = profile
        self.steering = steering
        self._stream = stream
        self._notice = notice
        self._converter = converter
        self.pause, self.resume = stream.pause, stream.resume
        self.release, self.close = stream.release, stream.close
        self.afterwards = stream.afterwards

    async def first(self) -> list[Event]:
        """Wait for the first events (see EventStream)."""
        try:
            return await self._stream.first()
        except UpstreamFault as fault:
            self._notice(fault)
            raise

    async def relay(self, sink: Callable[[list[Event]], None]) -> None:
        """Relay it (see EventStream)."""
        try:
            if self._converter is None:
                await self._stream.relay(sink)
            else:
                feed = self._converter.feed
                await self._stream.relay(lambda events: sink(feed(events)))
                sink(self._converter.finish())
        except UpstreamFault as fault:
            self._notice(fault)
            if self._converter is not None:
                sink(self._converter.finish())  # what broke may have lacked nothing but its end
            raise
