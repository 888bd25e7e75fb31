"""The check of one response from its first event to its terminal one, and its rules. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from gateway.tools.load.text_checks import DELTAS, DONES, ResponseTexts
from steering.required import is_owned

if TYPE_CHECKING:
    from gateway.tools.load.server_events import ResponseField, ServerEvent

CREATED = "response.created"
_IN_PROGRESS = "response.in_progress"
_TERMINALS = {
    "response.completed": "completed",
    "response.incomplete": "incomplete",
    "response.failed": "failed",
}

_OPENING = (CREATED, _IN_PROGRESS)


class Rule(StrEnum):
    """The promise a violation breaks."""

    ORDER = "order"  # created, in_progress, items, one terminal
    NUMBER = "number"  # sequence_number from 0, contiguous
    LANE = "lane"  # every event on the lane of its response
    FIFO = "fifo"  # a lane's creates are answered in their order
    PARENT = "parent"  # previous_response_id is what was asked
    INDEX = "index"  # output_index contiguous, items where they were put
    TEXT = "text"  # deltas == done == final output
    LATE = "late"  # nothing after a terminal
    UNANSWERED = "unanswered"  # every create ends in a terminal or an error
    STEER = "steer"  # an accepted steer is committed or failed, once, and shows nowhere else
    SHAPE = "shape"  # every frame is an event


@dataclass(frozen=True, slots=True)
class BrokenRule:
    """One broken promise."""

    rule: Rule
    message: str


@dataclass(slots=True)
class SentCreate:
    """One `response.create` on its way: what it asks for, and when it was sent (nanoseconds).

    It also stands for what a steer's successor answers: then `steer` is the steer's marker, and
    `marker` that of the create that began the chain. `steers` are the markers that the answer may
    repeat.
    """

    marker: str
    parent: str | None = None
    turn: int = 1
    sent: int = 0
    last: int = 0  # the latest event
    watched: bool = True  # the next delta matters: the first one, or one to steer at
    has_delta: bool = False
    steer_at: int | None = None  # sequence_number from which on a text delta triggers a steer
    steers: frozenset[str] = frozenset()
    steer: str | None = None


class ResponseCheck:
    """Checks every event of one response and adds what is wrong to `faults`."""

    def __init__(self, create: SentCreate, faults: list[BrokenRule]) -> None:
        self.create = create
        self.id: str | None = None
        self.status: str | None = None  # set by the terminal event, like the next three
        self.reason: str | None = None
        self.needs_output = False  # of a tool, from the client
        self.output: list[Any] = []
        self._faults = faults
        self._number = 0
        self._seen = 0
        self._items: list[str | None] = []
        self._open: set[int] = set()
        self._texts = ResponseTexts()

    def feed(self, event: ServerEvent) -> None:
        """Check one event."""
        kind = event.type
        if event.sequence_number != self._number:
            self._misnumbered(event)
        self._number = event.sequence_number + 1
        if self._seen < len(_OPENING):
            self._opening(kind)
        elif kind in _OPENING:
            self._fault(Rule.ORDER, f"a second {kind}")
        self._seen += 1
        if text := DELTAS.get(kind):
            self._placed(event)
            self._texts.add(text, event)
        else:
            self._lifecycle(event)

    def count(self, event: ServerEvent) -> None:
        """Check the number of a steer event, which may come after the terminal event."""
        if event.sequence_number != self._number:
            self._misnumbered(event)
        self._number = event.sequence_number + 1

    def forget(self) -> None:
        """Drop the texts: only numbers are checked from now on."""
        self.output, self._texts = [], ResponseTexts()

    def names(self, event: ServerEvent) -> bool:
        """Return whether the event names this response or one of its items."""
        if event.response is not None:
            return event.response.id == self.id
        return event.item_id is not None and event.item_id in self._items

    def _misnumbered(self, event: ServerEvent) -> None:
        self._fault(Rule.NUMBER, f"sequence_number {_shown(event)}, expected {self._number}")

    def _opening(self, kind: str) -> None:
        expected = _OPENING[self._seen]
        if kind != expected:
            self._fault(Rule.ORDER, f"{kind} where {expected} belongs")

    def _placed(self, event: ServerEvent) -> None:
        """Check that the item of an event exists and is the one that it names."""
        index, item, items = event.output_index, event.item_id, self._items
        if not 0 <= index < len(items):
            self._fault(Rule.INDEX, f"output_index {index} is of no item")
        elif item is not None and item != items[index]:
            self._fault(Rule.INDEX, f"item {item} at the place of {items[index]}")

    def _lifecycle(self, event: ServerEvent) -> None:
        kind = event.type
        if event.output_index >= 0 and kind != "response.output_item.added":
            self._placed(event)
        if text := DONES.get(kind):
            problem = self._texts.close(text, event)
            if problem:
                self._fault(Rule.TEXT, problem)
        elif kind == "response.output_item.added":
            self._added(event)
        elif kind == "response.output_item.done":
            self._closed(event)
        elif event.response is not None:
            self._snapshot(kind, event.response)

    def _added(self, event: ServerEvent) -> None:
        if event.output_index != len(self._items):
            expected = len(self._items)
            self._fault(Rule.INDEX, f"output_index {event.output_index}, expected {expected}")
        self._open.add(len(self._items))
        self._items.append(_id_of(event.item))

    def _closed(self, event: ServerEvent) -> None:
        if event.output_index not in self._open:
            self._fault(Rule.INDEX, f"output_index {event.output_index} is not open")
            return
        self._open.discard(event.output_index)
        if _id_of(event.item) != self._items[event.output_index]:
            self._fault(Rule.INDEX, f"item {_id_of(event.item)} closes another one's place")

    def _snapshot(self, kind: str, response: ResponseField) -> None:
        if self.id is None:
            self.id = response.id
        elif response.id != self.id:
            self._fault(Rule.LANE, f"{kind} of {response.id} inside {self.id}")
        if response.previous_response_id != self.create.parent:
            got, asked = response.previous_response_id, self.create.parent
            self._fault(Rule.PARENT, f"previous_response_id {got}, asked for {asked}")
        status = _TERMINALS.get(kind)
        if status:
            self._finish(status, response)

    def _finish(self, status: str, response: ResponseField) -> None:
        self.status, self.reason, self.output = status, response.reason, response.output
        self.needs_output = any(isinstance(item, dict) and is_owned(item) for item in self.output)
        partial = status == "failed"
        if response.status != status:
            self._fault(Rule.ORDER, f"status {response.status} in response.{status}")
        ids = [_id_of(item) for item in response.output]
        if ids != self._items[: len(ids)] or (len(ids) < len(self._items) and not partial):
            self._fault(Rule.INDEX, f"the final output holds {ids}, streamed were {self._items}")
            return
        if self._open and not partial:
            self._fault(Rule.ORDER, f"output {sorted(self._open)} got no response.output_item.done")
        for problem in self._texts.finish(response.output, partial=partial):
            self._fault(Rule.TEXT, problem)

    def _fault(self, rule: Rule, message: str) -> None:
        self._faults.append(BrokenRule(rule, message))


def _id_of(item: object) -> str | None:
    return item.get("id") if isinstance(item, dict) else None


def _shown(event: ServerEvent) -> str:
    return "missing" if event.sequence_number == -1 else str(event.sequence_number)
