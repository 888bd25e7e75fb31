"""Those who read from clients take turns, and have a share of each turn of the loop (D33)."""

from __future__ import annotations

import asyncio

from gateway.client.turns import SHARE, Turns


async def test_one_share_in_a_turn_of_the_loop_in_order() -> None:
    turns, seen = Turns(), list[int]()
    for number in range(10):
        turns.call(lambda number=number: seen.append(number), SHARE / 2)  # type: ignore[misc]
    assert seen == []
    for turn in range(1, 6):
        await asyncio.sleep(0)
        assert seen == list(range(2 * turn))
    assert not turns.waiting


async def test_who_waits_again_and_again_has_no_more_than_a_share() -> None:
    """Also if nobody else waits when it does so."""
    turns, seen = Turns(), list[int]()

    def again() -> None:
        seen.append(len(seen))
        turns.call(again)

    turns.call(again)
    for turn in range(1, 50):
        await asyncio.sleep(0)
        assert len(seen) == turn


async def test_a_frame_waits_behind_the_others() -> None:
    turns, order = Turns(), list[str]()

    async def wait(name: str, size: int) -> None:
        await turns.wait(size)
        order.append(name)

    async with asyncio.TaskGroup() as group:
        for name, size in (("large", 60_000), ("small", 10), ("other", 10)):
            group.create_task(wait(name, size))
    assert order == ["large", "small", "other"]


async def test_the_turns_of_a_loop_that_ended_are_forgotten() -> None:
    turns, seen = Turns(), list[str]()

    async def leave() -> None:
        for _ in range(1000):
            turns.call(lambda: seen.append("then"))

    await asyncio.to_thread(asyncio.run, leave())
    assert len(turns.waiting) > 100
    turns.call(lambda: seen.append("now"))
    await asyncio.sleep(0)
    assert seen[-1] == "now"
    assert not turns.waiting
