"""SHELL: carries started creates of one connection through the upstream to their one terminal."""

from __future__ import annotations

import logging
import time
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from lanes.attempt import Attempt, StartGate, Successor, mint, note, unsteerable
from lanes.codec import encode
from lanes.errors import ClientFault, Fault, UpstreamFault
from lanes.events import Stamp
from lanes.frames import Create
from lanes.history.entries import input_items
from lanes.history.lineage import check_outputs
from lanes.stores.base import ChainTooLong
from lanes.stream.profile import Profile
from lanes.stream.run import Run
from lanes.stream.run_states import STREAMING, RunState
from steering.ledger import Target
from steering.successor import body, prepend

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from lanes.history.archive import KeyArchive
    from lanes.history.entries import Entry
    from lanes.history.lineage import Lineage, Node
    from lanes.ports import Event, Outbox, Stream, Upstream
    from steering.desk import Desk
    from steering.ledger import Submission

log = logging.getLogger("multilane.worker")

#: A run in one of these is a valid parent; a failed one never is (protocol.md 3).
_KEPT = frozenset({RunState.COMPLETED, RunState.INCOMPLETE, RunState.STEERED})


class Worker:
    """Runs the creates of one connection, each in the task that calls `carry`.

    `headers` are the client's, as far as the upstream may see them. `continues` tells whether on
    this lane a create waits that names this parent.
    """

    def __init__(
        self,
        upstream: Upstream,
        lineage: Lineage,
        shelf: KeyArchive,
        outbox: Outbox,
        desk: Desk,
        continues: Callable[[str | None, str], bool],
        headers: Mapping[str, str],
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._upstream = upstream
        self._lineage = lineage
        self._outbox = outbox
        self._shelf = shelf
        self._desk = desk
        self._continues = continues
        self._headers = headers
        self._clock = clock
        self._carried: set[Attempt] = set()
        self._before = StartGate()

    async def carry(self, create: Create, successor: Successor | None = None) -> Successor | None:
        """Bring one create to its terminal event, or to one `error` event (protocol.md 4).

        `successor` is what it is of; None for a client's own create. Returns what follows it by
        itself, in the same slot. Whatever breaks here is this lane's trouble alone; only
        cancellation gets out.
        """
        carried, bound = None, successor.bound if successor is not None else []
        follows = None
        try:
            with self._before.waiting():
                if successor is None:
                    bound = await self._desk.take(create.parent_id, create.stream_id)
                parent = await self._parent(create)
            carried = self._start(create, bound, parent)
            carried.after = successor.after if successor is not None else None
            await self._run(carried)
            follows = await self._follow(carried)
        except Fault as fault:
            self._refuse(create, bound, fault)
        except Exception:
            log.exception("a run broke by our own fault")
            self._break(create, bound, carried)
        finally:
            if successor is not None:
                successor.forget()
            if carried is not None:
                self._leave(carried, follows)
        return follows

    def _leave(self, carried: Attempt, follows: Successor | None) -> None:
        carried.run.abandon()
        self._carried.discard(carried)
        if follows is None and carried.steering is not None:
            carried.steering.give_up()
        note(carried)

    def forgo(self, successor: Successor, why: str) -> None:
        """A successor will not be carried: its steers go back."""
        successor.forget()
        self._desk.fail(successor.bound, why)

    def stop(self, fault: UpstreamFault) -> None:
        """End every running response now: `response.failed` if it had begun, else an error."""
        self._before.stop(fault)
        for carried in tuple(self._carried):
            carried.run.fail(fault)
            carried.scope.cancel()

    async def _parent(self, create: Create) -> Node | None:
        """What the create builds on. It starts now, so this is looked up now."""
        parent_id = create.parent_id
        if parent_id is not None and self._lineage.find(parent_id) is None:
            stored = await self._shelf.find(parent_id)
            if stored is not None:
                return stored
        return self._lineage.resolve(parent_id)

    def _start(self, create: Create, bound: list[Submission], parent: Node | None) -> Attempt:
        entries = self._entries(create, bound, parent)
        stamp = Stamp(create.stream_id)
        run = Run(
            mint("resp"),
            create.body,
            Profile(),
            partial(self._outbox.put, stamp),
            mint=mint,
            clock=self._clock,
        )
        carried = Attempt(create, run, stamp, parent, entries, bound)
        run.began = partial(self._begin, carried)
        self._carried.add(carried)
        return carried

    def _entries(
        self, create: Create, bound: list[Submission], parent: Node | None
    ) -> tuple[Entry, ...]:
        items = prepend(bound, input_items(create.body.get("input")))
        conversation = create.body.get("conversation") is not None
        try:
            entries = check_outputs(items, parent, self._lineage, conversation=conversation)
        except ClientFault:
            self._lineage.evict_failed(create.stream_id, create.parent_id)
            raise
        length = len(entries) + (parent.length if parent is not None else 0)
        if parent is not None and length > self._shelf.max_chain:
            raise ChainTooLong(parent.id, length, self._shelf.max_chain)
        return entries

    def _begin(self, carried: Attempt) -> None:
        """Its `response.created` was sent: from now on it can be steered, and its steers stand."""
        carried.begun = True
        create, run = carried.create, carried.run
        self._desk.open(
            Target(
                run.id,
                create.stream_id,
                partial(self._send, carried.stamp),
                partial(self._cut, carried),
                partial(self._continues, create.stream_id, run.id),
                unsteerable(create, run.profile),
            )
        )
        self._desk.commit(carried.bound, run.id)

    def _send(self, stamp: Stamp, event: dict[str, Any]) -> None:
        self._outbox.put(stamp, encode(event)[:-1])

    def _cut(self, carried: Attempt, submission: Submission) -> None:
        """Stop for a steer: the backend finds the boundary if it steers, else the run does."""
        steering = carried.steering
        if carried.run.over or steering is None:
            self._stop(carried)
            return
        carried.run.cut(here=False)
        steering.steer(submission.id, submission.messages, partial(self._stop, carried))

    def _stop(self, carried: Attempt) -> None:
        carried.run.cut()
        if carried.run.state is RunState.STEERED and carried.stream is not None:
            self._settle(carried)
            carried.stream.close()

    async def _follow(self, carried: Attempt) -> Successor | None:
        """The run is over: what its steers make of it."""
        create, run = carried.create, carried.run
        if run.state not in _KEPT:
            if carried.begun:
                self._desk.fail_target(run.id)
            return None
        bound = await self._desk.end(
            run.id,
            completed=run.state is RunState.COMPLETED,
            required=run.required_input(),
        )
        if not bound:
            return None
        following = Create(create.stream_id, body(create.body, run.id), follows=True)
        return Successor(following, bound, carried.steering)

    async def _run(self, carried: Attempt) -> None:
        run = carried.run
        if carried.create.generate:
            with carried.scope:
                try:
                    await self._relay(carried)
                except Fault as fault:
                    run.fail(fault)
        else:
            run.complete_empty()
        self._settle(carried)

    async def _relay(self, carried: Attempt) -> None:
        stream = carried.stream = await self._stream(carried)
        run = carried.run
        run.trust(stream.profile)

        def sink(events: list[Event]) -> None:
            receive = run.receive
            for name, data in events:
                receive(name, data)
            if run.over:
                # Before the terminal event leaves, so that whoever reads it can build on it.
                self._settle(carried)
                if run.stopped:
                    stream.close()
                else:
                    stream.release()

        self._outbox.attach(stream)
        try:
            await stream.relay(sink)
        finally:
            self._outbox.detach(stream)
        run.end()

    async def _stream(self, carried: Attempt) -> Stream:
        """The answer on its way: asked for, unless the backend follows with just these steers."""
        if carried.after is not None:
            steers = [submission.id for submission in carried.bound]
            stream = await carried.after.follow(steers)
            if stream is not None:
                return stream
        before = self._lineage.effective(carried.parent)
        items = [*before, *(entry.data for entry in carried.entries)]
        return await self._upstream.open(carried.create.body, items, self._headers)

    def _settle(self, carried: Attempt) -> None:
        """The run is over: keep it as a parent, or forget the parent it failed on. Idempotent."""
        create, run = carried.create, carried.run
        if carried.settled:
            return
        carried.settled = True
        if run.state in _KEPT:
            output = tuple(run.entries())
            self._lineage.keep(run.id, create.stream_id, carried.parent, carried.entries, output)
            if create.body.get("store") is not False:
                self._shelf.put(run.id, create.parent_id, run.final, carried.entries, output)
        elif run.fault is not None:
            if not create.follows:  # the client never asked for it, and may go on from there
                self._lineage.evict_failed(create.stream_id, create.parent_id)
            self._refuse(create, carried.bound, run.fault)

    def _break(self, create: Create, bound: list[Submission], carried: Attempt | None) -> None:
        fault = UpstreamFault(
            "The gateway failed on this request.",
            code="server_error",
            status=500,
            type="server_error",
        )
        if carried is not None and carried.run.state in STREAMING:
            with suppress(Exception):  # what broke may break again; then `give_up` has to do
                carried.run.fail(fault)
        if carried is not None and carried.run.give_up(fault):
            self._desk.fail_target(carried.run.id)
            self._desk.fail(bound, fault.message)
        else:
            self._refuse(create, bound, fault)

    def _refuse(self, create: Create, bound: list[Submission], fault: Fault) -> None:
        """The create ends before anything of it was sent: an error, and its steers go back.

        A successor is nobody's request, so there is nobody to tell but those who steered.
        """
        self._desk.fail(bound, fault.message)
        if not create.follows:
            self._outbox.error(fault, create.stream_id)
