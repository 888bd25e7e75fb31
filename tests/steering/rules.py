"""A connection under random play: board, run, ledger and desk together (protocol.md 5)."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from lanes.errors import UpstreamFault
from tests.machines import plays
from tests.steering.actions import ACTIONS, ENDS, ITEMS, LANES
from tests.steering.plays import PLAYS
from tests.steering.stage import Stage
from tests.steering.truth import Told, Truth, stillborn
from tests.steering.watch import watched

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.steering.plays import Action, Play


class Rules(RuleBasedStateMachine):
    """Every event is judged, and held against what was sent and asked (see Truth)."""

    def __init__(self) -> None:
        super().__init__()
        self.stage: Stage | None = None
        self.count = 0

    @initialize(
        text=st.booleans(),
        lanes=st.lists(st.sampled_from(LANES), min_size=1, max_size=3),
        items=st.lists(st.sampled_from((None, "called", *ITEMS)), min_size=2, max_size=2),
    )
    def begin(self, text: bool, lanes: list[str | None], items: list[str | None]) -> None:
        """Begin in the middle of it, which is where it gets interesting."""
        self.stage = self.stand(text=text)
        self.truth = Truth(self.stage)
        for lane in lanes:
            self.create(lane, None)
            self.turn(None)
            self.answer(0, "ok")
            self.turn(None)
        for body, item in zip(list(self.stage.backend.live), items, strict=False):
            called = (partial(body.item, "call"), body.done, partial(body.end, "completed"))
            opened = () if item is None else (partial(body.item, item),)
            for step in called if item == "called" else opened:
                self.stage.loop.call_soon(step)
            self.turn(None)

    def stand(self, *, text: bool) -> Stage:
        """The connection and its backend."""
        return Stage(cuts_text=text)

    def wind_up(self) -> None:
        """Whatever else the backend has to answer."""

    @rule(
        actions=st.lists(st.sampled_from(ACTIONS), min_size=1, max_size=6),
        turns=st.sampled_from((3, 5, None)),
        ends=st.sampled_from(ENDS),
    )
    def play(self, actions: list[Action], turns: int | None, ends: str | None) -> None:
        """Some things happen at once, others a moment later; one rule, so that all can."""
        if self.stage is None or self.stage.socket.ended is not None:
            return
        for kind, pick, how in actions:
            self.act(kind, pick, how)
            self.turn(turns)
        self.turn(None)
        self.truth.check()
        if ends == "drain" and not self.truth.drained:
            self.truth.drained = True
            self.stage.drain(3600)
            self.turn(None)
        elif ends == "stop":
            self.stop()
        elif ends == "leave":
            self.leave()

    def act(self, kind: str, pick: int, how: Any) -> None:
        assert self.stage is not None
        store = self.stage.store
        does: dict[str, Callable[[], None]] = {
            "create": lambda: self.create(how, None),
            "fork": lambda: self.create(how, self._ended(pick)),
            "follow": lambda: self.follow(pick, own_lane=how == 0),
            "steer": lambda: self.steer(pick, how),
            "late": lambda: self.steer(pick, how, late=True),
            "again": lambda: self.again(pick, how),
            "cancel": lambda: self.cancel(pick, how),
            "store": lambda: store.answer(pick, how),
            "store trouble": lambda: store.trouble.append(how),
            "answer": lambda: self.answer(pick, how),
        }
        does.get(kind, lambda: self.upstream(kind, pick, how))()

    def create(self, lane: str | None, parent: str | None) -> None:
        """A client's own create."""
        assert self.stage is not None
        self.count += 1
        text = f"own-{self.count}"
        frame = {"type": "response.create", "model": "m", "store": False, "input": text}
        where: dict[str, Any] = {} if lane is None else {"stream_id": lane}
        metadata = {} if lane is None else {"lane": lane}
        self.truth.asked.setdefault(lane, []).append((text, parent))
        if parent is not None:
            frame["previous_response_id"] = parent
        self.truth.unread = text
        self.stage.send({**frame, **where, "metadata": metadata})

    def follow(self, pick: int, *, own_lane: bool) -> None:
        """A create that names what waits for the client, or what runs still on its lane."""
        names = [*self.truth.owing, *(self.truth.running if own_lane else ())]
        if names:
            name = names[-1 - pick % len(names)]
            lane = self.truth.lanes[name] if own_lane else LANES[pick]
            self.create(lane, name)

    def steer(self, pick: int, how: str, *, late: bool = False) -> None:
        """One that runs, one that waits, or any; or one that was steered before."""
        assert self.stage is not None
        some = (self.truth.running, list(self.truth.owing), list(self.truth.lanes))
        names = next((names for names in some[pick:] if names), ())
        names = self.truth.steered if late else names
        if not names:
            return
        self.count += 1
        text, target = f"s-{self.count}", names[-1 - pick % len(names)]
        parts = [{"role": "user", "content": [{"type": "input_text", "text": text}]}]
        value: Any = parts if how == "parts" else text
        told = Told(text, target, value, f"e-{text}" if how == "keyed" else None)
        self.truth.sent.append(told)
        self.send(told)
        self.turn(3)
        told.in_time = target in self.truth.running and not self.truth.drained

    def send(self, told: Told) -> None:
        assert self.stage is not None
        keyed = {} if told.event_id is None else {"event_id": told.event_id}
        named = {"previous_response_id": told.target, "input": told.value}
        self.stage.send({"type": "response.steer", **named, **keyed})

    def again(self, pick: int, how: str) -> None:
        """A steer is sent again, as it was or with another input."""
        keyed = [told for told in self.truth.sent if told.event_id is not None]
        if not keyed:
            return
        told = keyed[-1 - pick % len(keyed)]
        if how == "other":
            self.count += 1
            text = f"s-{self.count}"
            told = Told(text, told.target, text, told.event_id)
            self.truth.sent.append(told)
        else:
            told.again += 1
        self.send(told)

    def cancel(self, pick: int, how: str) -> None:
        """A response that runs, any, all on a lane, or what runs alone."""
        assert self.stage is not None
        some = self.truth.running if how == "running" else list(self.truth.lanes)
        names: dict[str, str] = {}
        lane = LANES[pick]
        if how == "lane" and lane is not None:
            names = {"stream_id": lane}
            self.truth.cancels.add(lane)
        elif how == "only":
            self.truth.cancels |= set(LANES)
        elif some:
            names = {"response_id": some[-1 - pick % len(some)]}
        else:
            return
        self.stage.send({"type": "response.cancel", **names})

    def answer(self, pick: int, how: str) -> None:
        """The backend takes a request or not."""
        assert self.stage is not None
        waiting = [body for body in self.stage.backend.bodies if not body.answered.done()]
        if not waiting:
            return
        body = waiting[pick % len(waiting)]
        if how == "refuse":
            body.answered.set_exception(UpstreamFault("no", code="c", status=400))
        else:
            body.answered.set_result(None)
            self.stage.loop.call_soon(body.begin)

    def upstream(self, kind: str, pick: int, how: str) -> None:
        """The backend goes on with one of its answers."""
        assert self.stage is not None
        bodies = [body for body in self.stage.backend.live if body.began]
        if not bodies:
            return
        body, soon = bodies[pick % len(bodies)], self.stage.loop.call_soon
        self.count += 1
        if kind == "end":
            soon(body.end, how)
        elif body.open is None:
            soon(body.item, how or "message")
        elif kind == "close item" or body.open == "hosted":
            soon(body.done)
        else:
            soon(body.delta, f"t-{self.count} ")

    def turn(self, turns: int | None) -> None:
        assert self.stage is not None
        events = self.stage.turn(turns or 500)
        self.truth.stillborn = stillborn(events)
        for event in events:
            self.truth.hear(event)
        self.truth.unread = None

    def stop(self) -> None:
        """The gateway stops, and no time is left for what runs."""
        assert self.stage is not None
        self.truth.drained = True
        self.stage.drain(0)
        self.turn(None)
        assert not self.truth.running
        assert not any(self.truth.asked.values()), "a create that only the store can answer"
        while any(not how.done() for _, how in self.stage.store.asked):
            self.stage.store.answer(0, "ok")
            self.turn(None)
        self.truth.settle(left=False)
        assert self.stage.socket.ended == 1012
        self.leave()

    def leave(self) -> None:
        """The client leaves in the middle of it all."""
        assert self.stage is not None
        self.stage.leave()
        self.stage.turn()
        self.truth.settle(left=True)
        self.stage.socket.ended = 1000

    def teardown(self) -> None:
        """Let all that runs end well; then every steer has its verdict, and the books tell it."""
        if self.stage is None:
            return
        try:
            if self.stage.socket.ended is None:
                self.finish()
                self.truth.settle(left=False)
                self.leave()
        finally:
            self.stage.clear()

    def finish(self) -> None:
        assert self.stage is not None
        store = self.stage.store
        for _ in range(60):
            for pick in range(4):
                store.answer(pick, "ok")
                self.turn(None)
                self.answer(pick, "ok")
                self.turn(None)
            self.wind_up()
            if not self.stage.backend.live and all(asked.done() for _, asked in store.asked):
                break
            for body in self.stage.backend.live:
                if body.open is not None and body.live:
                    self.stage.loop.call_soon(body.done)
                    self.turn(None)
                if body.live:
                    self.stage.loop.call_soon(body.end, "completed")
            self.turn(None)
        assert not self.truth.running

    def _ended(self, pick: int) -> str | None:
        ended = [name for name in self.truth.lines if name not in self.truth.running]
        return ended[-1 - pick % len(ended)] if ended else None


def replay(told: Play, rules: type[Rules] = Rules) -> None:
    """One play that is written down."""
    state = rules()
    try:
        state.begin(text=told.text, lanes=told.lanes, items=told.items)
        for act in told.acts:
            state.play(actions=act.actions, turns=act.turns, ends=act.ends)
    finally:
        state.teardown()


def play(
    max_examples: int = 100,
    *,
    shrink: bool = False,
    rules: type[Rules] = Rules,
    chosen: int = 0,
) -> None:
    """All plays that are written down, then some at random."""
    with watched():
        for told in PLAYS.values():
            replay(told, rules)
        plays.play(rules, max_examples, steps=12, shrink=shrink, chosen=chosen)
