"""The responses that can be steered, and the submissions that wait for them (protocol.md 5)."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from steering.states import SubmissionState

if TYPE_CHECKING:
    from collections.abc import Callable

    from steering.errors import SteerFault


class TargetPhase(StrEnum):
    """The phases of a target; only the first three take steers."""

    ASKED = "asked"  # a successor that was asked for and has not begun; it has no id yet
    ACTIVE = "active"
    WAITING = "waiting"  # it needs tool outputs from the client
    COMPLETED = "completed"
    CLOSED = "closed"  # failed, incomplete, steered, or its successor was asked for


def nothing(_: Submission) -> None:
    """Stop nothing: the response is over."""


def never() -> bool:
    """Return that no create waits: the connection has ended, or nobody asks."""
    return False


@dataclass(slots=True, eq=False)
class Target:
    """One response that can be steered, or could once.

    Attributes:
        id: The response's id.
        lane: Its lane; only compared.
        send: Numbers an event as the response's own and sends it.
        cut: Asks the response to stop for a submission.
        answered: Tells whether the client's own create that continues it waits already.
        refusal: Why this kind of response takes no steers; None if it does.
        phase: Whether it takes steers now.
        required: Stubs of the outputs that it needs from the client.
        waiting: Its submissions without a verdict, in order.
        claimed: Whether the client's own create has started, and not taken them yet.
        next: The response that carries its submissions, from the moment it is asked for.
        before: What an asked one follows.
        keyed: The submissions that named it with an `event_id`, by that; none that was refused.
    """

    id: str
    lane: str | None
    send: Callable[[dict[str, Any]], None] = field(repr=False)
    cut: Callable[[Submission], None] = field(default=nothing, repr=False)
    answered: Callable[[], bool] = field(default=never, repr=False)
    refusal: str | None = None
    phase: TargetPhase = TargetPhase.ACTIVE
    required: list[dict[str, Any]] = field(default_factory=list)
    waiting: list[Submission] = field(default_factory=list)
    claimed: bool = False
    next: Target | None = field(default=None, repr=False)
    before: Target | None = field(default=None, repr=False)
    keyed: dict[str, Submission] = field(default_factory=dict, repr=False)


@dataclass(slots=True, eq=False)
class Submission:
    """One steer of a response.

    Attributes:
        id: Its id.
        named: The response that the client names.
        of: The response it waits for: that one, or the live end of its chain.
        input: Its input as the client sent it.
        messages: The same as typed user messages.
        size: Bytes of its frame.
        effective: The response it was taken for in place of the named one, once that has begun.
        state: Where it is on its way to a verdict.
        since: When it came, in seconds of the monotonic clock.
        event_id: Its client's own name for it.
        digest: What a resend of it must have, too.
        fault: Why it failed.
    """

    id: str
    named: Target = field(repr=False)
    of: Target = field(repr=False)
    input: Any = field(repr=False)
    messages: list[dict[str, Any]] = field(repr=False)
    size: int
    effective: Target | None = field(default=None, repr=False)
    state: SubmissionState = SubmissionState.ADMITTING
    since: float = 0.0
    event_id: str | None = None
    digest: bytes = b""
    fault: SteerFault | None = field(default=None, repr=False)

    @property
    def told(self) -> Target:
        """The response that events about it name, once it is accepted."""
        return self.effective or self.named
