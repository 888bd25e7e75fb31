"""Whatever is asked, the store in memory and the one in an engine answer alike."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    initialize,
    rule,
    run_state_machine_as_test,
)

from steering.states import SubmissionState
from steering.stores.base import Verdict
from tests.support.redis_engine import Engine
from tests.support.steer_stores import RedisPlace, StorePlace, record, response

if TYPE_CHECKING:
    from pathlib import Path

    from steering.stores.base import SteerRecord

KEYS = st.sampled_from(["key", "other"])
OWNERS = st.sampled_from(["me", "they"])
MAYBE = st.sampled_from([None, "a", "b"])


class Both(RuleBasedStateMachine):
    """Two owners, one of whom may leave; each call goes to both stores."""

    engine: Engine
    runner: asyncio.Runner
    targets: Bundle[str] = Bundle("targets")
    records: Bundle[SteerRecord] = Bundle("records")

    @initialize()
    def begin(self) -> None:
        self.memory, self.redis = StorePlace(), RedisPlace(self.engine)
        self.redis.clock = self.memory.clock
        self.living = {"me", "they"}
        self.stores: dict[str, list[Any]] = {}
        for owner in self.living:
            places = (self.memory, self.redis)
            self.stores[owner] = [self.runner.run(place.store(owner)) for place in places]

    def teardown(self) -> None:
        if hasattr(self, "redis"):
            self.runner.run(self.redis.__aexit__())

    def both(self, name: str, *args: Any, owner: str = "me", **more: Any) -> Any:
        first, second = (
            self.runner.run(getattr(store, name)(*args, **more)) for store in self.stores[owner]
        )
        assert first == second
        return first

    @rule(target=targets)
    def respond(self) -> str:
        return response()

    @rule(target=records, of=targets, owner=OWNERS, key=KEYS, reason=MAYBE, data=st.data())
    def draw(self, of: str, owner: str, key: str, reason: str | None, data: Any) -> SteerRecord:
        state = data.draw(st.sampled_from(SubmissionState))
        at = data.draw(st.floats(0, 2e9))
        value = data.draw(st.binary(max_size=20))
        return record(of, at, owner=owner, key_id=key, state=state, reason=reason, input=value)

    @rule(written=records)
    def append(self, written: SteerRecord) -> None:
        if written.owner in self.living:
            self.both("append", written, owner=written.owner)

    @rule(
        of=targets,
        some=st.lists(records, max_size=4),
        state=st.sampled_from(SubmissionState),
        reason=MAYBE,
        successor=MAYBE,
    )
    def settle(self, of: str, some: list[SteerRecord], state: SubmissionState, **more: Any) -> None:
        self.memory.clock.now += 1
        of = some[0].target if some else of
        self.both("settle", Verdict(of, [r.id for r in some], state, **more))

    @rule(of=targets, key=KEYS)
    def ask(self, of: str, key: str) -> None:
        self.both("of_response", key, of)

    @rule(written=records, key=KEYS)
    def ask_one(self, written: SteerRecord, key: str) -> None:
        self.both("get", key, written.id)

    @rule()
    def leave(self) -> None:
        if "they" in self.living:
            self.living.remove("they")
            for place in (self.memory, self.redis):
                self.runner.run(place.leave("they"))


def test_they_agree(short: Path) -> None:
    engine = Engine("valkey", short)
    with asyncio.Runner() as runner:  # a loop of its own, as hypothesis calls synchronously
        runner.run(engine.start())
        machine = type("Machine", (Both,), {"engine": engine, "runner": runner})
        bounds = settings(max_examples=60, stateful_step_count=30)
        try:
            run_state_machine_as_test(machine, settings=bounds)
        finally:
            engine.kill()
