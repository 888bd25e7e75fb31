"""The states of an item and of what is held behind it, and every step between them.

The client sees one item at a time (protocol.md 4); backends open, fill and close theirs in any
order. Two tables bring the one to the other.

What becomes of an item that was shown to the client:

- It is OPEN from `output_item.added` to `output_item.done`. At most one item is.
- The backend's own end makes it DONE. An end that comes again replaces the one before, for the
  history alone.
- The next item, a cut or the end of the response makes it CLOSED. Its own end may still come, for
  the history alone.
- More text of a CLOSED item opens another item. Where that text is held, the item is RESUMED: its
  end is held as well, until the held events are read again.

What becomes of the events of later items while an item is open:

- Behind a call or a tool at work they are WAITING for its end (D5). So is the end of an item that
  comes before its turn, where the backend's places can be trusted (D6).
- Behind text, an item is ANNOUNCED first: its `output_item.added` is held, to see what comes next
  (D26).
- STARTED: content of the later item came next. The open text is over, unless it has not begun;
  then the later item waits for eight events with content.
- CONTINUED: more of the open text came next.
- PAUSED: the open text went on, then the later item began. The open text is over once eight events
  with content are held.
- INTERLEAVED: the open text went on after the later item began. Both are being written, and the
  later one waits for the end of the open one.
- FREED: the open item is over. The held events are read again, before anything that came later.
"""

from __future__ import annotations

from enum import StrEnum


class ItemState(StrEnum):
    """Where an item is."""

    OPEN = "open"
    CLOSED = "closed"
    RESUMED = "resumed"
    DONE = "done"


class ItemStep(StrEnum):
    """What can happen to an item."""

    CLOSE = "close"  # something else ended it
    FINISH = "finish"  # the backend ended it
    RESUME = "resume"  # more of its text is held
    RELEASE = "release"  # what was held is read again


class HoldState(StrEnum):
    """How the events that are held stand to the open item."""

    EMPTY = "empty"
    WAITING = "waiting"
    ANNOUNCED = "announced"
    STARTED = "started"
    CONTINUED = "continued"
    PAUSED = "paused"
    INTERLEAVED = "interleaved"
    FREED = "freed"


class HoldStep(StrEnum):
    """What can happen to the events that are held."""

    ANNOUNCE = "announce"  # the first event of a later item is held behind open text
    OPENING = "opening"  # an event is held that only opens something
    CONTENT = "content"  # an event is held that says more
    CONTINUE = "continue"  # the open item has more text
    FREE = "free"  # the open item is over
    REPLAY = "replay"  # the held events are read again


ITEM_TRANSITIONS: dict[tuple[ItemState, ItemStep], ItemState] = {
    (ItemState.OPEN, ItemStep.CLOSE): ItemState.CLOSED,
    (ItemState.OPEN, ItemStep.FINISH): ItemState.DONE,
    (ItemState.CLOSED, ItemStep.FINISH): ItemState.DONE,
    (ItemState.CLOSED, ItemStep.RESUME): ItemState.RESUMED,
    (ItemState.RESUMED, ItemStep.RESUME): ItemState.RESUMED,
    (ItemState.RESUMED, ItemStep.RELEASE): ItemState.CLOSED,
    (ItemState.RESUMED, ItemStep.FINISH): ItemState.DONE,
    (ItemState.DONE, ItemStep.FINISH): ItemState.DONE,
}

HOLD_TRANSITIONS: dict[tuple[HoldState, HoldStep], HoldState] = {
    (HoldState.EMPTY, HoldStep.ANNOUNCE): HoldState.ANNOUNCED,
    (HoldState.EMPTY, HoldStep.OPENING): HoldState.WAITING,
    (HoldState.EMPTY, HoldStep.CONTENT): HoldState.WAITING,
    (HoldState.EMPTY, HoldStep.FREE): HoldState.EMPTY,
    # An end that came before its turn is held: text that was announced then has company.
    (HoldState.WAITING, HoldStep.ANNOUNCE): HoldState.STARTED,
    (HoldState.WAITING, HoldStep.OPENING): HoldState.WAITING,
    (HoldState.WAITING, HoldStep.CONTENT): HoldState.WAITING,
    (HoldState.WAITING, HoldStep.CONTINUE): HoldState.WAITING,
    (HoldState.WAITING, HoldStep.FREE): HoldState.FREED,
    (HoldState.ANNOUNCED, HoldStep.OPENING): HoldState.ANNOUNCED,
    (HoldState.ANNOUNCED, HoldStep.CONTENT): HoldState.STARTED,
    (HoldState.ANNOUNCED, HoldStep.CONTINUE): HoldState.CONTINUED,
    (HoldState.ANNOUNCED, HoldStep.FREE): HoldState.FREED,
    (HoldState.STARTED, HoldStep.OPENING): HoldState.STARTED,
    (HoldState.STARTED, HoldStep.CONTENT): HoldState.STARTED,
    (HoldState.STARTED, HoldStep.CONTINUE): HoldState.INTERLEAVED,
    (HoldState.STARTED, HoldStep.FREE): HoldState.FREED,
    (HoldState.CONTINUED, HoldStep.OPENING): HoldState.CONTINUED,
    (HoldState.CONTINUED, HoldStep.CONTENT): HoldState.PAUSED,
    (HoldState.CONTINUED, HoldStep.CONTINUE): HoldState.CONTINUED,
    (HoldState.CONTINUED, HoldStep.FREE): HoldState.FREED,
    (HoldState.PAUSED, HoldStep.OPENING): HoldState.PAUSED,
    (HoldState.PAUSED, HoldStep.CONTENT): HoldState.PAUSED,
    (HoldState.PAUSED, HoldStep.CONTINUE): HoldState.INTERLEAVED,
    (HoldState.PAUSED, HoldStep.FREE): HoldState.FREED,
    (HoldState.INTERLEAVED, HoldStep.OPENING): HoldState.INTERLEAVED,
    (HoldState.INTERLEAVED, HoldStep.CONTENT): HoldState.INTERLEAVED,
    (HoldState.INTERLEAVED, HoldStep.CONTINUE): HoldState.INTERLEAVED,
    (HoldState.INTERLEAVED, HoldStep.FREE): HoldState.FREED,
    (HoldState.FREED, HoldStep.REPLAY): HoldState.EMPTY,
}
#: The open item is text, and a later item is announced behind it.
BEHIND_TEXT = frozenset(
    {HoldState.ANNOUNCED, HoldState.STARTED, HoldState.CONTINUED}
    | {HoldState.PAUSED, HoldState.INTERLEAVED}
)
