"""A backend in memory that takes steers itself, and the plays of a connection in front of it."""

from __future__ import annotations

import asyncio
from functools import partial
from itertools import product
from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st
from hypothesis.stateful import rule

from tests.steering.actions import ACTIONS, ENDS
from tests.steering.backend import Backend, Body, texts_of
from tests.steering.rules import Rules
from tests.steering.stage import Stage
from tests.support.events import response

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tests.steering.plays import Action

NATIVE_ACTIONS: list[Action] = [
    *ACTIONS,
    *product(("native",) * 6, range(3), ("take", "take", "take", "refuse")),
    *product(("native",) * 8, range(3), ("stop", "follow", "follow", "lose")),
]


class NativeBody(Body):
    """An answer whose steers the backend takes or refuses; lanes.ports.Steering as well.

    It knows nothing but what it was asked, what it said and what it took: a successor of its own is
    made of these.
    """

    made_by: NativeBackend
    asked: list[tuple[str, str, Callable[[], None]]]
    taken: list[tuple[str, str]]
    outcome: asyncio.Future[NativeBody | None]
    wanted: bool
    refused: bool
    said: list[str]

    def prepare(self, backend: NativeBackend) -> NativeBody:
        self.made_by, self.steering = backend, self
        self.asked, self.taken, self.said = [], [], []
        self.wanted, self.refused, self.heard = True, False, False
        self.outcome = backend.loop.create_future()
        self.ended: str | None = None
        return self

    @property
    def ours(self) -> bool:
        """Whether it is the gateway that has to find the boundary."""
        return self.refused

    @property
    def open_to_steers(self) -> bool:
        return not self.outcome.done() and (self.live or self.ended is not None)

    # What the gateway does

    def steer(
        self, steer_id: str, messages: list[dict[str, Any]], refused: Callable[[], None]
    ) -> None:
        assert self.live, "steered, but it is over"
        self.asked.append((steer_id, "".join(texts_of(messages)), refused))

    async def follow(self, steers: Sequence[str]) -> NativeBody | None:
        if self.ended is None or not (self.asked or self.taken):
            self.give_up()
            return None
        try:
            successor = await asyncio.shield(self.outcome)
        except asyncio.CancelledError:
            self.give_up()
            raise
        if successor is not None and [name for name, _ in self.taken] == list(steers):
            self.wanted = False
            NativeRules.followed += 1
            return successor
        self.give_up()
        return None

    def give_up(self) -> None:
        if self.wanted:
            self.wanted = False
            successor = self.outcome.result() if self.outcome.done() else None
            if successor is not None:
                successor.release()
                self.made_by.bodies.remove(successor)
            elif not self.outcome.done():
                self.outcome.set_result(None)

    # What the play does

    def take(self) -> None:
        if self.asked and self.open_to_steers:
            name, text, _ = self.asked.pop(0)
            self.taken.append((name, text))

    def refuse(self) -> None:
        if self.asked and self.open_to_steers:
            _, _, refused = self.asked.pop(0)
            self.refused = self.refused or self.live
            refused()
            if self.ended is not None and not (self.asked or self.taken):
                self.lose()

    def stop(self) -> None:
        """Its own boundary."""
        if not (self.live and self.safe and self.taken):
            return
        if self.open == "message":
            self.said.append(self.text)
        self.ended = "steered"
        details = {"incomplete_details": {"reason": "steered"}, "output": []}
        self._say("response.incomplete", response=response("r1", "incomplete", **details))

    def done(self) -> None:
        if self.open == "message":
            self.said.append(self.text)
        super().done()

    def end(self, how: str) -> None:
        if how != "cut off" and self.live:
            if self.open == "message":
                self.said.append(self.text)
            self.ended = how
        super().end(how)
        if how in ("failed", "cut off") and not self.outcome.done():
            self.outcome.set_result(None)

    def succeed(self) -> None:
        """What follows it by itself, if anything does: it carries what was taken."""
        if self.ended is None or self.outcome.done():
            return
        if not self.taken or self.called or not self.wanted:
            if not self.asked or not self.wanted:
                self.outcome.set_result(None)
            return
        said = [text for text in self.said if text]
        texts = [*self.texts, *said, *(text for _, text in self.taken)]
        successor = self.made_by.make(self.lane, [], texts)
        successor.answered.set_result(None)
        self.made_by.bodies.append(successor)
        successor.begin()
        self.outcome.set_result(successor)

    def lose(self) -> None:
        """The connection to it is lost between its end and its successor."""
        if self.ended is not None and not self.outcome.done():
            self.outcome.set_result(None)


class NativeBackend(Backend):
    """Makes answers that can be steered."""

    def begun(self, lane: str | None) -> Body:
        """A successor that nobody asked for may be over, and the next one asked for, by then."""
        bodies = (body for body in self.bodies if isinstance(body, NativeBody))
        body = next(b for b in bodies if b.lane == lane and b.sink is not None and not b.heard)
        body.heard = True
        return body

    def make(self, lane: str | None, items: list[dict[str, Any]], texts: list[str]) -> NativeBody:
        futures = self.loop.create_future(), self.loop.create_future()
        return NativeBody(lane, items, *futures, texts, self.profile).prepare(self)


class NativeRules(Rules):
    """The same truth, whoever finds the boundary and whoever makes the successor."""

    #: How many successors of the backend's were taken.
    followed = 0

    @rule(
        actions=st.lists(st.sampled_from(NATIVE_ACTIONS), min_size=1, max_size=6),
        turns=st.sampled_from((3, 5, None)),
        ends=st.sampled_from(ENDS),
    )
    def play(self, actions: list[Action], turns: int | None, ends: str | None) -> None:
        super().play(actions, turns, ends)

    def stand(self, *, text: bool) -> Stage:
        return Stage(cuts_text=text, backend=NativeBackend)

    def act(self, kind: str, pick: int, how: Any) -> None:
        if kind != "native":
            super().act(kind, pick, how)
            return
        assert self.stage is not None
        does: dict[str, Callable[[NativeBody], None]] = {
            "take": NativeBody.take,
            "refuse": NativeBody.refuse,
            "stop": NativeBody.stop,
            "follow": NativeBody.succeed,
            "lose": NativeBody.lose,
        }
        bodies = self.native
        if bodies:
            body = bodies[-1 - pick % len(bodies)]
            self.stage.loop.call_soon(partial(does[how], body))

    @property
    def native(self) -> list[NativeBody]:
        """Answers of which the backend still has something to say about steers."""
        assert self.stage is not None
        found = (body for body in self.stage.backend.bodies if isinstance(body, NativeBody))
        return [body for body in found if body.open_to_steers and (body.asked or body.taken)]

    def wind_up(self) -> None:
        """Everything that was asked of the backend is answered, and what is due follows."""
        assert self.stage is not None
        for body in self.native:
            for does in (body.take, body.succeed):
                self.stage.loop.call_soon(does)
                self.turn(None)
