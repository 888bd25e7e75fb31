"""What the worker holds of a create while it carries it, and what a create waits for before."""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import anyio

from lanes.compaction.compactor import ManagedRequest
from lanes.conversations.turn import ConversationNode
from lanes.stores.background import ResponseInput
from lanes.stream.run_states import STREAMING

if TYPE_CHECKING:
    from collections.abc import Callable

    from lanes.compaction.compactor import Compactor
    from lanes.conversations.turn import ConversationTurn
    from lanes.errors import Fault
    from lanes.events import Stamp
    from lanes.frames import Create
    from lanes.history.entries import Entry
    from lanes.history.lineage import Node
    from lanes.ports import BackendSteering, Stream
    from lanes.stream.profile import Profile
    from lanes.stream.run import Run
    from steering.targets import Submission


@dataclass(slots=True, eq=False)
class Attempt:
    """A create on its way to the upstream and back.

    Attributes:
        create: The create.
        run: The response it becomes.
        stamp: The numbering of that response's events.
        parent: The response it continues.
        entries: Its own input.
        bound: The steers in that input.
        after: The steering of the backend that may have sent its stream already.
        scope: Ends its waiting for the upstream.
        stream: The upstream's answer, once there is one.
        steering: How the backend of that answer takes steers, if it does.
        turn: Its part in a conversation, if it is bound to one of the gateway's.
        managed: Whether its history has to be looked after before the upstream is asked.
        held: Whether its end waits for that conversation.
        begun: When `response.created` was sent, so that its steers are committed; 0 before.
        recorded: Whether its end reached the lineage.
        cancelled: Whether the client wants no successor of it.
        node: What the lineage keeps of it, if it ended as a valid parent.
        since: When it started, in seconds of the monotonic clock.
    """

    create: Create
    run: Run
    stamp: Stamp
    parent: Node | None
    entries: tuple[Entry, ...]
    bound: list[Submission]
    after: BackendSteering | None = None
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    stream: Stream | None = None
    steering: BackendSteering | None = None
    turn: ConversationTurn | None = None
    managed: bool = False
    held: bool = False
    begun: float = 0.0
    recorded: bool = False
    cancelled: bool = False
    node: Node | None = None
    since: float = field(default_factory=time.monotonic)

    @property
    def made_from(self) -> ResponseInput:
        """What the response is made from."""
        parent, last = self.parent, None
        if isinstance(parent, ConversationNode):
            last = next(iter(tuple(parent.items)[-1:]), None)
        return ResponseInput(None if parent is None else parent.id, last, self.entries)

    def hang_up(self) -> None:
        """End the request to the upstream, or the waiting for its answer."""
        if self.stream is not None:
            self.stream.close()
        else:
            self.scope.cancel()

    def enter(self) -> None:
        """Take part in the conversation, and begin at once in the background.

        The end is held until the conversation has it. Raises ClientFault if it has no room.
        """
        if isinstance(self.parent, ConversationNode):
            self.turn = self.parent.begin(self.run, self.entries)
            self.held = self.turn is not None
        if self.create.body.get("background"):
            self.run.queue()

    def request(self, items: list[bytes]) -> ManagedRequest:
        """Return what it asks of the compactor, with its whole input."""
        create = self.create
        steers = sum(len(submission.messages) for submission in self.bound)
        own = len(self.entries) - steers
        body = (self.turn or create).body
        return ManagedRequest(body, items, own, create.compacts, self.parent, self.run)

    async def warm_up(self, compactor: Compactor, items: Callable[[], list[bytes]]) -> None:
        """End as a warm-up does: without an answer. `items` returns the whole input."""
        if self.managed:
            await compactor.check(self.request(items()))
        self.run.complete_empty()

    async def followed(self) -> Stream | None:
        """Return the backend's own successor, if there is one that carries just these steers."""
        if self.after is None:
            return None
        return await self.after.follow([submission.id for submission in self.bound])

    async def append_turn(self, turn: ConversationTurn) -> None:
        """Add the turn to its conversation and let go of the end; held for good if it cannot be."""
        entries = await turn.append(self.run, self.entries)
        if entries is not None:
            self.entries, self.held = entries, False

    def end_broken(self, fault: Fault) -> bool:
        """End the run after our own code broke on it.

        Returns False if nothing was sent that needs an end, and an `error` event will do.
        """
        if self.run.state in STREAMING:
            with suppress(Exception):  # what broke may break again; then `give_up` has to do
                self.run.fail(fault)
        begun = self.run.give_up(fault)
        if self.turn is not None:
            self.turn.release()
        return begun


def unsteerable(create: Create, profile: Profile) -> str | None:
    """Return why a response takes no steers; None if it does (protocol.md 5)."""
    if not profile.steerable:
        return "Responses of this backend cannot be steered."
    if create.body.get("conversation") is not None:
        return "A response that is bound to a conversation cannot be steered."
    agents = create.body.get("multi_agent")
    if isinstance(agents, dict) and agents.get("enabled") is True:
        return "A response of several agents cannot be steered."
    if create.compacts:
        return "A response that compacts its history cannot be steered."
    management = create.body.get("context_management")
    if isinstance(management, list) and any(
        isinstance(entry, dict) and entry.get("type") == "compaction" for entry in management
    ):
        return "A response with automatic compaction cannot be steered."
    return None
