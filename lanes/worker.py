"""SHELL: carries started creates of one connection through the upstream to their one terminal."""

from __future__ import annotations

import logging
import secrets
import time
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

import anyio

from lanes.entries import input_items
from lanes.errors import ClientFault, Fault, UpstreamFault
from lanes.events import Stamp
from lanes.lineage import check_outputs
from lanes.run import Run, State

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from lanes.entries import Entry
    from lanes.frames import Create
    from lanes.lineage import Lineage, Node
    from lanes.ports import Event, Outbox, Upstream

log = logging.getLogger("multilane.worker")

#: A run in one of these is a valid parent; a failed one never is (protocol.md 3).
_KEPT = frozenset({State.COMPLETED, State.INCOMPLETE})


def mint(prefix: str) -> str:
    """A new id: the prefix and 128 random bits in hex."""
    return f"{prefix}_{secrets.token_hex(16)}"


@dataclass(slots=True, eq=False)
class _Carried:
    """A create on its way: its run, and the scope that ends its waiting for the upstream."""

    create: Create
    run: Run
    parent: Node | None
    entries: tuple[Entry, ...]
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    settled: bool = False


class Worker:
    """Runs the creates of one connection, each in the task that calls `carry`.

    `headers` are the client's, as far as the upstream may see them.
    """

    def __init__(
        self,
        upstream: Upstream,
        lineage: Lineage,
        outbox: Outbox,
        headers: Mapping[str, str],
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._upstream = upstream
        self._lineage = lineage
        self._outbox = outbox
        self._headers = headers
        self._clock = clock
        self._carried: set[_Carried] = set()

    async def carry(self, create: Create) -> None:
        """Bring one create to its terminal event, or to one `error` event (protocol.md 4).

        Whatever breaks here is this lane's trouble alone; only cancellation gets out.
        """
        carried = None
        try:
            carried = self._start(create)
            await self._run(carried)
        except Fault as fault:
            self._refuse(create, fault)
        except Exception:
            log.exception("a run broke by our own fault")
            self._break(create, carried)
        finally:
            if carried is not None:
                carried.run.abandon()
                self._carried.discard(carried)

    def stop(self, fault: UpstreamFault) -> None:
        """End every running response now: `response.failed` if it had begun, else an error."""
        for carried in tuple(self._carried):
            carried.run.fail(fault)
            carried.scope.cancel()

    def _start(self, create: Create) -> _Carried:
        """Resolve what the create builds on. It starts now, so the parent is looked up now."""
        parent = self._lineage.resolve(create.parent_id)
        items = input_items(create.body.get("input"))
        try:
            bound = create.body.get("conversation") is not None
            entries = check_outputs(items, parent, self._lineage, conversation=bound)
        except ClientFault:
            self._lineage.evict_failed(create.stream_id, create.parent_id)
            raise
        run = Run(
            mint("resp"),
            create.body,
            self._upstream.profile,
            partial(self._outbox.put, Stamp(create.stream_id)),
            mint=mint,
            clock=self._clock,
        )
        carried = _Carried(create, run, parent, entries)
        self._carried.add(carried)
        return carried

    async def _run(self, carried: _Carried) -> None:
        run = carried.run
        if carried.create.generate:
            with carried.scope:
                try:
                    await self._relay(carried)
                except UpstreamFault as fault:
                    run.fail(fault)
        else:
            run.complete_empty()
        self._settle(carried)

    async def _relay(self, carried: _Carried) -> None:
        before = self._lineage.effective(carried.parent)
        items = [*before, *(entry.data for entry in carried.entries)]
        stream = await self._upstream.open(carried.create.body, items, self._headers)
        run = carried.run

        def sink(events: list[Event]) -> None:
            receive = run.receive
            for name, data in events:
                receive(name, data)
            if run.over:
                # Before the terminal event leaves, so that whoever reads it can build on it.
                self._settle(carried)
                stream.release()

        self._outbox.attach(stream)
        try:
            await stream.relay(sink)
        finally:
            self._outbox.detach(stream)
        run.end()

    def _settle(self, carried: _Carried) -> None:
        """The run is over: keep it as a parent, or forget the parent it failed on. Idempotent."""
        create, run = carried.create, carried.run
        if carried.settled:
            return
        carried.settled = True
        if run.state in _KEPT:
            self._lineage.keep(
                run.id, create.stream_id, carried.parent, carried.entries, run.entries()
            )
        elif run.fault is not None:
            self._lineage.evict_failed(create.stream_id, create.parent_id)
            self._refuse(create, run.fault)

    def _break(self, create: Create, carried: _Carried | None) -> None:
        fault = UpstreamFault(
            "The gateway failed on this request.",
            code="server_error",
            status=500,
            type="server_error",
        )
        if carried is not None and carried.run.state is State.STREAMING:
            with suppress(Exception):  # what broke may break again; then `give_up` has to do
                carried.run.fail(fault)
        if carried is None or not carried.run.give_up(fault):
            self._refuse(create, fault)

    def _refuse(self, create: Create, fault: Fault) -> None:
        self._outbox.error(fault, create.stream_id)
