"""Follows what becomes of every steer of one connection, as its client sees it (protocol.md 5)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from tests.support.judge_item import Event, claim

if TYPE_CHECKING:
    from tests.support.judge_response import ResponseJudge

_ID = re.compile(r"steer_[0-9a-f]{32}")


class Fate(StrEnum):
    """What the client knows of a steer that has an id."""

    ACCEPTED = "accepted"
    PENDING = "pending"
    COMMITTED = "committed"
    FAILED = "failed"


_QUEUED = (Fate.ACCEPTED, Fate.PENDING)


@dataclass
class JudgedSteer:
    """One steer with an id; `successor` is the response it was committed to."""

    id: str
    target: str
    fate: Fate
    successor: str | None = None
    input: Any = None


def is_cancelled(event: Event) -> bool:
    """Whether a terminal event says that the client cancelled its response."""
    details = event.get("response", {}).get("incomplete_details")
    return isinstance(details, dict) and details.get("reason") == "cancelled"


class SteerJudge:
    """`steers` are those that got an id, in the order in which they were first told of."""

    def __init__(self) -> None:
        self.steers: dict[str, JudgedSteer] = {}
        self._cancelled: set[str] = set()

    def receive(self, event: Event, target: ResponseJudge | None) -> None:
        """One of the three steer events; `target` is the response it names, if it is known."""
        kind = event["type"].removeprefix("response.steer.")
        if "id" in event["steer"]:
            claim(bool(_ID.fullmatch(event["steer"]["id"])), "not a steer's id", event)
        claim(target is not None or kind == "failed", "a steer of no known response", event)
        {"accepted": self._accepted, "pending": self._pending, "failed": self._failed}[kind](event)
        if kind == "pending":
            assert target is not None
            claim(target.terminal is not None, "pending comes after the terminal event", event)
            claim(bool(event["required_input"]), "pending without anything to wait for", event)

    def created(self, event: Event) -> None:
        """A response begins: the queued steers of its parent on this lane are committed to it."""
        response = event["response"]
        for steer in self.queued(response["previous_response_id"]):
            claim(steer.target not in self._cancelled, "a steer of a cancelled response", event)
            steer.fate, steer.successor = Fate.COMMITTED, response["id"]

    def ended(self, event: Event) -> None:
        """A terminal event: nothing stops for a steer that nobody sent."""
        details = event["response"]["incomplete_details"]
        if details is not None and details.get("reason") == "steered":
            queued = self.queued(event["response"]["id"])
            claim(bool(queued), "steered, but no steer waits for it", event)
        if is_cancelled(event):
            self._cancelled.add(event["response"]["id"])

    def queued(self, target: str | None) -> list[JudgedSteer]:
        """The steers of one response that the gateway owns and that have no verdict."""
        return [s for s in self.steers.values() if s.target == target and s.fate in _QUEUED]

    def _accepted(self, event: Event) -> None:
        name = event["steer"]["id"]
        claim(name not in self.steers, "accepted twice", event)
        target = event["steer"]["previous_response_id"]
        claim(target not in self._cancelled, "accepted, though it was cancelled", event)
        self.steers[name] = JudgedSteer(name, target, Fate.ACCEPTED)

    def _pending(self, event: Event) -> None:
        steer = self.steers.get(event["steer"]["id"])
        claim(steer is not None and steer.fate is Fate.ACCEPTED, "pending, not accepted", event)
        assert steer is not None
        claim(steer.target not in self._cancelled, "pending, though it was cancelled", event)
        steer.fate = Fate.PENDING

    def _failed(self, event: Event) -> None:
        told = event["steer"]
        if "id" not in told:
            return
        target = told["previous_response_id"]
        steer = self.steers.setdefault(told["id"], JudgedSteer(told["id"], target, Fate.ACCEPTED))
        claim(steer.fate in _QUEUED, f"failed, but it was {steer.fate} before", event)
        claim(steer.target == target, "the steer of another response", event)
        steer.fate, steer.input = Fate.FAILED, told["input"]
