"""What is open and runs in one process: for its log, for `/health` and for `/metrics` (D50)."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from gateway.persistence.store_condition import StoreState

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from prometheus_client import Metric

    from gateway.client.connection import ClientConnection
    from gateway.client.peers import Peers
    from gateway.http.running import RunningResponses
    from gateway.persistence.stores import Stores
    from gateway.telemetry.metrics import Metrics
    from gateway.upstream.routing.router import Router

#: The store's counters by their names at `/health`, and what the metric says.
_STORE_COUNTERS = {
    "responses_stored": "Responses that were written to the store.",
    "responses_not_stored": "Responses that were lost on the way to the store.",
    "store_write_retries": "Tries to write a response after the first.",
    "steer_verdicts_not_stored": "Verdicts on steers that were lost on the way to the store.",
    "store_calls_failed": "Calls that the store refused, answered with nonsense or not in time.",
    "store_troubles": "Times that the store went from well to troubled.",
}


class Census:
    """Counts when it is asked, so that what is counted costs nothing before.

    It is a collector of the metrics' registry.

    Args:
        peers: The sockets.
        running: The responses that run for HTTP.
        stores: What outlives a socket.
        upstreams: The backends.
        metrics: What is counted as it happens.

    Attributes:
        connections: The open WebSockets.
        accepted: How many there have been.
        draining: Whether the gateway ends.
    """

    def __init__(
        self,
        peers: Peers,
        running: RunningResponses,
        stores: Stores,
        upstreams: Router,
        metrics: Metrics,
    ) -> None:
        self.connections: set[ClientConnection] = set()
        self.accepted = 0
        self.draining = False
        self._peers = peers
        self._running = running
        self._stores = stores
        self._upstreams = upstreams
        self._metrics = metrics
        metrics.registry.register(self)

    def counts(self) -> dict[str, int]:
        """Return the numbers that `/health` shows."""
        return {
            "connections": len(self.connections),
            "http_responses": len(self._running),
            "sockets": self._peers.open,
            "refused": self._peers.refused,
        }

    def open(self) -> str:
        """Return what is open or runs, as the log says it; empty for nothing."""
        counts = (len(self.connections), "connection"), (len(self._running), "response over HTTP")
        return " and ".join(_counted(*count) for count in counts if count[0])

    def collect(self) -> Iterator[Metric]:
        """Yield everything that is known only now."""
        boards = [connection.board for connection in self.connections]
        active = sum(board.active for board in boards)
        now = {
            "connections": ("Open WebSockets.", len(boards)),
            "sockets": ("Open TCP connections of clients.", self._peers.open),
            "lanes": ("Lanes that open WebSockets have used.", sum(one.named for one in boards)),
            "responses_running": ("Responses that run.", active + len(self._running)),
            "creates_waiting": (
                "Creates that wait for their lane or for a slot.",
                sum(board.waiting for board in boards),
            ),
            "draining": ("1 while the gateway ends.", int(self.draining)),
            "store_responses_waiting": (
                "Responses that wait to be written to the store.",
                self._stores.archive.waiting,
            ),
        }
        for name, (text, number) in now.items():
            yield GaugeMetricFamily(f"multilane_{name}", text, value=number)
        accepted = "WebSockets that were accepted."
        yield CounterMetricFamily("multilane_connections_accepted", accepted, self.accepted)
        yield from self._infos()
        yield from self._traffic()
        yield from self._store()
        yield _labelled(
            CounterMetricFamily(
                "multilane_steers",
                "Steers by what became of them, and why.",
                labels=("outcome", "reason"),
            ),
            self._stores.clerk.steers.outcomes.items(),
        )

    def _infos(self) -> Iterator[Metric]:
        yield _labelled(
            GaugeMetricFamily("multilane_build_info", "The version.", labels=("version",)),
            [((_version(),), 1)],
        )
        members = self._upstreams.members
        yield _labelled(
            GaugeMetricFamily(
                "multilane_upstream_info",
                "The dialect of each upstream, empty until it is detected.",
                labels=("upstream", "dialect"),
            ),
            [((one.name, one.dialect or ""), 1) for one in members],
        )

    def _traffic(self) -> Iterator[Metric]:
        ways = ("socket", self._metrics.sockets), ("http", self._metrics.http)
        label = ("transport",)
        yield _labelled(
            CounterMetricFamily("multilane_events_sent", "Events that left.", labels=label),
            [((way,), sent.events) for way, sent in ways],
        )
        yield _labelled(
            CounterMetricFamily(
                "multilane_bytes_sent", "Bytes of events and responses that left.", labels=label
            ),
            [((way,), sent.bytes) for way, sent in ways],
        )
        yield _labelled(
            CounterMetricFamily(
                "multilane_backpressure_seconds",
                "Seconds for which clients that fell behind held up their upstreams.",
                labels=label,
            ),
            [((way,), sent.pressure.seconds) for way, sent in ways],
        )
        yield _labelled(
            GaugeMetricFamily(
                "multilane_clients_behind", "Clients that hold up their upstreams.", labels=label
            ),
            [((way,), sent.pressure.clients) for way, sent in ways],
        )

    def _store(self) -> Iterator[Metric]:
        numbers = self._stores.counters.numbers()
        for name, text in _STORE_COUNTERS.items():
            own = name if name.startswith("store_") else f"store_{name}"
            yield CounterMetricFamily(f"multilane_{own}", text, numbers[name])
        state = self._stores.condition.state
        yield _labelled(
            GaugeMetricFamily("multilane_store_state", "1 for how it is.", labels=("state",)),
            [((str(one),), int(one is state)) for one in StoreState],
        )


def _version() -> str:
    try:
        return version("multilane")
    except PackageNotFoundError:  # it runs from a checkout that is not installed
        return "unknown"


def _labelled(
    family: CounterMetricFamily | GaugeMetricFamily,
    values: Iterable[tuple[tuple[str, ...], float]],
) -> Metric:
    for labels, value in values:
        family.add_metric(labels, value)
    return family


def _counted(number: int, noun: str) -> str:
    first, _, rest = noun.partition(" ")
    return f"{number} {first if number == 1 else first + 's'} {rest}".rstrip()
