"""Pure: which items a history can do without, from the oldest on (protocol.md 9).

What is left out are whole turns, each from a message of the user's up to the next one. Calls and
their outputs go or stay together. What is the system's or the developer's stays, and so does a
summary.
"""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING, Any, Final

from lanes.compaction.context import is_standing, is_summary, role_of
from lanes.history.entries import answers, calls_of
from lanes.history.short_items import ShortItems

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    Item = dict[str, Any]

#: How much of what can be left out stays, one try after the other.
_SHARES: Final = (0.75, 0.5, 0.25, 0.0)


def shorter(items: Sequence[bytes], *, within_turns: bool = False) -> Iterator[list[bytes]]:
    """Yield the history shorter and shorter, four times at most.

    `within_turns` lets a turn lose its beginning as well.
    """
    read = list(map(ShortItems().read, items))
    staying = [
        is_standing(item) or is_summary(data) for item, data in zip(read, items, strict=True)
    ]
    places = _places(read, staying, within_turns=within_turns)
    sizes = [0 if stays else len(data) for data, stays in zip(items, staying, strict=True)]
    left = list(accumulate(reversed(sizes)))[::-1]  # from each place on
    before = 0
    for share in _SHARES:
        fitting = (place for place in places if left[place] <= share * left[0])
        place = next(fitting, places[-1] if places else 0)
        if place <= before:
            continue
        before = place
        head = [data for data, stays in zip(items[:place], staying, strict=False) if stays]
        yield [*head, *items[place:]]


def _places(items: list[Item], staying: list[bool], *, within_turns: bool) -> list[int]:
    """Return the places at which the history can begin, without the first."""
    last_answer = {
        call: place for place, item in enumerate(items) if (call := answers(item)) is not None
    }
    places, held, begun = [], -1, False
    for place, item in enumerate(items):
        starts = role_of(item) == "user" or (within_turns and answers(item) is None)
        if starts and not staying[place]:
            if begun and place > held:
                places.append(place)
            begun = True
        held = max([held, *(last_answer.get(call, -1) for call in calls_of(item))])
    return places
