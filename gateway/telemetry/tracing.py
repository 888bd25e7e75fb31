"""A span for each response, if tracing is on: from its create to its last event (D53).

Only `--tracing` imports this, as it needs `multilane[otel]`. Exporter, sampler and the rest are set
by the variables of OpenTelemetry (OTEL_*).
"""

from __future__ import annotations

import asyncio
import os
from contextvars import ContextVar
from importlib.metadata import entry_points, version
from typing import TYPE_CHECKING, Any, Final

import anyio
from opentelemetry.context import Context
from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import Link, SpanKind, StatusCode, set_span_in_context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from gateway.telemetry.genai import asked, code_of, ended, error_of, span_name
from lanes.worker import Worker

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from importlib.metadata import EntryPoint

    from opentelemetry.trace import Span

    from lanes.attempt import Attempt
    from lanes.errors import Fault
    from lanes.frames import Create
    from lanes.observer import ResponseObserver
    from lanes.ports import Stream, Upstream
    from lanes.starting import Successor

#: Values of OTEL_TRACES_EXPORTER -> the names of the exporters.
_EXPORTERS: Final = {"otlp": "otlp_proto_http", "console": "console"}
#: Seconds for the last spans when the gateway ends.
_LAST: Final = 3.0

_context: Final = TraceContextTextMapPropagator()
#: The span of the create that a task carries, or has carried last.
_carried: ContextVar[Span | None] = ContextVar("multilane_span", default=None)


class TracingRefused(ValueError):
    """Spans cannot be exported as the variables say; one line says why."""


class Tracing:
    """Makes the spans of one process.

    Args:
        provider: Gives the tracer; by default one that exports as OTEL_* say.

    Raises:
        TracingRefused: There is no such exporter.
    """

    def __init__(self, provider: TracerProvider | None = None) -> None:
        self._provider = provider or _exporting()
        self._tracer = self._provider.get_tracer("multilane", version("multilane"))

    def worker(self, upstream: Upstream, *args: Any, **options: Any) -> Worker:
        """Return a worker whose responses have spans.

        Args:
            upstream: Answers the requests.
            args: As for any other worker.
            options: As for any other worker.
        """
        return _TracedWorker(self, upstream, *args, **options)

    def begin(self, create: Create, headers: Mapping[str, str], before: Span | None) -> Span:
        """Return the span of a create.

        Args:
            create: The create.
            headers: The client's, which may name the span that this one belongs to.
            before: The span of the response that this one follows, if it is a successor.
        """
        links = [] if before is None else [Link(before.get_span_context())]
        place = _context.extract(headers, Context())
        made: Span = self._tracer.start_span(
            span_name(create), place, SpanKind.CLIENT, asked(create), links
        )
        return made

    async def aclose(self) -> None:
        """Export what is left, within seconds."""
        with anyio.move_on_after(_LAST):
            await anyio.to_thread.run_sync(self._provider.shutdown, abandon_on_cancel=True)


class _TracedWorker(Worker):
    """A worker that carries each create within a span."""

    def __init__(
        self,
        tracing: Tracing,
        upstream: Upstream,
        *args: Any,
        observer: ResponseObserver | None = None,
        **options: Any,
    ) -> None:
        super().__init__(_TracedUpstream(upstream), *args, observer=observer, **options)
        self._observer = _TracedResponses(self._observer)
        self._tracing = tracing

    async def carry(self, create: Create, successor: Successor | None = None) -> Successor | None:
        """Bring one create to its end (see `Worker.carry`), within a span."""
        before = None if successor is None else _carried.get()
        span = self._tracing.begin(create, self._headers, before)
        _carried.set(span)
        try:
            return await super().carry(create, successor)
        finally:
            # The observer hears of the end before that, in the same context.
            asyncio.get_running_loop().call_soon(_end, span)


class _TracedUpstream:
    """Tells a backend which span its request belongs to."""

    def __init__(self, upstream: Upstream) -> None:
        self._upstream = upstream
        self.check = upstream.check
        self.compaction = upstream.compaction

    async def open(
        self, body: Mapping[str, Any], items: Sequence[bytes], headers: Mapping[str, str]
    ) -> Stream:
        """Send one request (see `Upstream.open`)."""
        span = _carried.get()
        if span is not None:
            headers = {name: headers[name] for name in headers if name not in _context.fields}
            _context.inject(headers, set_span_in_context(span, Context()))
        return await self._upstream.open(body, items, headers)


class _TracedResponses:
    """An observer that ends spans, and tells another."""

    def __init__(self, observer: ResponseObserver) -> None:
        self._inner = observer

    def end(self, attempt: Attempt) -> None:
        """Note that a response is over."""
        self._inner.end(attempt)
        span = _carried.get()
        if span is not None and span.is_recording():
            span.set_attributes(ended(attempt))
            error = error_of(attempt)
            if error is not None:
                span.set_status(StatusCode.ERROR, error)
            span.end()

    def refuse(self, create: Create, fault: Fault) -> None:
        """Note that a create did not get as far as a response."""
        self._inner.refuse(create, fault)
        span = _carried.get()
        if span is not None and span.is_recording():
            error = code_of(fault)
            span.set_attributes({"multilane.status": "refused", "error.type": error})
            span.set_status(StatusCode.ERROR, error)
            span.end()


def _end(span: Span) -> None:
    """End the span of a create that became nothing: its client left."""
    if span.is_recording():
        span.set_attribute("multilane.status", "abandoned")
        span.end()


def _exporting() -> TracerProvider:
    # A name that is given here would win over the variable.
    named = "OTEL_SERVICE_NAME" in os.environ or SERVICE_NAME in os.environ.get(
        "OTEL_RESOURCE_ATTRIBUTES", ""
    )
    resource = Resource.create({} if named else {SERVICE_NAME: "multilane"})
    provider = TracerProvider(resource=resource, shutdown_on_exit=False)
    for exporter in exporters():
        provider.add_span_processor(BatchSpanProcessor(exporter.load()()))
    return provider


def exporters() -> list[EntryPoint]:
    """Return the exporters that OTEL_TRACES_EXPORTER names. Raises TracingRefused."""
    found: list[EntryPoint] = []
    for given in os.environ.get("OTEL_TRACES_EXPORTER", "otlp").split(","):
        name = given.strip()
        if name == "none":
            continue
        known = entry_points(group="opentelemetry_traces_exporter", name=_EXPORTERS.get(name, name))
        if not known:
            allowed = ", ".join((*_EXPORTERS, "none"))
            raise TracingRefused(
                f"OTEL_TRACES_EXPORTER: there is no exporter {name[:40]!r}, but {allowed}"
            )
        found.extend(known)
    return found
