"""The contract of every store of limits: what counts, what wears off, and whose holdings end."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gateway.limits.limits import Limits
from gateway.limits.redis import RedisLimitStore
from gateway.limits.store import MemoryLimitStore, Report
from steering.errors import StoreUnavailable
from steering.redis.guard import RedisGuard
from tests.support.redis_engine import Engine

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from gateway.limits.store import LimitStore, Verdict

A_CREATE = Report(wanted_creates=1)


@pytest.fixture
async def store(engine: Engine | None) -> AsyncIterator[LimitStore]:
    if engine is None:
        yield MemoryLimitStore()
        return
    async with engine.client() as client:
        yield RedisLimitStore(client, prefix=uuid4().hex)


def granted(verdict: Verdict) -> tuple[int, int]:
    return verdict.connections, verdict.creates


ROWS = [
    (Limits(connections=2), Report(1, wanted_connections=3), (1, 0)),
    (Limits(connections=2), Report(2, wanted_connections=3, wanted_creates=2), (0, 2)),
    (Limits(connections=2), Report(3, wanted_connections=1), (0, 0)),
    (Limits(connections=0), Report(wanted_connections=1, wanted_creates=1), (0, 1)),
    (Limits(running=3), Report(running=1, wanted_creates=5), (0, 2)),
    (Limits(running=0), A_CREATE, (0, 0)),
    (Limits(creates=4), Report(creates=1, wanted_creates=9), (0, 3)),
    (Limits(creates=0), A_CREATE, (0, 0)),
    (Limits(tokens=10), Report(tokens=9, wanted_creates=7), (0, 7)),
    (Limits(tokens=10), Report(tokens=99, wanted_creates=7), (0, 0)),
    (Limits(tokens=0), A_CREATE, (0, 0)),
    (Limits(running=3, creates=2, tokens=10), Report(wanted_creates=5), (0, 2)),
    (Limits(), Report(9, 9, 9, 9, wanted_connections=5, wanted_creates=6), (5, 6)),
]


async def test_how_much_there_is_room_for(store: LimitStore) -> None:
    for number, (limits, report, expected) in enumerate(ROWS):
        verdict = await store.report(f"t{number}", "o", limits, report)
        assert granted(verdict) == expected, limits
        standing = verdict.standing
        assert standing.connections == report.connections + expected[0]
        assert standing.running == report.running + expected[1]
        if limits.creates:
            assert standing.creates == pytest.approx(report.creates + expected[1], abs=0.5)


async def test_a_report_that_comes_again_counts_once(store: LimitStore) -> None:
    limits = Limits(running=9, creates=3, tokens=100)
    for _ in range(3):
        verdict = await store.report("t", "o", limits, Report(wanted_creates=1))
        assert granted(verdict) == (0, 1)
    for _ in range(3):
        # It got in, unless the answer was lost with which it would know that it is counted.
        report = Report(running=1, creates=1, tokens=60, wanted_creates=1)
        verdict = await store.report("t", "o", limits, replace(report, known_creates=1))
        if store.shared:
            assert verdict.standing.creates == pytest.approx(2, abs=0.2)
            assert verdict.standing.tokens == pytest.approx(60, abs=5)


async def test_what_has_to_wait_for_the_other_tenant(store: LimitStore) -> None:
    limits = Limits(connections=1, running=1, creates=1, tokens=1)
    full = Report(tokens=5, wanted_connections=1, wanted_creates=1)
    await store.report("t", "o", limits, full)
    other = await store.report("u", "o", limits, replace(full, tokens=0))
    assert granted(other) == (1, 1)


GIVEN = st.tuples(
    st.integers(0, 4), st.integers(0, 4), st.integers(0, 3), st.integers(0, 3), st.integers(0, 3)
)
LIMITS = st.builds(
    Limits,
    st.none() | st.integers(0, 6),
    st.none() | st.integers(0, 6),
    st.none() | st.integers(0, 12),
    st.none() | st.sampled_from((0, 15, 105)),
)


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(LIMITS, st.lists(GIVEN, max_size=8))
async def test_memory_and_engine_decide_alike(
    valkey: Engine, limits: Limits, plays: list[tuple[int, int, int, int, int]]
) -> None:
    """Whatever a process holds, has counted and asks for. No report takes long enough to matter."""
    async with valkey.client() as client:
        stores = MemoryLimitStore(lambda: 0.0), RedisLimitStore(client, prefix=uuid4().hex)
        known = creates = tokens = known_tokens = 0
        for connections, running, tens, wanted_connections, wanted_creates in plays:
            tokens += 10 * tens
            report = Report(
                *(connections, running, creates, tokens, known, known_tokens),
                *(wanted_connections, wanted_creates),
            )
            one, two = [await store.report("t", "o", limits, report) for store in stores]
            assert granted(one) == granted(two)
            assert one.standing.connections == two.standing.connections
            assert one.standing.running == two.standing.running
            assert one.standing.creates == pytest.approx(two.standing.creates, abs=1)
            creates += one.creates
            known, known_tokens = creates, tokens


def test_a_minute_wears_off_a_limits_worth_of_creates_and_tokens() -> None:
    now = [0.0]
    store = MemoryLimitStore(lambda: now[0])

    def ask(report: Report) -> Verdict:
        answer = store.report("t", "o", Limits(creates=6, tokens=60), report)
        with pytest.raises(StopIteration) as done:
            answer.send(None)
        found: Verdict = done.value.value
        return found

    assert ask(Report(wanted_creates=9)).creates == 6
    now[0] = 9.9
    assert ask(Report(6, 0, 6, 0, 6)).standing.creates == pytest.approx(5.01)
    assert ask(Report(creates=6, known_creates=6, wanted_creates=1)).creates == 0
    now[0] = 10.1
    assert ask(Report(creates=6, known_creates=6, wanted_creates=2)).creates == 1
    spent = Report(creates=7, known_creates=7, tokens=180)
    assert ask(spent).standing.tokens == 180
    now[0] = 129
    told = replace(spent, known_tokens=180, wanted_creates=1)
    assert ask(told).creates == 0
    now[0] = 131
    assert ask(told).creates == 1


class Shared:
    """What several processes see of one tenant on an engine, whose clock the test moves."""

    def __init__(self, engine: Engine, client: object, ttl: float) -> None:
        self.prefix = uuid4().hex
        self.client = client
        self.store = RedisLimitStore(client, prefix=self.prefix, ttl=ttl)  # type: ignore[arg-type]

    async def ask(self, owner: str, limits: Limits, report: Report = A_CREATE) -> Verdict:
        return await self.store.report("t", owner, limits, report)

    async def passes(self, seconds: float) -> None:
        """As if the engine's clock went on by so much, or jumped back."""
        key = f"{self.prefix}:limits:t"
        client: object = self.client
        kept = await client.hgetall(key)  # type: ignore[attr-defined]
        for name, value in kept.items():
            *before, last = value.split()
            moved = b" ".join([*before, b"%d" % (int(last) - round(seconds * 1000))])
            await client.hset(key, name, moved)  # type: ignore[attr-defined]


@pytest.fixture
async def shared(valkey: Engine) -> AsyncIterator[Shared]:
    async with valkey.client() as client:
        yield Shared(valkey, client, 15)


async def test_processes_share_what_there_is(shared: Shared) -> None:
    limits = Limits(connections=3, running=3, creates=4, tokens=10)
    assert granted(await shared.ask("a", limits, Report(2, wanted_creates=2))) == (0, 2)
    verdict = await shared.ask("b", limits, Report(wanted_connections=9, wanted_creates=9))
    assert granted(verdict) == (1, 1)
    assert (verdict.standing.connections, verdict.standing.running) == (3, 3)
    assert verdict.standing.creates == pytest.approx(3, abs=0.2)
    back = Report(running=0, creates=2, known_creates=2, tokens=50)
    assert granted(await shared.ask("a", limits, back)) == (0, 0)
    held = Report(1, 1, 1, known_creates=1, wanted_connections=2, wanted_creates=1)
    assert granted(await shared.ask("b", limits, held)) == (2, 0)  # a spent the tokens of both


async def test_what_a_dead_process_held_is_free(shared: Shared) -> None:
    limits = Limits(connections=1, running=1)
    holds = Report(wanted_connections=1, wanted_creates=1)
    assert granted(await shared.ask("dead", limits, holds)) == (1, 1)
    await shared.passes(14)
    assert granted(await shared.ask("b", limits, holds)) == (0, 0)
    await shared.passes(1.5)
    assert granted(await shared.ask("b", limits, holds)) == (1, 1)
    assert sorted(await shared.client.hkeys(f"{shared.prefix}:limits:t")) == [b"b", b"used"]  # type: ignore[attr-defined]


async def test_who_was_taken_for_dead_comes_back_with_what_it_holds(shared: Shared) -> None:
    limits = Limits(running=1, creates=10)
    await shared.ask("a", limits)
    await shared.passes(16)
    assert (await shared.ask("b", limits)).creates == 1
    verdict = await shared.ask("a", limits, Report(0, 1, 1, known_creates=1))
    assert verdict.standing.running == 2
    assert verdict.standing.creates == pytest.approx(1, abs=0.3)  # a's wore off, and counts once


async def test_the_clock_of_the_engine_jumps_back(shared: Shared) -> None:
    limits = Limits(running=1, creates=2)
    assert (await shared.ask("a", limits)).creates == 1
    assert (await shared.ask("b", Limits(creates=2))).creates == 1
    await shared.passes(-3600)
    verdict = await shared.ask("b", limits, Report(running=1, creates=1, known_creates=1))
    assert verdict.standing.creates == pytest.approx(2, abs=0.1)  # nothing was added for the hour
    await shared.passes(14.9)
    own = Report(running=0, creates=1, known_creates=1, wanted_creates=1)
    assert (await shared.ask("b", limits, own)).creates == 0  # a may live
    await shared.passes(15.1)
    assert (await shared.ask("b", limits, own)).creates == 1  # and is dead, an hour early


async def test_the_clock_of_the_engine_jumps_on(shared: Shared) -> None:
    limits = Limits(creates=2)
    assert (await shared.ask("a", limits, Report(wanted_creates=5))).creates == 2
    await shared.passes(86_400)
    later = Report(creates=2, known_creates=2, wanted_creates=5)
    assert (await shared.ask("a", limits, later)).creates == 2  # a minute's worth, no more


async def test_an_engine_that_lost_its_data_counts_nothing_twice(shared: Shared) -> None:
    limits = Limits(creates=10, tokens=1000)
    await shared.ask("a", limits)
    await shared.client.delete(f"{shared.prefix}:limits:t")  # type: ignore[attr-defined]
    counted = Report(0, 1, 500, 90_000, known_creates=499, known_tokens=89_900)
    standing = (await shared.ask("a", limits, counted)).standing
    assert standing.creates == pytest.approx(1, abs=0.1)
    assert standing.tokens == pytest.approx(100, abs=5)


async def test_what_is_kept_is_forgotten_once_it_says_nothing_more(shared: Shared) -> None:
    key = f"{shared.prefix}:limits:t"
    await shared.ask("a", Limits(creates=2), Report(wanted_creates=2))
    life = await shared.client.pttl(key)  # type: ignore[attr-defined]
    assert 60_000 <= life <= 75_000
    await shared.ask("a", Limits(tokens=1), Report(tokens=10**9))
    life = await shared.client.pttl(key)  # type: ignore[attr-defined]
    assert life <= 87_000_000


async def test_a_store_that_is_away(short: object) -> None:
    engine = Engine("valkey", short)  # type: ignore[arg-type]
    await engine.start()
    async with engine.client() as client:
        guard = RedisGuard(client, deadline=0.2, pause=0)
        store = RedisLimitStore(client, guard=guard)
        engine.kill()
        with pytest.raises(StoreUnavailable):
            await store.report("t", "o", Limits(creates=1), A_CREATE)
