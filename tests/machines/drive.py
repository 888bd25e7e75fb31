"""Drives a run with a backend's events and reads what it sends as a client would."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING, Any

from lanes.codec import encode
from lanes.events import Stamp
from lanes.stream.profile import Profile
from lanes.stream.run import Run
from tests.support.judge import judge

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from lanes.ports import Event as Received
    from lanes.stream.room import Room

Event = dict[str, Any]

PLAIN = Profile()
REQUEST: dict[str, Any] = {"model": "m", "input": "hi", "store": False}
NOW = 1_800_000_000


def _refuse(name: str) -> None:
    raise AssertionError(f"{name} is not JSON")


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    assert len(made) == len(pairs), f"a key is there twice: {pairs}"
    return made


def counting() -> Callable[[str], str]:
    """A `mint` of ids that are easy to read."""
    numbers = count(1)
    return lambda prefix: f"{prefix}_{next(numbers):032x}"


@dataclass
class Played:
    """A run and what it sent."""

    run: Run
    events: list[Event] = field(default_factory=list)

    def types(self) -> list[str]:
        """The types of all events, without `response.`."""
        return [event["type"].removeprefix("response.") for event in self.events]

    def of(self, kind: str) -> list[Event]:
        """The events of one type, named without `response.`."""
        return [event for event in self.events if event["type"] == f"response.{kind}"]

    def texts(self, kind: str) -> str:
        """The joined deltas of one kind."""
        return "".join(event["delta"] for event in self.of(f"{kind}.delta"))

    @property
    def terminal(self) -> dict[str, Any]:
        """The last snapshot, from a stream that the judge has accepted."""
        (snapshot,) = judge(self.events).values()
        made: dict[str, Any] = snapshot
        return made

    @property
    def output(self) -> list[dict[str, Any]]:
        made: list[dict[str, Any]] = self.terminal["output"]
        return made


def start(
    request: dict[str, Any] = REQUEST,
    profile: Profile = PLAIN,
    lane: str | None = None,
    room: Room | None = None,
) -> tuple[Run, list[Event]]:
    """A run, and the list of all that it sends."""
    sent: list[Event] = []
    stamp = Stamp(lane)

    def emit(*pieces: bytes) -> None:
        event = b"%b%b%d}" % (b"".join(pieces), stamp.tail, stamp.number)
        stamp.number += 1
        sent.append(json.loads(event, parse_constant=_refuse, object_pairs_hook=_once))

    mint = counting()
    run = Run(mint("resp"), request, profile, emit, mint=mint, clock=lambda: NOW + 0.5, room=room)
    return run, sent


def feed(
    received: Iterable[Received], request: dict[str, Any] = REQUEST, profile: Profile = PLAIN
) -> Played:
    """Play a whole body, read already, to its end."""
    run, sent = start(request, profile)
    for name, data in received:
        run.receive(name, data)
    run.end()
    return Played(run, sent)


def play(
    events: Iterable[Event], request: dict[str, Any] = REQUEST, profile: Profile = PLAIN
) -> Played:
    """Play these events and the end of the body."""
    return feed(((None, encode(event)) for event in events), request, profile)
