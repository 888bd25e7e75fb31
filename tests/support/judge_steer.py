"""Follows what becomes of every steer of one connection, as its client sees it (protocol.md 5)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from tests.support.judge_item import Event, claim

if TYPE_CHECKING:
    from collections.abc import Callable

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
    """One steer with an id.

    `target` is the response it was taken for, as far as the client knows; `successor` the one it
    was committed to. One that `waited` was accepted after the end of the response that it names:
    it is in what follows, or waits for that to begin, and events do not tell which (`maybe`).
    """

    id: str
    target: str
    fate: Fate
    waited: bool = False
    maybe: bool = False
    successor: str | None = None
    input: Any = None
    named: str | None = None


def is_cancelled(event: Event) -> bool:
    """Whether a terminal event says that the client cancelled its response."""
    details = event.get("response", {}).get("incomplete_details")
    return isinstance(details, dict) and details.get("reason") == "cancelled"


def _open(steer: JudgedSteer) -> bool:
    return steer.fate in _QUEUED


class SteerJudge:
    """`steers` are those that got an id, in the order in which they were first told of."""

    def __init__(self) -> None:
        self.steers: dict[str, JudgedSteer] = {}
        #: Whether steers may be sent again, and are answered again then.
        self.repeats = False
        #: Says what a steer was committed to, where somebody knows more than the events tell.
        self.successor_of: Callable[[str], str | None] | None = None
        self._cancelled: set[str] = set()
        self._parents: dict[str, str | None] = {}

    def receive(self, event: Event, target: ResponseJudge | None) -> None:
        """One of the three steer events; `target` is the response it names, if it is known."""
        kind = event["type"].removeprefix("response.steer.")
        if "id" in event["steer"]:
            claim(bool(_ID.fullmatch(event["steer"]["id"])), "not a steer's id", event)
        claim(target is not None or kind == "failed", "a steer of no known response", event)
        {"accepted": self._accepted, "pending": self._pending, "failed": self._failed}[kind](
            event, target
        )
        if kind == "pending":
            assert target is not None
            claim(target.terminal is not None, "pending comes after the terminal event", event)
            claim(bool(event["required_input"]), "pending without anything to wait for", event)

    def created(self, event: Event) -> None:
        """A response begins: the queued steers of its parent on this lane are committed to it."""
        response = event["response"]
        name, parent = response["id"], response["previous_response_id"]
        self._parents[name] = parent
        for steer in self._maybe(parent):
            steer.maybe = False
        for steer in [*self.queued(parent), *self._waiting(parent)]:
            claim(steer.target not in self._cancelled, "a steer of a cancelled response", event)
            if not steer.waited or self.successor_of is None:
                steer.fate, steer.successor, steer.maybe = Fate.COMMITTED, name, steer.waited
            elif self.successor_of(steer.id) == name:
                steer.fate, steer.successor = Fate.COMMITTED, name
            else:
                steer.target = name
            steer.waited = False

    def ended(self, event: Event) -> None:
        """A terminal event: nothing stops for a steer that nobody sent."""
        details = event["response"]["incomplete_details"]
        if details is not None and details.get("reason") == "steered":
            name = event["response"]["id"]
            queued = self.queued(name) or self._maybe(name)
            claim(bool(queued), "steered, but no steer waits for it", event)
        if is_cancelled(event):
            self._cancelled.add(event["response"]["id"])

    def queued(self, target: str | None) -> list[JudgedSteer]:
        """The steers of one response that the gateway owns and that have no verdict."""
        return [s for s in self.steers.values() if s.target == target and _open(s)]

    def _waiting(self, name: str | None) -> list[JudgedSteer]:
        """Those that wait for what follows this response, and name one that came before it."""
        before = set()
        while name is not None:
            name = self._parents.get(name)
            before.add(name)
        return [s for s in self.steers.values() if s.waited and s.target in before and _open(s)]

    def _maybe(self, name: str | None) -> list[JudgedSteer]:
        """Those that were committed to this response, or wait for it."""
        return [s for s in self.steers.values() if s.maybe and s.successor == name]

    def _settled(self, told: Event) -> JudgedSteer | None:
        """The steer that an event names; if that may have waited for this response, it has."""
        steer = self.steers.get(told["id"])
        if steer is not None and steer.maybe and steer.successor == told["previous_response_id"]:
            steer.target, steer.successor = told["previous_response_id"], None
            steer.fate, steer.maybe = Fate.ACCEPTED, False
        return steer

    def _accepted(self, event: Event, target: ResponseJudge | None) -> None:
        told = event["steer"]
        name, of = told["id"], told.get("effective_response_id", told["previous_response_id"])
        if self.repeats and name in self.steers:
            claim(self.steers[name].named == told["previous_response_id"], "another name", event)
            return
        claim(name not in self.steers, "accepted twice", event)
        claim(of not in self._cancelled, "accepted, though it was cancelled", event)
        assert target is not None
        known = "effective_response_id" in told
        waited = target.terminal is not None and not known
        claim(not known or of != target.id, "effective is another one", event)
        self.steers[name] = JudgedSteer(name, of, Fate.ACCEPTED, waited, named=target.id)

    def _pending(self, event: Event, _: ResponseJudge | None) -> None:
        steer = self._settled(event["steer"])
        fates = (Fate.ACCEPTED, Fate.PENDING) if self.repeats else (Fate.ACCEPTED,)
        claim(steer is not None and steer.fate in fates, "pending, not accepted", event)
        assert steer is not None
        of = event["steer"]["previous_response_id"]
        claim(steer.target == of, "pending for another response", event)
        claim(steer.target not in self._cancelled, "pending, though it was cancelled", event)
        steer.fate = Fate.PENDING

    def _failed(self, event: Event, _: ResponseJudge | None) -> None:
        told = event["steer"]
        if "id" not in told:
            return
        self._settled(told)
        target = told["previous_response_id"]
        steer = self.steers.setdefault(told["id"], JudgedSteer(told["id"], target, Fate.ACCEPTED))
        if self.repeats and steer.fate is Fate.FAILED:
            claim(steer.input == told["input"], "another input", event)
            return
        claim(steer.fate in _QUEUED, f"failed, but it was {steer.fate} before", event)
        claim(steer.target == target, "the steer of another response", event)
        steer.fate, steer.input = Fate.FAILED, told["input"]
