"""What hypothesis chooses from: creates, ends of runs, and what a run puts out."""

from __future__ import annotations

from itertools import product
from typing import Any

from lanes.history.lineage import NODE_BYTES

MAX_ACTIVE = 3
#: The default lane and one name more than the limit, which is 4.
LANES = (None, "a", "b", "c", "d", "e")

#: Lane, size, which parent, what input, how far back it reaches. One draw each, which is quicker.
Asked = tuple[str | None, int, str, str, int]
ASKED: list[Asked] = list(
    product(
        LANES,
        (1, 15, 30),
        ("none", "none", "none", "lane", "kept", "kept", "any"),
        ("text", "text", "text", "items", "answer", "refer", "refer"),
        range(6),
    )
)

#: Which of the running, how it ends, how many bytes more it made.
Ended = tuple[int, str, int]
ENDED: list[Ended] = list(
    product(
        range(MAX_ACTIVE),
        ("keep", "keep", "keep", "keep", "succeed", "fail", "refuse"),
        (0, NODE_BYTES, 2 * NODE_BYTES),
    )
)
#: Whose waiting creates are taken back; mostly nobody's.
TAKEN = ("nobody",) * 12 + LANES
#: Whether all is closed, and then only while a lane is in this state.
CLOSES = (None,) * 12 + ("ready", "running")


def output(number: int, pad: int) -> list[dict[str, Any]]:
    """A response's items: values that a truthiness test would lose, an id that others share."""
    message: dict[str, Any] = {
        "type": "message",
        "id": f"i{number % 2}",
        "content": [],
        "x": None,
        "n": number,
    }
    call = {"type": "function_call", "call_id": f"c{number}", "pad": "x" * pad, "zero": 0}
    return [message, call]
