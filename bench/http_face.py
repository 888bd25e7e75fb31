"""A delta over HTTP, as a server-sent event, against the same over a socket, as a frame.

From the backend's bytes to the write, alone and in bursts of 20 a read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench.measure import Case, main, stepping
from bench.pipeline import Replayed, delta, opening, sse

if TYPE_CHECKING:
    from contextlib import AsyncExitStack

TITLE = "A delta to a socket, and over HTTP"


async def cases(_: AsyncExitStack) -> list[Case]:
    """Return the rows."""
    opened, event = b"".join(sse(one) for one in opening()), sse(delta())
    rows: list[Case] = []
    for name, burst in (("alone", 1), ("bursts of 20", 20)):
        for face, lane in (("socket", "lane-1"), ("HTTP", None)):
            source = Replayed(opened, event * burst, None, lane)
            rows.append(stepping(f"{face}, {name}", source.step, burst, source.fresh))
    return rows


if __name__ == "__main__":
    main(TITLE, cases)
