"""SHELL: one tenant in this process: what it holds, and who waits for the store's decision.

The store is asked by one task at a time, for all that wait then, so a create waits for one round
trip, and for the one under way. What is given back is told with the next question, or soon.
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from gateway.limits.refusals import cannot_tell, no_connection, no_create
from gateway.limits.spent import tokens_of
from gateway.limits.store import Report
from lanes.errors import Fault
from steering.errors import StoreUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from gateway.limits.limits import Limits
    from gateway.limits.store import LimitStore, Verdict
    from lanes.attempt import Attempt

    #: Starts a task that outlives whoever starts it.
    Spawn = Callable[[Callable[[], Coroutine[Any, Any, None]]], None]

log = logging.getLogger("multilane.limits")

#: Seconds for which a store that did not answer is not asked.
_AWAY: Final = 1.0
#: Seconds until the other processes hear what was given back.
_SOON: Final = 0.1


class HeldSlot:
    """A place among the responses or the connections of a tenant."""

    __slots__ = ("_held", "_name", "_quota")

    def __init__(self, quota: TenantQuota, name: str) -> None:
        self._quota = quota
        self._name = name
        self._held = True
        quota.hold(name, 1)

    def end(self, attempt: Attempt | None, *, goes_on: bool) -> None:
        """Count what a response took, and make room (see `Slot.end`)."""
        if attempt is not None:
            self._quota.count(int(attempt.create.follows), tokens_of(attempt))
        if not goes_on:
            self.leave()

    def leave(self) -> None:
        """Make room for another. Idempotent."""
        if self._held:
            self._held = False
            self._quota.hold(self._name, -1)


#: Whoever waits, and for what; the answer is a slot or why there is none.
_Waiter = asyncio.Future[HeldSlot | Fault]


class TenantQuota:
    """A Quota of all connections and requests of one tenant.

    Args:
        tenant: What its records are kept under.
        owner: Names this object among all of all processes.
        limits: Its limits.
        store: Counts for all processes.
        hub: What it shares with the other tenants of this process.
    """

    def __init__(
        self, tenant: str, owner: str, limits: Limits, store: LimitStore, hub: TenantHub
    ) -> None:
        self._tenant = tenant
        self._owner = owner
        self._store = store
        self._hub = hub
        self.bind(limits)
        self._held = {"connections": 0, "running": 0}
        self._creates = self._tokens = self._known_creates = self._known_tokens = 0
        self._waiting: dict[str, list[_Waiter]] = {"connections": [], "running": []}
        self._asking = self._untold = False
        self._timer: asyncio.TimerHandle | None = None

    def bind(self, limits: Limits) -> None:
        """Let these limits hold from now on."""
        self._limits = limits
        self.limited = limits.of_creates
        self._bounded = self.limited or limits.connections is not None

    @property
    def busy(self) -> bool:
        """Whether the store has to be told of anything: what is held, or has changed."""
        told = any(self._held.values()) or self._untold or self._asking
        return self._bounded and told

    async def connect(self) -> HeldSlot:
        """Return the slot of a WebSocket (see `enter`)."""
        if self._limits.connections is None:
            return HeldSlot(self, "connections")
        return await self._ask("connections")

    async def enter(self) -> HeldSlot:
        """Return the slot of a create (see `Quota.enter`)."""
        return await self._ask("running")

    def hold(self, name: str, change: int) -> None:
        """Count what this process holds."""
        self._held[name] += change
        if change < 0:
            self._tell_soon()

    def count(self, creates: int, tokens: int) -> None:
        """Count what the minutes are about: creates that nobody was asked about, and tokens."""
        self._creates += creates
        self._tokens += tokens
        if creates or tokens:
            self._tell_soon()

    def refresh(self) -> None:
        """Tell the store how it is here, although nothing has changed."""
        self._untold = True
        self.tell()

    def tell(self) -> None:
        """Tell the store what it does not know, and ask it for all that wait."""
        self._timer = None
        if not self._asking:
            self._asking = True
            self._hub.spawn(self._talk)

    async def flush(self) -> None:
        """Tell the store now what it does not know yet, in the task of whoever waits for it."""
        if self._untold and not self._asking:
            self._asking = True
            await self._talk()

    def _tell_soon(self) -> None:
        if not self._bounded:
            return  # no store is asked about whoever has no limits
        self._untold = True
        self._hub.busy.add(self)
        if self._store.shared and self._timer is None and not self._asking:
            self._timer = asyncio.get_running_loop().call_later(_SOON, self.tell)

    async def _ask(self, name: str) -> HeldSlot:
        if self._hub.away:
            return self._without_store(name)
        waiter: _Waiter = asyncio.get_running_loop().create_future()
        self._waiting[name].append(waiter)
        self._hub.busy.add(self)
        self.tell()
        try:
            answer = await waiter
        except asyncio.CancelledError:
            held = waiter.result() if waiter.done() and not waiter.cancelled() else None
            if isinstance(held, HeldSlot):
                held.leave()
            raise
        if isinstance(answer, Fault):
            raise answer
        return answer

    async def _talk(self) -> None:
        try:
            told = True
            while told and (self._untold or any(self._waiting.values())):
                told = await self._report()
            self._untold = self._untold or not told
        finally:
            self._asking = False

    async def _report(self) -> bool:
        """Ask the store once, for all that wait; return whether it answered."""
        waiting, self._waiting = self._waiting, {"connections": [], "running": []}
        waiting = {name: [one for one in some if not one.done()] for name, some in waiting.items()}
        report, self._untold = self._as_is(waiting), False
        try:
            verdict = await self._store.report(self._tenant, self._owner, self._limits, report)
        except Exception as error:
            if not isinstance(error, StoreUnavailable):
                log.exception("limits broke by our own fault")
            self._give_up(waiting)
            return False
        self._known_creates = report.creates + verdict.creates
        self._known_tokens = report.tokens
        self._grant(waiting, verdict)
        return True

    def _give_up(self, waiting: dict[str, list[_Waiter]]) -> None:
        """Answer all that wait without the store."""
        self._hub.note_away()
        late, self._waiting = self._waiting, {"connections": [], "running": []}
        for name, some in waiting.items():
            self._answer([*some, *late[name]], partial(self._without_store, name))

    def _as_is(self, waiting: dict[str, list[_Waiter]]) -> Report:
        return Report(
            **self._held,
            creates=self._creates,
            tokens=self._tokens,
            known_creates=self._known_creates,
            known_tokens=self._known_tokens,
            wanted_connections=len(waiting["connections"]),
            wanted_creates=len(waiting["running"]),
        )

    def _grant(self, waiting: dict[str, list[_Waiter]], verdict: Verdict) -> None:
        for name, some, granted in (
            ("connections", waiting["connections"], verdict.connections),
            ("running", waiting["running"], verdict.creates),
        ):
            self._answer(some[:granted], partial(self._admit, name))
            self._answer(some[granted:], partial(self._refusal, name, verdict))

    def _answer(self, some: list[_Waiter], answer: Callable[[], HeldSlot | Fault]) -> None:
        for waiter in some:
            if waiter.done():  # it has left, and what it was given is free again
                self._untold = True
                continue
            try:
                waiter.set_result(answer())
            except Fault as fault:
                waiter.set_result(fault.bare())

    def _admit(self, name: str) -> HeldSlot:
        if name == "running":
            self._creates += 1
        return HeldSlot(self, name)

    def _refusal(self, name: str, verdict: Verdict) -> Fault:
        if name == "connections":
            return no_connection(self._tenant, self._limits)
        return no_create(self._tenant, self._limits, verdict.standing)

    def _without_store(self, name: str) -> HeldSlot:
        if not self._hub.lets_in:
            raise cannot_tell()
        return self._admit(name)


class TenantHub:
    """What the tenants of a process share.

    Args:
        lets_in: Whether creates are let in while the store is away.
    """

    def __init__(self, *, lets_in: bool) -> None:
        self.lets_in = lets_in
        #: Those that hold something, or have something to tell.
        self.busy: set[TenantQuota] = set()
        self.spawn: Spawn = _no_tasks
        self._away_until = 0.0

    @property
    def away(self) -> bool:
        """Whether the store did not answer a moment ago."""
        return asyncio.get_running_loop().time() < self._away_until

    def note_away(self) -> None:
        """Ask the store nothing for a moment: it did not answer."""
        self._away_until = asyncio.get_running_loop().time() + _AWAY


def _no_tasks(_function: Callable[[], Coroutine[Any, Any, None]]) -> None:
    raise AssertionError("the gateway does not run")
