"""What a supervisor asks: whether the process is alive, and whether to send it work."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from starlette.responses import JSONResponse
from starlette.routing import Route

from gateway.client.peers import show_key
from gateway.client.refusal import UpgradeRefused, error
from gateway.keys.client_secrets import SecretKey
from gateway.persistence.store_condition import StoreState

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.requests import Request

    from gateway.client.admission import Admission
    from gateway.persistence.stores import Stores
    from gateway.upstream.routing.router import Router


@dataclass(frozen=True, slots=True)
class Check:
    """One condition of readiness: whether it holds, and what there is to say."""

    passed: bool
    text: str


class Probes:
    """Answers for the process; details are for those with a key.

    Args:
        admission: Checks the keys.
        stores: What outlives a socket.
        upstreams: The backends.
        draining: Tells whether the gateway ends.
        counts: Returns what is open and runs.
    """

    def __init__(
        self,
        admission: Admission,
        stores: Stores,
        upstreams: Router,
        draining: Callable[[], bool],
        counts: Callable[[], dict[str, int]],
    ) -> None:
        self._admission = admission
        self._stores = stores
        self._upstreams = upstreams
        self._draining = draining
        self._counts = counts
        self.routes = [Route("/health", self._health), Route("/ready", self._ready)]

    async def _health(self, request: Request) -> JSONResponse:
        """Answer 200 as long as the process answers at all, while it drains as well."""
        body: dict[str, Any] = {"status": "draining" if self._draining() else "ok"}
        if await self._is_keyed(request):
            body |= self._counts() | self._stores.health()
        return JSONResponse(body)

    async def _ready(self, request: Request) -> JSONResponse:
        """Answer 503 while new work should go elsewhere; `exclude` names checks not to make."""
        excluded = request.query_params.getlist("exclude")
        checks = self._checks()
        if unknown := sorted(set(excluded) - checks.keys()):
            message = f"There is no check '{unknown[0][:80]}'; there are {', '.join(checks)}."
            return JSONResponse(error("invalid_value", message, 400, "exclude"), 400)
        ready = all(check.passed for name, check in checks.items() if name not in excluded)
        body: dict[str, Any] = {"status": "ready" if ready else "not_ready"}
        if await self._is_keyed(request):
            body["checks"] = {name: check.text for name, check in checks.items()}
        return JSONResponse(body, 200 if ready else 503)

    def _checks(self) -> dict[str, Check]:
        """Return what each check says; one that asks of upstreams has them asked again."""
        store = self._stores.condition
        unsettled = self._upstreams.readiness.unsettled()
        draining = self._draining()
        reasons = "; ".join(store.reasons)
        waits = f"it is not known how they speak: {', '.join(unsettled)}"
        return {
            "draining": Check(not draining, "yes" if draining else "no"),
            "store": Check(
                store.state is not StoreState.AWAY,
                f"{store.state}: {reasons}" if reasons else str(store.state),
            ),
            "upstreams": Check(
                len(unsettled) < len(self._upstreams.members), waits if unsettled else "ok"
            ),
        }

    async def _is_keyed(self, request: Request) -> bool:
        """Return whether a request may know the details."""
        try:
            admitted = await self._admission.admit(request.scope["headers"])
        except UpgradeRefused:
            return False
        show_key(request.scope)
        return not isinstance(admitted.key, SecretKey)  # pages need no details
