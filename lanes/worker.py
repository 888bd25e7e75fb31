"""SHELL: carries the creates of one connection through the upstream to their one terminal event."""

from __future__ import annotations

import asyncio
import logging
import time
from functools import partial
from typing import TYPE_CHECKING
from weakref import proxy

from lanes.attempt import Attempt, unsteerable
from lanes.compaction.compactor import Compactor
from lanes.conversations.turn import ConversationNode, bind, too_long
from lanes.errors import ClientFault, Fault
from lanes.events import Stamp, new_id
from lanes.frames import Create
from lanes.history.entries import input_items
from lanes.history.lineage import resolve_input
from lanes.starting import Successor
from lanes.stopping import Stopping
from lanes.stream.profile import Profile
from lanes.stream.room import Room
from lanes.stream.run import Run
from lanes.stream.run_states import KEPT, RunState
from steering.frames import inherited, steers_first
from steering.targets import Target

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from lanes.history.archive import KeyArchive
    from lanes.history.entries import Entry
    from lanes.history.lineage import Lineage, Node
    from lanes.observer import ResponseObserver
    from lanes.ports import Event, Outbox, Stream, Upstream
    from lanes.quota import Quota, Slot
    from lanes.stream.room import OutputBounds
    from steering.desk import Desk
    from steering.targets import Submission

log = logging.getLogger("multilane.worker")


class Worker(Stopping):
    """Carries the creates of one connection, each in the task that calls `carry`.

    Args:
        upstream: Answers the requests.
        lineage: The responses this connection can continue.
        archive: The stored responses of the client's key.
        outbox: The connection's writer.
        desk: The connection's steering.
        continues: Tells whether a create that names this parent waits on this lane.
        headers: The client's, as far as the upstream may see them.
        bounds: How much output its responses may have.
        quota: How much the client's tenant may do.
        observer: Hears how they end.
    """

    def __init__(
        self,
        upstream: Upstream,
        lineage: Lineage,
        archive: KeyArchive,
        outbox: Outbox,
        desk: Desk,
        continues: Callable[[str | None, str], bool],
        headers: Mapping[str, str],
        bounds: OutputBounds,
        *,
        quota: Quota,
        observer: ResponseObserver | None = None,
    ) -> None:
        super().__init__(desk, outbox, observer)
        self._upstream = upstream
        self._lineage = lineage
        self._archive = archive
        self._continues = continues
        self._headers = headers
        self._bounds = bounds
        self._compactor = Compactor(upstream, archive, headers)
        self._quota = quota

    async def carry(self, create: Create, successor: Successor | None = None) -> Successor | None:
        """Bring one create to its terminal event, or to one `error` event (protocol.md 4).

        `successor` is what the create belongs to, unless a client sent it. Returns the successor
        that takes over, if any. What breaks harms this lane; only cancellation gets out (D18).
        """
        attempt, bound, follows = None, successor.bound if successor is not None else [], None
        slot = successor.slot if successor is not None else None
        try:
            if self._gate.shut:
                self._gate.check(create)
            if successor is None and self._quota.limited:
                slot = await self._gate.enter(create, self._quota)
            if successor is None and self._desk.awaiting_outputs:
                with self._gate.waiting(create):
                    bound = await self._desk.take(create.parent_id, create.stream_id)
            parent = await self._parent(create) if successor is None else successor.parent
            attempt = await self._start(create, bound, parent)
            attempt.after = successor.after if successor is not None else None
            await self._run(attempt)
            follows = await self._follow(attempt, slot)
        except Fault as fault:
            self._refuse_start(create, bound, fault.bare())
        except Exception:
            log.exception("a run broke by our own fault")
            self._break(create, bound, attempt)
        finally:
            if successor is not None and successor.after is not None:
                successor.after.give_up()
            self._leave(attempt, follows, slot)
        return follows

    def _leave(self, attempt: Attempt | None, follows: Successor | None, slot: Slot | None) -> None:
        if slot is not None:
            slot.end(attempt, goes_on=follows is not None)
        if attempt is None:
            return
        if not attempt.run.over:
            attempt.run.abandon()
        self._bounds.left += attempt.run.room.taken
        self._attempts.discard(attempt)
        if follows is None and attempt.steering is not None:
            attempt.steering.give_up()
        asyncio.get_running_loop().call_soon(self._observer.end, attempt)  # a successor comes first

    async def _parent(self, create: Create) -> Node | None:
        """Return what the create continues. It starts now, so this is looked up now."""
        parent_id = create.parent_id
        if parent_id is None:
            if create.body.get("conversation") is None:
                return None
            with self._gate.waiting(create):
                return await bind(self._archive, create.body)
        node = self._lineage.find(parent_id)
        if node is None:
            with self._gate.waiting(create):
                node = await self._archive.find(parent_id)
        return node or self._lineage.resolve(parent_id)

    async def _start(self, create: Create, bound: list[Submission], parent: Node | None) -> Attempt:
        entries = self._entries(create, bound, parent)
        stamp, name, clock = Stamp(create.stream_id), new_id("resp"), time.time
        emit, room = partial(self._outbox.put, stamp), Room(self._bounds)
        run = Run(name, create.body, Profile(), emit, mint=new_id, clock=clock, room=room)
        attempt = Attempt(create, run, stamp, parent, entries, bound)
        run.began = partial(self._begin, attempt)
        attempt.managed = (
            create.compacts
            or create.body.get("truncation") == "auto"
            or bool(create.body.get("context_management"))
            or any(entry.compacts for entry in entries)
            or (parent is not None and parent.compacted)
        )
        if create.body.get("background"):
            # What is wrong with it is said before it is queued: then its client may leave.
            with self._gate.waiting(create):
                await self._upstream.check(create.body["model"], self._headers)
                if attempt.managed:
                    await self._compactor.check(attempt.request(self._items(attempt)))
        if create.body.get("background") or isinstance(parent, ConversationNode):
            attempt.enter()
        self._attempts.add(attempt)
        return attempt

    def _entries(
        self, create: Create, bound: list[Submission], parent: Node | None
    ) -> tuple[Entry, ...]:
        items = input_items(create.body.get("input"), self._archive.max_chain)
        items = steers_first(bound, items) if bound else items
        conversation = parent is None and create.body.get("conversation") is not None
        try:
            entries = resolve_input(items, parent, self._lineage, conversation=conversation)
        except ClientFault:
            self._lineage.evict_failed(create.stream_id, create.parent_id)
            raise
        if parent is not None and parent.length + len(entries) > self._archive.max_chain:
            raise too_long(parent, len(entries), self._archive.max_chain)
        return entries

    def _begin(self, attempt: Attempt) -> None:
        """Open the response for steers, and commit its own: `response.created` was sent."""
        attempt.begun, create, run = time.monotonic(), attempt.create, attempt.run
        target = Target(
            run.id,
            create.stream_id,
            partial(self._outbox.put_event, attempt.stamp),
            partial(Worker._cut, proxy(self), attempt),  # the desk is held by this worker
            partial(self._continues, create.stream_id, run.id),
            unsteerable(create, run.profile),
        )
        self._desk.open(target, attempt.bound)

    def _cut(self, attempt: Attempt, submission: Submission) -> None:
        """Stop for a steer: the backend finds the boundary if it steers, else the run does."""
        if attempt.cancelled:  # it begins only to end
            return
        if (steering := attempt.steering) is None or attempt.run.over:
            self._stop(attempt)
            return
        attempt.run.cut(here=False)
        steering.steer(submission.id, submission.messages, partial(self._stop, attempt))

    def _stop(self, attempt: Attempt) -> None:
        attempt.run.cut()
        if attempt.run.state is RunState.STEERED and attempt.stream is not None:
            self._record_end(attempt)
            attempt.stream.close()

    async def _follow(self, attempt: Attempt, slot: Slot | None) -> Successor | None:
        """Return the successor that the steers of an ended run make, if any."""
        create, run = attempt.create, attempt.run
        if run.state not in KEPT:
            if attempt.begun:
                self._desk.fail_target(run.id)
            return None
        bound = await self._desk.end(
            run.id,
            completed=run.state is RunState.COMPLETED,
            # A run that was steered at our own boundary is one that waits for nothing.
            required=[] if run.stopped and run.state is RunState.STEERED else run.required_input(),
        )
        if attempt.cancelled:
            self._desk.fail(bound, "its response was cancelled.")
        if attempt.cancelled or not bound:
            return None
        following = Create(create.stream_id, inherited(create.body, run.id), run.id, follows=True)
        return Successor(following, bound, attempt.node, attempt.steering, slot)

    async def _run(self, attempt: Attempt) -> None:
        with attempt.scope:
            try:
                if attempt.create.generate:
                    await self._relay(attempt)
                else:
                    await attempt.warm_up(self._compactor, partial(self._items, attempt))
            except Fault as fault:
                attempt.run.fail(fault.bare())
        if attempt.turn is not None:
            await attempt.append_turn(attempt.turn)
        self._record_end(attempt)

    async def _relay(self, attempt: Attempt) -> None:
        stream = attempt.stream = await self._stream(attempt)
        attempt.steering, run = stream.steering, attempt.run
        run.trust(stream.profile)

        def sink(events: list[Event]) -> None:
            receive = run.receive
            for name, data in events:
                receive(name, data)
            if run.over:
                # Before the terminal event leaves, so that whoever reads it can build on it.
                self._record_end(attempt)
                (stream.close if run.stopped else stream.release)()
                if run.profile.heard is not None and not run.stopped:
                    run.profile.heard(run.final)

        self._outbox.attach(stream)
        try:
            await stream.relay(sink)
        finally:
            self._outbox.detach(stream)
        if not run.over:
            run.end()

    async def _stream(self, attempt: Attempt) -> Stream:
        """Return the answer: the backend's own successor if it carries just these steers."""
        if attempt.after is not None and (stream := await attempt.followed()) is not None:
            return stream
        if attempt.managed:
            return await self._compactor.open(attempt.request(self._items(attempt)))
        body = (attempt.turn or attempt.create).body
        return await self._upstream.open(body, self._items(attempt), self._headers)

    def _items(self, attempt: Attempt) -> list[bytes]:
        """Return the whole effective input."""
        return self._lineage.effective(attempt.parent) + [one.data for one in attempt.entries]

    def _record_end(self, attempt: Attempt) -> None:
        """Keep the ended run as a parent, or forget the parent it failed on. Idempotent."""
        create, run = attempt.create, attempt.run
        if attempt.recorded or attempt.held:
            return
        attempt.recorded = True
        if run.state in KEPT:
            output = tuple(run.entries())
            place = run.id, create.stream_id, attempt.parent
            attempt.node = self._lineage.keep(*place, attempt.entries, output)
            attempt.node.tokens = None if create.compacts else run.snapshots.tokens
            if create.body.get("store") is not False:
                before = None if attempt.parent is None else attempt.parent.id
                self._archive.put(run.id, before, run.final, attempt.entries, output)
        elif run.fault is not None:
            if not create.follows:  # a successor is not the client's request (D19)
                self._lineage.evict_failed(create.stream_id, create.parent_id)
            self._refuse(create, attempt.bound, run.fault)
