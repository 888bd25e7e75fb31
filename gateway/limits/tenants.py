"""SHELL: the quotas of all tenants of one process, and how they hear of new limits."""

from __future__ import annotations

from contextlib import suppress
from itertools import count
from typing import TYPE_CHECKING, Final
from weakref import WeakValueDictionary

import anyio

from gateway.limits.tenant import TenantHub, TenantQuota
from steering.redis.lease import LEASE_TTL

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from typing import Any

    from gateway.limits.limits import Limits
    from gateway.limits.store import LimitStore

#: Seconds between two reports of a tenant who holds something.
_PACE: Final = LEASE_TTL / 3
#: Seconds for the last reports when the gateway ends.
_LAST: Final = 1.0


class TenantLimits:
    """Finds the quota of a tenant. Keep `run` running.

    Args:
        store: Counts for all processes.
        owner: The id of this process.
        limits_of: Returns the limits of a tenant.
        lets_in: Whether creates are let in while the store is away.
    """

    def __init__(
        self, store: LimitStore, owner: str, limits_of: Callable[[str], Limits], *, lets_in: bool
    ) -> None:
        self._store = store
        self._owner = owner
        self._limits_of = limits_of
        self._hub = TenantHub(lets_in=lets_in)
        self._numbers = count(1)
        # A quota lives as long as anything of its tenant is open, or has to be told.
        self._quotas: WeakValueDictionary[str, TenantQuota] = WeakValueDictionary()

    def of(self, tenant: str) -> TenantQuota:
        """Return the quota of a tenant."""
        quota = self._quotas.get(tenant)
        if quota is None:
            owner = f"{self._owner}-{next(self._numbers)}"
            quota = TenantQuota(tenant, owner, self._limits_of(tenant), self._store, self._hub)
            self._quotas[tenant] = quota
        return quota

    def renew(self) -> None:
        """Let the limits hold that tenants have now."""
        for tenant, quota in tuple(self._quotas.items()):
            quota.bind(self._limits_of(tenant))

    async def run(self) -> None:
        """Report now and then, until cancelled."""
        async with anyio.create_task_group() as tasks:

            def spawn(function: Callable[[], Coroutine[Any, Any, None]]) -> None:
                tasks.start_soon(function)

            self._hub.spawn = spawn
            try:
                while True:
                    await anyio.sleep(_PACE)
                    self.refresh()
            finally:
                self._hub.spawn = _over

    def refresh(self) -> None:
        """Let the store know of all that is held here, and forget those who hold nothing."""
        self._hub.busy = {quota for quota in self._hub.busy if quota.busy}
        for quota in tuple(self._hub.busy):
            quota.refresh()

    async def aclose(self) -> None:
        """Give back what was held here, within a second."""
        with suppress(TimeoutError), anyio.fail_after(_LAST):
            for quota in tuple(self._hub.busy):
                await quota.flush()


def _over(_function: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Ask nothing more: the gateway has ended, and with it all that waits."""
