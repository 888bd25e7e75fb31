"""Counts the responses of a process as they end; nothing is told of single events (D50)."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final, NamedTuple

from prometheus_client import Counter, Histogram

from gateway.telemetry.error_classes import ERROR_CLASSES, error_class
from lanes.errors import UpstreamFault
from lanes.stream.backend_errors import response_error
from lanes.stream.run_states import RunState

if TYPE_CHECKING:
    from collections.abc import Iterable

    from prometheus_client import CollectorRegistry

    from lanes.attempt import Attempt
    from lanes.errors import Fault
    from lanes.frames import Create

#: The buckets of what a model's answer takes, in seconds, and of how far it came, in events.
SECONDS: Final = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0)
EVENTS: Final = (10, 25, 50, 100, 250, 500, 1000, 2500, 5000, 10_000)
#: The label of a response that no upstream answered.
NONE: Final = "none"


class _Series(NamedTuple):
    """What one response is counted by."""

    ended: Counter
    seconds: Histogram
    first_event: Histogram
    input: Counter
    output: Counter


class ResponseMetrics:
    """What is counted of responses.

    Args:
        registry: Where it can be read.
        upstreams: The names of all upstreams.
    """

    def __init__(self, registry: CollectorRegistry, upstreams: Iterable[str]) -> None:
        self._ended = Counter(
            "multilane_responses",
            "Responses that ended, and creates that became none (refused).",
            ("upstream", "transport", "status"),
            registry=registry,
        )
        self._refused = Counter(
            "multilane_creates_refused",
            "Creates that got an error in place of a response.",
            ("code",),
            registry=registry,
        )
        self._seconds = Histogram(
            "multilane_response_seconds",
            "Seconds from the start of a response to its end.",
            ("upstream", "status"),
            registry=registry,
            buckets=SECONDS,
        )
        self._first_event = Histogram(
            "multilane_first_event_seconds",
            "Seconds from the start of a response to its first event.",
            ("upstream",),
            registry=registry,
            buckets=SECONDS,
        )
        self._tokens = Counter(
            "multilane_tokens",
            "Tokens of ended responses, as the backend counted them.",
            ("upstream", "kind"),
            registry=registry,
        )
        self._cuts = Histogram(
            "multilane_cut_position_events",
            "Events that a response had when a steer or a cancel ended it.",
            ("status",),
            registry=registry,
            buckets=EVENTS,
        )
        self._errors = Counter(
            "multilane_upstream_errors",
            "What went wrong with an upstream, retries that helped left out.",
            ("upstream", "class"),
            registry=registry,
        )
        #: By upstream, transport and status: to look each up anew takes as long as to count.
        self._known: dict[tuple[str, str, str], _Series] = {}
        for name in upstreams:
            for one in ERROR_CLASSES:
                self._errors.labels(name, one)  # from 0, so that the first one is an increase

    def failed(self, upstream: str, fault: UpstreamFault, *, begun: bool = False) -> None:
        """Count what went wrong with an upstream.

        Args:
            upstream: Its name.
            fault: What went wrong.
            begun: Whether its answer had begun.
        """
        self._errors.labels(upstream, error_class(fault, begun=begun)).inc()

    def ended(self, attempt: Attempt, transport: str) -> None:
        """Count a response that is over."""
        run = attempt.run
        upstream, status = run.profile.upstream or NONE, str(run.state)
        series = self._series(upstream, transport, status)
        series.ended.inc()
        series.seconds.observe(time.monotonic() - attempt.since)
        # In the background it comes before the backend is asked, and says nothing.
        if attempt.begun and not attempt.create.body.get("background"):
            series.first_event.observe(attempt.begun - attempt.since)
        if usage := run.snapshots.usage:
            series.input.inc(usage.get("input_tokens") or 0)
            series.output.inc(usage.get("output_tokens") or 0)
        if run.state in (RunState.STEERED, RunState.CANCELLED):
            self._cuts.labels(status).observe(attempt.stamp.number)
        if run.fault is not None:
            self._refused.labels(_code(run.fault)).inc()
        fault = run.fault or run.failure
        # What was stopped from here is not the backend's fault; without a name none has answered.
        stopped = attempt.scope.cancel_called
        if isinstance(fault, UpstreamFault) and run.profile.upstream and not stopped:
            self.failed(upstream, fault, begun=True)

    def _series(self, upstream: str, transport: str, status: str) -> _Series:
        """Return what a response with these labels is counted by."""
        key = upstream, transport, status
        if key not in self._known:
            self._known[key] = _Series(
                self._ended.labels(*key),
                self._seconds.labels(upstream, status),
                self._first_event.labels(upstream),
                self._tokens.labels(upstream, "input"),
                self._tokens.labels(upstream, "output"),
            )
        return self._known[key]

    def refused(self, fault: Fault, transport: str) -> None:
        """Count a create that became no response."""
        self._ended.labels(NONE, transport, str(RunState.REFUSED)).inc()
        self._refused.labels(_code(fault)).inc()


class CountingObserver:
    """Counts the ends of the responses of one connection or request.

    Args:
        metrics: Where they are counted.
        transport: How the client asked: `socket` or `http`.
    """

    def __init__(self, metrics: ResponseMetrics, transport: str) -> None:
        self._metrics = metrics
        self._transport = transport

    def end(self, attempt: Attempt) -> None:
        """Count a response that is over."""
        self._metrics.ended(attempt, self._how(attempt.create))

    def refuse(self, create: Create, fault: Fault) -> None:
        """Count a create that became no response."""
        self._metrics.refused(fault, self._how(create))

    def _how(self, create: Create) -> str:
        return "background" if create.body.get("background") else self._transport


def _code(fault: Fault) -> str:
    """Return a code of ours or of the reference's closed list, never a backend's own word."""
    if isinstance(fault, UpstreamFault):
        return str(response_error(fault)["code"])
    return fault.code or "invalid_request"
