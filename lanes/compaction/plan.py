"""Pure: what of a history is summarised, and what is kept word for word (protocol.md 9).

Calls stay with their outputs: one that waits for its output, or whose output the assistant has not
seen yet, is kept. Older messages of the user are kept from the latest back, within a budget.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from msgspec import Raw

from lanes.compaction.budgets import TEXT_BUDGET, CompactionBudgets
from lanes.compaction.context import Compacted, is_standing, is_summary, role_of
from lanes.compaction.estimate import estimated_tokens
from lanes.compaction.prompt import LEFT_OUT, SHORTENED
from lanes.history.entries import answers, calls_of
from lanes.history.short_items import ShortItems
from steering.required import stub

if TYPE_CHECKING:
    from collections.abc import Sequence

    Item = dict[str, Any]

_ASKED_FOR: Final = CompactionBudgets()
#: Bytes of images and files that are kept with each of these.
MEDIA_BUDGET: Final = 512 * 1024
#: Bytes of all that one item keeps beside its summary.
MAX_KEPT: Final = 4 << 20
#: Bytes of one item of reasoning that is kept with its call.
REASONING_BUDGET: Final = 64 * 1024
#: Items that others look up by their id.
_NAMED: Final = frozenset({"mcp_approval_request", "local_shell_call"})


@dataclass(frozen=True, slots=True)
class CompactionPlan:
    """How a history is compacted.

    Attributes:
        summarised: The items that the summary is of.
        before: What is kept in front of the summary.
        after: What is kept behind it.
        ahead: The same, whole, for the request that goes on now.
        worthwhile: Whether the assistant has said or done anything that can be summarised.
        fresh: About how many tokens of that came since the last summary; None if there is none.
        budgets: What is kept.
    """

    summarised: list[bytes]
    before: list[bytes]
    after: list[bytes]
    ahead: list[bytes]
    worthwhile: bool
    fresh: int | None
    budgets: CompactionBudgets

    @property
    def fits(self) -> bool:
        """Whether what is kept fits into an item."""
        return sum(map(len, self.before)) + sum(map(len, self.after)) <= MAX_KEPT

    def compacted(self, summary: str) -> Compacted:
        """Return what the compaction item holds, with the summary."""
        return Compacted(
            [Raw(item) for item in self.before], summary, [Raw(item) for item in self.after]
        )


def plan(
    items: Sequence[bytes], *, goes_on: bool, budgets: CompactionBudgets = _ASKED_FOR
) -> CompactionPlan:
    """Return how a history is compacted.

    Args:
        items: The history.
        goes_on: Whether the assistant answers it now, so that what it has not seen yet is kept.
        budgets: What is kept.
    """
    short = ShortItems()
    read = [short.read(data) for data in items]
    kept = _kept(read, goes_on=goes_on)
    kept |= _reasoning(read, items, kept)
    rest = [place for place in range(len(items)) if place not in kept]
    summarised = [items[place] for place in rest]
    told = [(read[place], is_summary(items[place])) for place in rest]
    behind = [_bare(read[place]) for place in sorted(kept)]
    return CompactionPlan(
        summarised,
        [short.write(item) for item in _messages(told, short, budgets)],
        [short.write(item) for item in _shortened(behind, _Budget(short, budgets.text))],
        [short.write(item) for item in behind],
        any(by_assistant(item) or summary for item, summary in told),
        _fresh(summarised),
        budgets,
    )


def by_assistant(item: Item) -> bool:
    """Return whether the assistant made an item: its words, its reasoning or its calls."""
    role = role_of(item)
    return answers(item) is None if role is None else role == "assistant"


def _kept(items: list[Item], *, goes_on: bool) -> set[int]:
    """Return the places of what is kept behind the summary."""
    answered = {call for item in items if (call := answers(item)) is not None}
    kept = {
        place
        for place, item in enumerate(items)
        if stub(item) is not None and not answered.intersection(calls_of(item))
    }
    if goes_on:
        unseen = _unseen(items)
        seen = {call for item in items[unseen:] if (call := answers(item)) is not None}
        kept |= {place for place, item in enumerate(items) if seen.intersection(calls_of(item))}
        kept |= set(range(unseen, len(items)))
        # An output beside one that was not seen yet belongs to the same calls.
        calls = {call for place in kept for call in calls_of(items[place])}
        kept |= {place for place, item in enumerate(items) if answers(item) in calls}
    return kept


def _reasoning(items: list[Item], data: Sequence[bytes], kept: set[int]) -> set[int]:
    """Return the places of the reasoning that led to kept calls: some backends want it back.

    Args:
        items: The items.
        data: Their JSON.
        kept: The places of what is kept.
    """
    found = set()
    for place in kept:
        before = place - 1 if _calls(items[place]) else -1
        while before >= 0 and items[before].get("type") == "reasoning":
            if len(data[before]) <= REASONING_BUDGET:
                found.add(before)
            before -= 1
    return found


def _unseen(items: list[Item]) -> int:
    """Return the place behind the last item of the assistant's."""
    made = (place for place in range(len(items) - 1, -1, -1) if by_assistant(items[place]))
    return next(made, -1) + 1


def _calls(item: Item) -> bool:
    return any(True for _ in calls_of(item))


def _bare(item: Item) -> Item:
    """Return a call without its id: a backend may know that for one that follows its reasoning."""
    if not _calls(item) or item.get("type") in _NAMED:
        return item
    return {key: item[key] for key in item if key != "id"}


def _fresh(items: list[bytes]) -> int | None:
    """Return about how many tokens came since the last summary (see `CompactionPlan`)."""
    summaries = (place for place in range(len(items) - 1, -1, -1) if is_summary(items[place]))
    last = next(summaries, None)
    return None if last is None else estimated_tokens(items[last + 1 :], {})


def _messages(
    told: list[tuple[Item, bool]], short: ShortItems, budgets: CompactionBudgets
) -> list[Item]:
    """Return what is kept in front: all that is standing, and the latest of the user's messages.

    Args:
        told: The items, and whether each is a summary.
        short: Has their long strings.
        budgets: What is kept.
    """
    held, asked = _Budget(short, TEXT_BUDGET), _Budget(short, budgets.text)
    kept: list[Item] = []
    for item, summary in reversed(told):
        if is_standing(item):
            kept.append(held.shorten(item))
        elif role_of(item) == "user" and not summary and asked.left:
            kept.append(asked.shorten(item))
    return kept[::-1]


def _shortened(items: list[Item], budget: _Budget) -> list[Item]:
    """Return items within a budget, from which the latest take first."""
    return [budget.shorten(item) for item in reversed(items)][::-1]


class _Budget:
    """What may still be kept of texts, and of images and files.

    Args:
        short: Has the long strings.
        text: Bytes of texts.
    """

    def __init__(self, short: ShortItems, text: int) -> None:
        self._short = short
        self._text, self._media = text, MEDIA_BUDGET

    @property
    def left(self) -> bool:
        """Whether any text may still be kept."""
        return self._text > 0

    def shorten(self, item: Item) -> Item:
        """Return an item with as much of its texts, images and files as may be kept."""
        short = dict(item)
        for key in ("content", "output", "input"):
            value = item.get(key)
            if isinstance(value, str):
                short[key] = self._cut(value)
            elif isinstance(value, list):
                short[key] = [self._part(part) for part in value]
        arguments = item.get("arguments")
        if isinstance(arguments, str) and self._cut(arguments) is not arguments:
            short["arguments"] = "{}"  # half of it would be no JSON
        return short

    def _part(self, part: object) -> object:
        if not isinstance(part, dict):
            return part
        text = part.get("text")
        if isinstance(text, str):
            return {**part, "text": self._cut(text)}
        size = self._short.size(part)
        if size > self._media:
            return {"type": "input_text", "text": LEFT_OUT}
        self._media -= size
        return part

    def _cut(self, text: str) -> str:
        room = self._text
        if not room:
            return SHORTENED if text else text
        whole = self._short.excerpt(text, room)
        data = whole.encode()
        self._text = max(0, room - len(data))
        if len(data) <= room:
            return text
        ends = data[: room // 2], data[len(data) - room // 2 :]
        return SHORTENED.join(end.decode(errors="ignore") for end in ends)
