"""What a response over HTTP shares with one over a socket: worker, upstreams and stores."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gateway.telemetry.access_log import ResponseLog
from lanes.history.archive import KeyArchive
from lanes.history.lineage import Lineage
from lanes.observer import Observers
from lanes.stream.room import OutputBounds
from steering.desk import Desk
from steering.ledger import Ledger

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from gateway.config.settings import Settings
    from gateway.limits.tenants import TenantLimits
    from gateway.persistence.stores import Stores
    from gateway.telemetry.access_log import AccessLog
    from gateway.telemetry.metrics import Metrics
    from lanes.ports import Outbox, Upstream
    from lanes.worker import Worker


@dataclass(frozen=True, slots=True)
class Engine:
    """Makes the workers of responses that have no socket.

    Attributes:
        upstream: Answers the requests.
        stores: What outlives a request.
        settings: The gateway's.
        access: Where the log lines about responses go.
        metrics: Where responses are counted.
        limits: How much each tenant may do.
        make: Makes a worker.
    """

    upstream: Upstream
    stores: Stores
    settings: Settings
    access: AccessLog
    metrics: Metrics
    limits: TenantLimits
    make: Callable[..., Worker]

    def worker(self, key_id: str, headers: Mapping[str, str], outbox: Outbox) -> Worker:
        """Return a worker for one response: there is no lane where another could wait.

        Args:
            key_id: Names the client's key.
            headers: The client's, as far as upstreams may see them.
            outbox: Takes the events.
        """
        # Steers come over a socket and name a response of that socket, so none ever gets here.
        desk = Desk(Ledger(), self.stores.clerk, key_id, _unasked)
        lineage = Lineage(self.settings.cache_bytes)
        archive = KeyArchive(self.stores.archive, key_id)
        bounds = OutputBounds(self.settings.max_output_bytes)
        return self.make(
            self.upstream,
            lineage,
            archive,
            outbox,
            desk,
            _nothing_waits,
            headers,
            bounds,
            quota=self.limits.of(key_id),
            observer=Observers(ResponseLog(self.access, key_id), self.metrics.observer("http")),
        )


def _unasked(_event: dict[str, Any]) -> None:
    raise AssertionError("a reply to a steer that nobody sent")


def _nothing_waits(_lane: str | None, _parent_id: str) -> bool:
    return False
