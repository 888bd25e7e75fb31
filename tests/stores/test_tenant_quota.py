"""One tenant in one process: who waits for the store, who leaves meanwhile, and what it hears."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import anyio
import anyio.lowlevel
import pytest

from gateway.limits.limits import Limits
from gateway.limits.store import MemoryLimitStore, Report, Verdict
from gateway.limits.tenants import TenantLimits
from lanes.errors import ClientFault, Fault, UpstreamFault
from steering.errors import StoreUnavailable
from tests.support.hang_guard import HANG

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from gateway.limits.tenant import HeldSlot, TenantQuota


class GatedStore(MemoryLimitStore):
    """A store that keeps its reports, and answers each once the test lets it."""

    shared = True

    def __init__(self) -> None:
        super().__init__(lambda: 0.0)
        self.reports: list[Report] = []
        self.gates: list[asyncio.Future[None]] = []
        self.open = True

    async def report(self, tenant: str, owner: str, limits: Limits, report: Report) -> Verdict:
        self.reports.append(report)
        if not self.open:
            gate = asyncio.get_running_loop().create_future()
            self.gates.append(gate)
            await gate
        return await super().report(tenant, owner, limits, report)

    async def asked(self, number: int) -> Report:
        """The report of this number has come."""
        with anyio.fail_after(HANG):
            while len(self.reports) <= number:
                await anyio.lowlevel.checkpoint()
        return self.reports[number]


class Place:
    """The quota of a tenant with these limits, and who asks for slots."""

    def __init__(self, limits: Limits, *, lets_in: bool = True) -> None:
        self.limits = limits
        self.store = GatedStore()
        self.tenants = TenantLimits(self.store, "p", lambda _: self.limits, lets_in=lets_in)
        self.quota: TenantQuota = self.tenants.of("tenant-t")
        self.slots: list[HeldSlot] = []
        self.faults: list[Fault] = []

    async def enter(self) -> None:
        try:
            self.slots.append(await self.quota.enter())
        except Fault as fault:
            self.faults.append(fault)

    async def told(self, **expected: int) -> None:
        """The store has heard of this."""
        with anyio.fail_after(HANG):
            while any(getattr(self.store.reports[-1], k) != v for k, v in expected.items()):  # noqa: ASYNC110
                await anyio.sleep(0.001)


@asynccontextmanager
async def place(limits: Limits, *, lets_in: bool = True) -> AsyncIterator[Place]:
    made = Place(limits, lets_in=lets_in)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(made.tenants.run)
        await anyio.lowlevel.checkpoint()
        yield made
        tasks.cancel_scope.cancel()


async def test_one_question_for_one_create() -> None:
    async with place(Limits(creates=9)) as at:
        for number in range(4):
            await at.enter()
            assert len(at.store.reports) == number + 1
            assert at.store.reports[-1].wanted_creates == 1
        assert at.store.reports[-1].running == 3
        assert at.store.reports[-1].creates == at.store.reports[-1].known_creates == 3


async def test_those_that_wait_at_the_same_time_are_one_question() -> None:
    async with place(Limits(creates=5)) as at:
        at.store.open = False
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(at.enter)
            await at.store.asked(0)
            for _ in range(7):
                tasks.start_soon(at.enter)
            await anyio.wait_all_tasks_blocked()
            at.store.gates[0].set_result(None)
            assert (await at.store.asked(1)).wanted_creates == 7
            at.store.gates[1].set_result(None)
        assert (len(at.slots), len(at.faults)) == (5, 3)
        assert {fault.code for fault in at.faults} == {"rate_limit_exceeded"}
        assert len(at.store.reports) == 2


@pytest.mark.parametrize("answered", [False, True])
async def test_who_leaves_while_it_waits_takes_nothing(answered: bool) -> None:
    """Whether it leaves before the answer, or in the moment of it."""
    async with place(Limits(running=1, creates=9)) as at:
        at.store.open = False
        task = asyncio.create_task(at.enter())
        await at.store.asked(0)
        at.store.open = True
        if answered:
            at.store.gates[0].set_result(None)
            await anyio.lowlevel.checkpoint()
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled()
        if not answered:
            at.store.gates[0].set_result(None)
        assert at.slots == []
        await at.told(running=0, wanted_creates=0)
        await at.enter()
        assert at.faults == []
        assert at.store.reports[-1].running == 0


async def test_what_is_given_back_is_told_soon_and_once() -> None:
    async with place(Limits(running=9)) as at:
        for _ in range(4):
            await at.enter()
        for slot in at.slots:
            slot.leave()
            slot.leave()
        await at.told(running=0)
        assert len(at.store.reports) == 5
        assert not at.quota.busy


async def test_a_limit_is_found_by_others_of_the_tenant_and_forgotten_with_the_last() -> None:
    async with place(Limits(running=1)) as at:
        await at.enter()
        again = at.tenants.of("tenant-t")
        assert again is at.quota
        assert at.tenants.of("tenant-u") is not again
        at.limits = Limits(running=5)
        at.tenants.renew()
        await at.enter()
        assert at.faults == []
        for slot in at.slots:
            slot.leave()
        await at.told(running=0)
        at.tenants.refresh()
        at.slots.clear()
        owner = again._owner
        del again, slot
        del at.quota
        assert at.tenants.of("tenant-t")._owner != owner


@pytest.mark.parametrize("lets_in", [True, False])
async def test_a_store_that_does_not_answer(lets_in: bool) -> None:
    """Also for those that came while it was asked; and it is left alone for a moment."""
    async with place(Limits(creates=2), lets_in=lets_in) as at:
        at.store.open = False
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(at.enter)
            await at.store.asked(0)
            tasks.start_soon(at.enter)
            await anyio.wait_all_tasks_blocked()
            at.store.gates[0].set_exception(StoreUnavailable("away"))
        await at.enter()
        assert len(at.store.reports) == 1
        assert (len(at.slots), len(at.faults)) == ((3, 0) if lets_in else (0, 3))
        for fault in at.faults:
            assert isinstance(fault, UpstreamFault)
            assert (fault.code, fault.status) == ("store_unavailable", 503)
        at.tenants._hub._away_until = 0.0
        at.store.open = True
        await at.enter()
        if lets_in:  # what was let in counts once the store is there
            assert at.store.reports[-1].creates == 3
            assert isinstance(at.faults[0], ClientFault)
        else:
            assert (len(at.slots), at.store.reports[-1].creates) == (1, 0)


async def test_our_own_fault_does_not_let_anybody_hang(caplog: pytest.LogCaptureFixture) -> None:
    async with place(Limits(creates=2), lets_in=False) as at:
        at.store.open = False
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(at.enter)
            await at.store.asked(0)
            at.store.gates[0].set_exception(ZeroDivisionError())
        assert [fault.status for fault in at.faults] == [503]
        assert "limits broke by our own fault" in caplog.text
        at.tenants._hub._away_until = 0.0
        at.store.open = True
        await at.enter()
        assert len(at.slots) == 1


async def test_the_last_report_gives_all_back() -> None:
    async with place(Limits(running=2, connections=2)) as at:
        await at.enter()
        connection = await at.quota.connect()
        connection.leave()
        at.slots[0].end(None, goes_on=True)
        await at.told(connections=0, running=1)
        at.slots[0].leave()
        await at.tenants.aclose()
        assert (at.store.reports[-1].running, at.store.reports[-1].connections) == (0, 0)


async def test_what_is_given_back_after_the_end_is_told_to_nobody() -> None:
    async with place(Limits(running=2)) as at:
        await at.enter()
    at.slots[0].leave()
    with anyio.fail_after(HANG):
        while at.quota._timer is not None:  # noqa: ASYNC110 - there is no event for it
            await anyio.sleep(0.001)
    assert len(at.store.reports) == 1


async def test_nothing_is_told_of_who_has_no_limits() -> None:
    """Unless it gets some: then all that it holds counts."""
    async with place(Limits()) as at:
        held, left = await at.quota.connect(), await at.quota.connect()
        left.leave()
        assert (at.quota.limited, at.quota.busy, at.quota._timer) == (False, False, None)
        at.tenants.refresh()
        await anyio.wait_all_tasks_blocked()
        assert at.store.reports == []
        at.limits = Limits(connections=1)
        at.tenants.renew()
        with pytest.raises(ClientFault, match="may have 1 open at a time"):
            await at.quota.connect()
        held.leave()
        await at.quota.connect()
        at.limits = Limits()
        at.tenants.renew()
        assert not at.quota.busy
