"""Plays that are written down: each went wrong once, takes a rare row, or shows a planted bug.

They come before those at random, which find the like of them as luck will have it.
"""

from __future__ import annotations

from dataclasses import dataclass

Action = tuple[str, int, str | int | None]


@dataclass(frozen=True)
class Act:
    """Things that happen at once, the turns of the loop after each, and how it ends if it does."""

    actions: list[Action]
    ends: str | None = None
    turns: int | None = 3


@dataclass(frozen=True)
class Play:
    """How a connection begins (see `Rules.begin`), and what happens then."""

    lanes: list[str | None]
    items: list[str | None]
    acts: list[Act]
    text: bool = False


def _once(
    lanes: list[str | None],
    items: list[str | None],
    *actions: Action,
    ends: str | None = None,
    text: bool = False,
) -> Play:
    return Play(lanes, items, [Act(list(actions), ends)], text)


_STEER: Action = ("steer", 0, "text")
_WRITTEN: Action = ("store", 0, "ok")
_FOLLOW: Action = ("follow", 0, 0)
_COMPLETED: Action = ("end", 0, "completed")

PLAYS = {
    # What went wrong
    "steered while the create that follows is not in the queue any more, and has not begun": Play(
        [None, "a"],
        [None, "call"],
        [
            Act([("create", 0, None)]),
            Act([_STEER] * 3 + [("steer", 2, "text")] + [_COMPLETED] * 2),
            Act([("fork", 2, "a"), _WRITTEN, ("store", 0, "failed"), _STEER]),
        ],
    ),
    "the gateway stops while a create waits for the record of a steer, another behind it": Play(
        [None],
        ["call"],
        [
            Act([_STEER, _STEER, ("end", 0, "completed")]),
            Act([_FOLLOW, _STEER, ("create", 0, None), _WRITTEN, _WRITTEN], "drain"),
        ],
    ),
    "no time is left while a create waits for the record of a steer": _once(
        [None], ["called"], _STEER, _FOLLOW, ends="stop"
    ),
    # Stopping and going on
    "steered in sealed reasoning": _once([None], ["sealed"], _STEER, text=True),
    "steered in a message": _once([None], ["message"], _STEER, text=True),
    "steered, and then a call": _once([None], [], _STEER, ("go on", 0, "call")),
    "steered in sealed reasoning, and stopped at its limit": _once(
        [None], ["sealed"], _STEER, _WRITTEN, ("end", 0, "incomplete")
    ),
    "steered before a message, and the backend goes on": _once(
        [None], [], _STEER, _WRITTEN, ("go on", 0, "message")
    ),
    "steered in a message, and the backend breaks off": _once(
        [None],
        ["message"],
        ("steer", 0, "parts"),
        _WRITTEN,
        ("end", 0, "cut off"),
    ),
    "a successor, while a lane waits for its slot": _once(
        [None, "a"], [], _STEER, _WRITTEN, ("create", 0, "b")
    ),
    "a successor that the backend refuses": _once(
        [None], [], _STEER, _WRITTEN, ("answer", 0, "refuse")
    ),
    # Waiting for the client
    "a call, and the record of its steer is slow": _once(
        [None], [], _STEER, ("go on", 0, "call"), _WRITTEN, _COMPLETED
    ),
    "steered after a call was made, and then answered": _once(
        [None], ["called"], _STEER, _WRITTEN, _FOLLOW
    ),
    "answered after a call was made, and then steered": _once([None], ["called"], _FOLLOW, _STEER),
    "answered while the call is being made, and steered": _once([None], ["call"], _FOLLOW, _STEER),
    "answered behind another create, and steered": _once(
        [None], ["called"], ("create", 0, None), _FOLLOW, _STEER
    ),
    "another create waits when a steered call ends": _once(
        [None], [], ("create", 0, None), _STEER, ("go on", 0, "call")
    ),
    "a fork of what was steered and waits": _once(
        [None], ["called"], _STEER, ("follow", 1, 1), _WRITTEN
    ),
    # The client cancels
    "cancelled in a message that was steered": _once(
        [None], ["message"], _STEER, _WRITTEN, ("cancel", 0, "only")
    ),
    "cancelled, and the lane goes on": _once(
        [None], ["message"], ("cancel", 0, "only"), ("create", 0, None)
    ),
    "cancelled in a call that was steered": _once(
        [None], ["call"], _STEER, _WRITTEN, ("cancel", 0, "running")
    ),
    "cancelled while the record of a steer is slow": _once(
        [None], ["message"], _STEER, ("cancel", 0, "running"), _WRITTEN
    ),
    "ended while the record of its steer is slow, then its lane is cancelled": _once(
        ["a"], ["message"], _STEER, _COMPLETED, ("cancel", 1, "lane"), _WRITTEN
    ),
    "a successor is cancelled before it begins": _once(
        ["a"], [], _STEER, _WRITTEN, ("cancel", 1, "lane")
    ),
    "what waits on a lane is cancelled, and with it the answer to a call": _once(
        ["a"], ["call"], _STEER, _WRITTEN, _FOLLOW, _COMPLETED, ("cancel", 1, "lane")
    ),
    "the answer to a call is cancelled while it waits for a record": _once(
        ["a"], ["called"], _STEER, _FOLLOW, ("cancel", 1, "lane"), _WRITTEN
    ),
    "the answer to a call is cancelled behind another create": _once(
        ["a"],
        ["called"],
        ("create", 0, "a"),
        _FOLLOW,
        _STEER,
        _WRITTEN,
        ("cancel", 1, "lane"),
    ),
    # The client leaves
    "left while it is being cut": _once([None], ["custom"], _STEER, _WRITTEN, ends="leave"),
    "left while its successor is asked for": _once([None], [], _STEER, _WRITTEN, ends="leave"),
    "left while the store fails": _once(
        [None], [], _STEER, ("store trouble", 0, "failed"), ends="leave"
    ),
}
