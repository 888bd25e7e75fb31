"""What may happen to a connection at random: each kind as often as it is worth."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.steering.plays import Action

LANES = (None, "a", "b")
ITEMS = ("message", "message", "message", "reason", "sealed", "call", "custom", "hosted")
ENDS = (*(None,) * 30, "drain", "stop", "leave", "leave")
ENDINGS = ("completed", "completed", "incomplete", "incomplete", "failed", "cut off")
ACTIONS: list[Action] = [
    *product(("create",) * 4, range(2), LANES),
    *product(("fork",), range(3), LANES),
    *product(("follow",) * 3, range(3), (0, 1)),
    *product(("steer",) * 8, range(3), ("text", "text", "parts")),
    *product(("late",) * 4, range(3), ("text", "keyed")),
    *product(("steer",) * 4, range(3), ("keyed",)),
    *product(("again",) * 4, range(3), ("same", "same", "other")),
    *product(("store",) * 8, range(2), ("ok", "ok", "ok", "failed", "applied")),
    *product(("store trouble",), range(1), ("failed", "applied")),
    *product(("answer",) * 6, range(2), ("ok", "ok", "ok", "ok", "refuse")),
    *product(("go on",) * 10, range(2), ITEMS),
    *product(("close item",) * 2, range(2), (None,)),
    *product(("end",) * 4, range(2), ENDINGS),
    *product(("cancel",), range(3), ("running", "running", "any", "lane", "lane", "only")),
]
