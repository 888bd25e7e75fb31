"""What every store of submissions does, alike: in memory, in Valkey, in Redis."""

from __future__ import annotations

import secrets
from dataclasses import replace
from typing import TYPE_CHECKING

import anyio
import pytest

from steering.states import ENDS, TRANSITIONS, SubmissionState
from steering.stores.base import OWNER_GONE, Verdict
from tests.support.steer_stores import record, response

if TYPE_CHECKING:
    from tests.support.steer_stores import StorePlace

LIVING = sorted(set(SubmissionState) - ENDS)
ALIEN = (
    *("", "resp_", "steer_", "resp_1", "steer_x", f"resp_{'0' * 31}", f"resp_{'G' * 32}"),
    *(f"resp_{'0' * 32}\n", f"resp_{'0' * 33}", f"steer_{{{'0' * 30}", "rësp", "*", "a b", "\0"),
)


def reachable(state: SubmissionState) -> set[SubmissionState]:
    """Where the table leads to from a state, by any number of steps."""
    following = {after for (before, _), after in TRANSITIONS.items() if before is state}
    return following.union(*(reachable(after) for after in following))


async def test_what_was_written_is_read(place: StorePlace) -> None:
    store = await place.store()
    written = record(response(), key_id="ключ \0\n", reason="why", successor="resp_x")
    await store.append(written)
    assert await store.get(written.key_id, written.id) == written
    assert await store.of_response(written.key_id, written.target) == [written]


async def test_written_twice_is_there_once(place: StorePlace) -> None:
    store = await place.store()
    written = record(response())
    for _ in range(3):
        await store.append(written)
    await store.append(replace(written, input=b'"other"', key_id="other", created_at=1.0))
    assert await store.of_response("key", written.target) == [written]


async def test_they_come_in_order_of_submission(place: StorePlace) -> None:
    store = await place.store()
    target = response()
    records = [record(target, at) for at in (3.5, 1.25, 2.0, 2.0, 2.0)]
    for written in records:
        await store.append(written)
    assert await store.of_response("key", target) == [records[n] for n in (1, 2, 3, 4, 0)]


@pytest.mark.parametrize("state", SubmissionState)
@pytest.mark.parametrize("by", ["settle", "append"])
async def test_only_forward(place: StorePlace, state: SubmissionState, by: str) -> None:
    store = await place.store()
    for before in SubmissionState:
        written = record(response(), state=before)
        await store.append(written)
        place.clock.now += 1
        moved = replace(written, state=state, updated_at=place.clock.now, reason="r", successor="s")
        if by == "append":
            await store.append(moved)
        else:
            await store.settle(
                Verdict(written.target, [written.id], state, reason="r", successor="s")
            )
        expected = moved if state in reachable(before) else written
        assert await store.get("key", written.id) == expected


async def test_many_move_at_once_and_no_others(place: StorePlace) -> None:
    store = await place.store()
    target, foreign = response(), record(response())
    records = [record(target, at) for at in range(32)]
    for written in (*records, foreign):
        await store.append(written)
    alien = (foreign.id, record(target).id, record(response()).id, *ALIEN)
    ids = [r.id for r in records[::2]]
    await store.settle(Verdict(target, [*ids, *alien, *ids], SubmissionState.PENDING))
    states = [r.state for r in await store.of_response("key", target)]
    assert states == [SubmissionState.PENDING, SubmissionState.ACCEPTED] * 16
    assert await store.get("key", foreign.id) == foreign
    await store.settle(Verdict(target, [], SubmissionState.FAILED))
    await store.settle(Verdict(response(), [r.id for r in records], SubmissionState.FAILED))
    assert [r.state for r in await store.of_response("key", target)] == states


async def test_fields_that_are_not_given_stay(place: StorePlace) -> None:
    store = await place.store()
    written = record(response(), reason="why")
    await store.append(written)
    await store.settle(
        Verdict(written.target, [written.id], SubmissionState.BOUND, successor="resp_s")
    )
    await store.settle(Verdict(written.target, [written.id], SubmissionState.COMMITTED))
    stored = await store.get("key", written.id)
    assert stored is not None
    assert (stored.reason, stored.successor) == ("why", "resp_s")


async def test_another_key_sees_nothing(place: StorePlace) -> None:
    store = await place.store()
    written = record(response())
    await store.append(written)
    for key in ("", "other", "key ", "*"):
        assert await store.get(key, written.id) is None
        assert await store.of_response(key, written.target) == []


@pytest.mark.parametrize("alien", ALIEN)
async def test_an_id_that_is_not_ours_is_nobodys(place: StorePlace, alien: str) -> None:
    store = await place.store()
    assert await store.get("key", alien) is None
    assert await store.of_response("key", alien) == []
    await store.settle(Verdict(alien, [alien], SubmissionState.FAILED))


@pytest.mark.parametrize(
    "value",
    [b"", bytes(range(256)), b"\n\r\n\n", "ü\ud7ff😀".encode(), secrets.token_bytes(1 << 20)],
)
async def test_input_comes_back_as_it_was(place: StorePlace, value: bytes) -> None:
    store = await place.store()
    written = record(response(), input=value)
    await store.append(written)
    stored = await store.get("key", written.id)
    assert stored is not None
    assert stored.input == value


@pytest.mark.parametrize("state", SubmissionState)
async def test_a_verdict_may_come_before_the_record(
    place: StorePlace, state: SubmissionState
) -> None:
    store = await place.store()
    late = record(response())
    now = place.clock.now
    await store.settle(Verdict(late.target, [late.id], state, reason="away"))
    await store.settle(Verdict(late.target, [late.id], SubmissionState.DROPPED, reason="never"))
    decided = SubmissionState.DROPPED if state not in ENDS else state
    reason = "never" if state not in ENDS else "away"
    assert await store.get("key", late.id) is None
    assert await store.of_response("key", late.target) == []
    for _ in range(2):
        await store.append(late)
        expected = replace(late, state=decided, reason=reason, updated_at=now)
        assert await store.of_response("key", late.target) == [expected]


@pytest.mark.parametrize("by", ["get", "of_response"])
async def test_what_an_owner_leaves_behind_is_dropped(place: StorePlace, by: str) -> None:
    ours, theirs = await place.store("me"), await place.store("they")
    target = response()
    left = [record(target, n, owner="they", state=state) for n, state in enumerate(SubmissionState)]
    mine = record(target, 9.0)
    for written in (*left, mine):
        await (ours if written is mine else theirs).append(written)
    assert await ours.of_response("key", target) == [*left, mine]
    await place.leave("they")
    ids = [r.id for r in (*left, mine)]
    if by == "get":
        stored = [r for name in ids if (r := await ours.get("key", name))]
    else:
        stored = await ours.of_response("key", target)
    now = place.clock.now
    drop = {"state": SubmissionState.DROPPED, "reason": OWNER_GONE, "updated_at": now}
    expected = [r if r.state in ENDS else replace(r, **drop) for r in left]  # type: ignore[arg-type]
    assert stored == [*expected, mine]
    place.clock.now += 1
    await ours.settle(Verdict(target, ids[:-1], SubmissionState.COMMITTED, successor=response()))
    await theirs.append(left[0])
    assert await ours.of_response("key", target) == [*expected, mine]


async def test_many_callers_at_once(place: StorePlace) -> None:
    store = await place.store()
    target = response()
    records = [record(target, at) for at in range(40)]

    async def call(n: int) -> None:
        await store.append(records[n])
        await store.settle(
            Verdict(target, [records[n].id], SubmissionState.COMMITTED, successor=f"resp_{n}")
        )
        stored = await store.get("key", records[n].id)
        assert stored is not None
        assert stored.successor == f"resp_{n}"

    async with anyio.create_task_group() as group:
        for n in range(40):
            group.start_soon(call, n)
    stored = await store.of_response("key", target)
    assert [r.id for r in stored] == [r.id for r in records]


async def test_what_was_taken_for_another_response_is_listed_under_both(place: StorePlace) -> None:
    store = await place.store()
    named, first, second = response(), response(), response()
    direct = record(first, 1.0)
    early, late = record(named, 2.0, effective=first), record(named, 3.0)
    for written in (direct, early, late):
        await store.append(written)
    assert await store.of_response("key", named) == [early, late]
    assert await store.of_response("key", first) == [direct, early]
    # It is noted whatever state a record is in, and the last word counts.
    place.clock.now += 1
    for effective in (first, second):
        verdict = Verdict(named, [late.id], SubmissionState.ACCEPTED, effective=effective)
        await store.settle(verdict)
    moved = replace(late, effective=second)
    assert await store.get("key", late.id) == moved
    assert await store.of_response("key", first) == [direct, early]
    assert await store.of_response("key", second) == [moved]
    assert await store.of_response("key", named) == [early, moved]
    assert await store.of_response("other", second) == []


async def test_those_taken_for_a_response_become_orphans_with_their_owner(
    place: StorePlace,
) -> None:
    mine, theirs = await place.store(), await place.store("they")
    named, effective = response(), response()
    written = record(named, owner="they", effective=effective)
    await theirs.append(written)
    await place.leave("they")
    [dropped] = await mine.of_response("key", effective)
    assert (dropped.id, dropped.state, dropped.reason) == (written.id, "dropped", OWNER_GONE)


async def test_an_early_end_says_what_it_was_taken_for(place: StorePlace) -> None:
    store = await place.store()
    written, effective = record(response()), response()
    end = Verdict(written.target, [written.id], SubmissionState.FAILED, "r", effective=effective)
    await store.settle(end)
    await store.append(written)
    [kept] = await store.of_response("key", effective)
    assert (kept.id, kept.state, kept.effective) == (written.id, "failed", effective)


async def test_its_own_name_and_what_it_waits_for_are_kept(place: StorePlace) -> None:
    store = await place.store()
    written = record(response(), event_id="e.1")
    await store.append(written)
    assert await store.get("key", written.id) == written
    place.clock.now += 1
    stubs = b'[{"type":"function_call_output"}]'
    verdict = Verdict(written.target, [written.id], SubmissionState.PENDING, required=stubs)
    await store.settle(verdict)
    pending = replace(
        written,
        state=SubmissionState.PENDING,
        updated_at=place.clock.now,
        required=stubs,
    )
    assert await store.get("key", written.id) == pending
