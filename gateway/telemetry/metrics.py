"""The metrics of one process: what is counted as it happens, and how it is read (D50).

docs/operations.md lists them. Labels have few values: names of upstreams, and words of our own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import prometheus_client
from prometheus_client import CollectorRegistry, Counter, Histogram, ProcessCollector

from gateway.telemetry.loop_delay import LoopDelay
from gateway.telemetry.response_metrics import CountingObserver, ResponseMetrics
from gateway.telemetry.traffic import Traffic

if TYPE_CHECKING:
    from collections.abc import Iterable

    from starlette.types import Receive, Scope, Send

    from steering.counters import Samples, SteerCounters, StoreCounters

#: The buckets of what should take no time, in seconds.
SECONDS: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)
#: Those of a successor, which waits for a backend.
SUCCESSOR_SECONDS: Final = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)

# When each series began says nothing that the process's own start does not.
prometheus_client.disable_created_metrics()  # type: ignore[no-untyped-call]


class Metrics:
    """Everything that is counted in one process.

    What is hot raises a number of an object at hand or adds to a list; `fold` and whoever reads
    the registry does the rest.

    Args:
        upstreams: The names of all upstreams.
        steers: What became of steers.
        stores: What happened to the stores.

    Attributes:
        registry: Where all is read.
        responses: The responses.
        sockets: What leaves by WebSockets.
        http: What leaves as answers to plain requests.
        loop_delay: Looks how late the event loop is, and folds.
    """

    def __init__(
        self, upstreams: Iterable[str], steers: SteerCounters, stores: StoreCounters
    ) -> None:
        # By what they describe themselves, so that a scrape may name the ones it wants.
        self.registry = CollectorRegistry(auto_describe=True)
        self.responses = ResponseMetrics(self.registry, upstreams)
        self.sockets = Traffic()
        self.http = Traffic()
        self._refused = Counter(
            "multilane_connections_refused",
            "Upgrades and requests that were refused at the door.",
            ("code",),
            registry=self.registry,
        )
        accepted = self._histogram(
            "multilane_steer_accepted_seconds", "Seconds from a steer to its acceptance."
        )
        successors = self._histogram(
            "multilane_steer_successor_seconds",
            "Seconds from a steer to the first event of the response that carries it.",
            SUCCESSOR_SECONDS,
        )
        calls = self._histogram(
            "multilane_store_call_seconds", "Seconds of a call to the engine of the stores."
        )
        self._folded: tuple[tuple[Samples, Histogram], ...] = (
            (steers.accepted, accepted),
            (steers.successors, successors),
            (stores.call_seconds, calls),
        )
        delays = self._histogram(
            "multilane_event_loop_delay_seconds", "How late the event loop was, ten times a second."
        )
        self.loop_delay = LoopDelay(delays.observe, self.fold)
        ProcessCollector(registry=self.registry)
        self._app = prometheus_client.make_asgi_app(self.registry)

    def observer(self, transport: str) -> CountingObserver:
        """Return what counts the responses of one connection or request by this transport."""
        return CountingObserver(self.responses, transport)

    def refused(self, code: str) -> None:
        """Count a client that was not let in."""
        self._refused.labels(code).inc()

    def fold(self) -> None:
        """Add the samples that have come to their histograms."""
        for samples, histogram in self._folded:
            while samples:
                histogram.observe(samples.popleft())

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a scrape, in the format that it asks for."""
        self.fold()
        await self._app(scope, receive, send)

    def _histogram(
        self, name: str, documentation: str, buckets: tuple[float, ...] = SECONDS
    ) -> Histogram:
        return Histogram(name, documentation, registry=self.registry, buckets=buckets)
