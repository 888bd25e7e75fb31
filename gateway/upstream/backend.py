"""One backend as `lanes` sees it: a dialect spoken over HTTP or WebSocket."""

from __future__ import annotations

import logging
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from gateway.logs import Outage, ThrottledWarnings
from gateway.upstream import model_list
from gateway.upstream.chat import stream as chat
from gateway.upstream.chat.think_habits import ThinkHabits
from gateway.upstream.detection.detector import DialectDetector
from gateway.upstream.dialect import AUTO, Dialect, check_transport
from gateway.upstream.large_request import MANY_BYTES, MANY_ITEMS, large_request
from gateway.upstream.refused.memory import MAX_TRIES, RefusedKeys
from gateway.upstream.responses_stream import ResponsesStream
from gateway.upstream.token_counts import CountedRequest, count_tokens
from gateway.upstream.transport.faults import BackendAnswered, backend_fault
from gateway.upstream.transport.http.client import HttpClient
from gateway.upstream.transport.websocket.client import WebSocketClient
from gateway.upstream.transport.websocket.limits import WebSocketLimits
from gateway.upstream.wrapped_steering import WrappedSteering
from lanes.cpu_thread import run_in_cpu_thread
from lanes.errors import UpstreamFault, own_fault
from lanes.history.makers import Maker
from lanes.ports import OwnCompaction
from lanes.stream.profile import Profile

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gateway.upstream.options import UpstreamOptions
    from gateway.upstream.refused.request import Refusal
    from gateway.upstream.tracked_stream import TrackedStream
    from gateway.upstream.transport.http.outgoing import OutgoingRequest
    from gateway.upstream.transport.http.reply import HttpReply
    from gateway.upstream.transport.http.stream import HttpStream
    from gateway.upstream.transport.websocket.stream import WebSocketStream

log = logging.getLogger("multilane.upstream")

#: Stands in until the dialect is detected: the path and the key's header that most backends have.
_UNDETECTED: Final = Dialect(AUTO, Profile())


class Backend:
    """Implements lanes.ports.Upstream for one backend, `maker` as the maker of items."""

    def __init__(self, options: UpstreamOptions, maker: str | None = None) -> None:
        self.name = options.name
        self._options = options
        self._client = HttpClient(
            options.url,
            connect_timeout=options.connect_timeout,
            first_byte_timeout=options.first_byte_timeout,
            idle_timeout=options.idle_timeout,
            max_event_bytes=options.max_event_bytes,
            retries=options.retries,
        )
        self.detector = DialectDetector(options, self._client)
        self._ready = False  # its dialect is detected, and speaks over the transport
        self._socket: WebSocketClient | None = None
        self._notices, self._outage = ThrottledWarnings(log), Outage(log)
        self._maker = Maker(maker or options.name, options.dialect)
        self._refused, self._habits = RefusedKeys(options.prefix, self._maker), ThinkHabits()

    @property
    def _dialect(self) -> Dialect:
        return self.detector.dialect or _UNDETECTED

    @property
    def _sender(self) -> HttpClient | WebSocketClient:
        """The client that carries requests; to be asked for once the dialect is known."""
        if self._options.transport == "http":
            return self._client
        if self._socket is None:
            self._socket = self._socket_client()
        return self._socket

    @property
    def _asked(self) -> str:
        way = "POST" if self._options.transport == "http" else "WebSocket"
        return f"{way} {self._options.place}{self._dialect.path}"

    def _profile(self, body: Mapping[str, Any]) -> Profile:
        """Return what is known about the answer to a request."""
        options, profile, chats = self._options, self._dialect.profile, self._dialect.converter
        cuts, steers = profile.cuts_text and options.steer_boundary == "text", profile.steerable
        profile = replace(profile, cuts_text=cuts, steerable=steers and options.steerable)
        made_by = self._maker.mark() if profile.seals_reasoning and chats is None else None
        tags, name = options.reasoning_tags, options.name
        profile = replace(profile, reasoning_tags=tags, made_by=made_by, upstream=name)
        return profile if chats is None else self._habits.applied(profile, body)

    def _headers(self, client: Mapping[str, str]) -> dict[str, str]:
        """Return what is sent: the client's headers, the operator's, and one key at most."""
        headers, key = {**client, **self._options.headers}, self._options.key
        if key is not None:
            headers.pop("authorization", None)  # the client's key is for others
            headers |= self._dialect.auth(key.get_secret_value())
        return headers

    def request(self, body: Mapping[str, Any], items: Sequence[bytes]) -> bytes:
        """Return the request that a create would be now (see `open`)."""
        known = self._refused.respected(self._dialect, body.get("model"))
        return known.request(body, items, self._maker)

    def refused(self, model: str | None) -> frozenset[Refusal]:
        """Return what the model turned out to refuse."""
        return self._refused.known.get(str(model), frozenset())

    async def prepare(self, model: str | None) -> None:
        """Detect the dialect before it is needed; `model` is one that it has, if one is known."""
        try:
            await self._ensure_dialect({}, model)
        except UpstreamFault as fault:
            if fault.status != 503 or isinstance(fault, BackendAnswered):  # else the gateway ends
                log.info("upstream %s: its dialect is asked for again later", self.name)

    async def open(
        self, body: Mapping[str, Any], items: Sequence[bytes], headers: Mapping[str, str]
    ) -> TrackedStream:
        """Send one request and wait for the head of its answer (see `lanes.ports.Upstream.open`).

        Args:
            body: The client's request.
            items: The whole effective input, each item as JSON.
            headers: The client's, as far as the backend may see them.

        Raises:
            UpstreamFault: The backend refused, or did not answer.
            ClientFault: The dialect has no words for the request.
        """
        if not self._ready:
            await self._ensure_dialect(headers, body.get("model"))
        refused, model = self._refused, body.get("model")
        dialect = refused.respected(self._dialect, model) if refused.known else self._dialect
        texts = [value for value in body.values() if isinstance(value, str)]
        large = len(items) > MANY_ITEMS or sum(map(len, (*items, *texts))) > MANY_BYTES
        for tries in range(MAX_TRIES + 1):
            asked = dialect, body, items, self._headers(headers)
            request, stream, fault = await self._ask(*asked, large=large)
            conceding = fault and refused.conceding(dialect, fault, request)
            if not conceding or tries == MAX_TRIES:
                break
            if stream is not None:
                stream.close()
            dialect = conceding
        if tries and fault is None:
            refused.remember(model, dialect.refuses)
        if stream is None:
            raise self._logged(fault or own_fault("A request without an answer."))
        self._outage.end(f"{self._options.prefix}The backend answers again")
        return stream

    async def _ask(
        self,
        dialect: Dialect,
        body: Mapping[str, Any],
        items: Sequence[bytes],
        headers: Mapping[str, str],
        *,
        large: bool,
    ) -> tuple[bytes, ResponsesStream | None, UpstreamFault | None]:
        """Return the request that was sent, its answer, and the fault that this begins with or is.

        Args:
            dialect: How it is asked.
            body: The client's request.
            items: The whole effective input, each item as JSON.
            headers: What is sent.
            large: Whether the request takes long to make.
        """
        sender = self._sender
        if large:
            request = await run_in_cpu_thread(large_request, dialect, body, items, self._maker)
        else:
            request = dialect.request(body, items, self._maker)
        try:
            answer = await sender.post(dialect.path, request, headers)
        except UpstreamFault as fault:
            return request, None, fault.bare()
        stream = self._wrap(body, items, answer)
        return request, stream, (await stream.begin()).fault

    def _wrap(
        self, body: Mapping[str, Any], items: Sequence[bytes], stream: HttpStream | WebSocketStream
    ) -> ResponsesStream:
        asked = body, self._maker, (profile := self._profile(body)), items
        converter, own = self._dialect.reader(*asked), stream.steering
        other = partial(chat.converter, *asked) if converter is None else None
        steering = None if own is None else WrappedSteering(own, partial(self._wrap, body, items))
        return ResponsesStream(stream, profile, self._log_cut, converter, steering, other)

    async def pass_on(self, request: OutgoingRequest) -> HttpReply:
        """Send a request as it is, with the key of this backend (see `HttpClient.pass_on`).

        Raises UpstreamFault.
        """
        if self._options.key is not None and self.detector.dialect is None:
            await self._ensure_dialect({}, None)  # it says which header carries the key
        asked = f"{request.method} {self._options.place}{request.path}"
        try:
            sent = replace(request, headers=self._headers(request.headers))
            reply = await self._client.pass_on(sent)
        except UpstreamFault as fault:
            self._log_fault(fault, asked)
            raise
        self._log_status(reply.status, asked)
        return reply

    async def count(self, asked: CountedRequest) -> int:
        """Ask how many tokens a request has (see `count_tokens`)."""
        if not self._ready:
            await self._ensure_dialect(asked.headers, asked.body.get("model"))
        sent = replace(asked, headers=self._headers(asked.headers))
        return await count_tokens(self._dialect, self._client, sent)

    async def compaction(self, headers: Mapping[str, str], model: str | None) -> OwnCompaction:
        """Return what it does about long histories itself. Raises UpstreamFault."""
        await self._ensure_dialect(headers, model)
        dialect, way = self._dialect, self._options.compaction
        native = way == "native" or (way == "auto" and dialect.is_home(self._options.url))
        return OwnCompaction(makes=dialect.compacts and native, reads=dialect.compacts)

    async def models(self, headers: Mapping[str, str]) -> dict[str, int]:
        """Ask which models it has (see `model_list.parse_models`). Raises UpstreamFault."""
        wanted = {**self._headers(headers), "accept": "application/json"}
        fetching = self._client.fetch("GET", "/models", wanted, timeout=model_list.TIMEOUT)
        return model_list.parse_models(await fetching)

    async def aclose(self) -> None:
        """Close all connections to the backend."""
        await self._client.aclose()
        if self._socket is not None:
            await self._socket.aclose()

    async def _ensure_dialect(self, headers: Mapping[str, str], model: object) -> None:
        """Know the dialect from here on. Raises UpstreamFault."""
        try:
            if self.detector.dialect is None:
                named = model if isinstance(model, str) else None
                await self.detector.detect(self._headers(headers), named)
            self._check_transport()
            self._maker.dialect = self._dialect.name
            self._ready = True
        except UpstreamFault as fault:
            self._log_fault(fault)
            raise

    def _check_transport(self) -> None:
        """Raise UpstreamFault if the detected dialect does not speak over the transport."""
        try:
            check_transport(self._options.transport, self._dialect.name)
        except ValueError as wrong:
            raise backend_fault(f"No answer over WebSocket: {wrong}.") from None

    def _socket_client(self) -> WebSocketClient:
        options = self._options
        limits = WebSocketLimits(
            connect=options.connect_timeout,
            first_byte=options.first_byte_timeout,
            idle=options.idle_timeout,
            max_event=options.max_event_bytes,
            lanes=self._dialect.websocket_lanes,
        )
        native = options.steering == "native"
        return WebSocketClient(options.url, limits, retries=options.retries, native=native)

    def _logged(self, fault: UpstreamFault) -> UpstreamFault:
        """Return the fault of a create, once it is logged."""
        self._log_fault(fault)
        if fault.status == 404 and fault.code == "not_found" and fault.param is None:
            # The backend does not say what it did not find: it may be the path itself.
            fault.message += f" ({self._asked})"
        return fault

    def _log_fault(self, fault: UpstreamFault, asked: str | None = None) -> None:
        """Log what the operator can mend. Never the backend's words: they quote input.

        `asked` is what it was asked for, if that was no response.
        """
        asked = asked or self._asked
        if isinstance(fault, BackendAnswered):
            self._log_status(fault.status, asked)
        elif fault.status != 503:  # the gateway is shutting down
            self._outage.begin(f"{self._options.prefix}{fault.logged or fault.message} ({asked})")

    def _log_status(self, status: int, asked: str) -> None:
        hint = self._options.hint(status)
        if hint is not None or status >= 500:
            line = f"{self._options.prefix}The backend answers {status} to {asked}"
            self._notices.warning(f"answered {status}", f"{line}; {hint}" if hint else line)

    def _log_cut(self, fault: UpstreamFault) -> None:
        if fault.status != 503:
            cut = f"{self._options.prefix}An answer was cut: {fault.logged or fault.message}"
            self._notices.warning("cut", f"{cut} ({self._asked})")
