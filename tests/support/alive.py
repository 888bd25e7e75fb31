"""Which of our objects are alive, and a check that reference counts alone free what came since."""

from __future__ import annotations

import gc
from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING

import anyio

from tests.support.hang_guard import HANG

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

#: The packages whose objects make up a connection.
OURS = ("gateway.", "lanes.", "steering.", "uvicorn.", "starlette.", "websockets.server")
#: What is kept on purpose: stored responses, records and verdicts of steers.
STORES = ("lanes.stores", "steering.stores", "steering.clerk")
#: What counts responses of one upstream and outcome: there from the first end of such a one on.
COUNTERS = frozenset({"gateway.telemetry.response_metrics._Series"})
#: What a store of responses in memory holds as well, among other classes of the same module.
STORED = frozenset({"lanes.history.entries.Entry"})
#: A create with this user is one of a connection that has ended.
MARK = "a create of a connection that has ended"


def alive() -> Counter[str]:
    """How many objects of each of our classes there are, and how many bodies of marked creates."""
    found: Counter[str] = Counter()
    for one in gc.get_objects():
        kind = type(one)
        module = kind.__module__
        if isinstance(module, str) and module.startswith(OURS) and not module.startswith(STORES):
            found[f"{module}.{kind.__qualname__}"] += 1
        elif kind is dict and one.get("user") == MARK:
            found["the body of a create"] += 1
    return found


@contextmanager
def uncollected() -> Iterator[None]:
    """Nothing but reference counts frees anything within the block."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


async def gone(before: Counter[str], kept: frozenset[str] = frozenset()) -> None:
    """All that came since has died but what is to be kept; whatever is left is named."""
    before = before + Counter(dict.fromkeys(kept | COUNTERS, 1 << 30))
    left = before
    with anyio.move_on_after(HANG):
        while left := alive() - before:  # noqa: ASYNC110 - nothing tells of a death
            await anyio.sleep(0.01)
    assert not left, dict(left)


async def twice(play: Callable[[], Awaitable[None]], kept: frozenset[str] = frozenset()) -> None:
    """The second time nothing stays: what the process keeps is there from the first time on."""
    # What was there before is not looked at: in a process of many tests that takes long each time.
    gc.freeze()
    try:
        await play()
        with uncollected():
            before = alive()
            await play()
            await gone(before, kept)
    finally:
        gc.unfreeze()
