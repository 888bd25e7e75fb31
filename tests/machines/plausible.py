"""Streams that some backend might send, drawn at random, and ways to spoil them.

Each item's text is made of numbered pieces, `<item:piece>`, so that whatever is lost, doubled or
out of order in what comes out shows.
"""

from __future__ import annotations

from collections import deque
from copy import deepcopy
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st

from tests.machines.backend import added, created, done

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hypothesis.strategies import DrawFn

    from tests.machines.backend import Event, Item

#: Where the text of a kind is: the type of its item, the line of parts, the key, the index.
KINDS = {
    "output_text": ("message", "content", "text", "content_index"),
    "refusal": ("message", "content", "refusal", "content_index"),
    "reasoning_text": ("reasoning", "content", "text", "content_index"),
    "reasoning_summary_text": ("reasoning", "summary", "text", "summary_index"),
    "function_call_arguments": ("function_call", "", "arguments", ""),
    "custom_tool_call_input": ("custom_tool_call", "", "input", ""),
}


@dataclass(frozen=True)
class Style:
    """How a backend speaks: how it names and numbers, and which steps it leaves out."""

    named: str = "always"
    placed: bool = True
    steps: frozenset[str] = frozenset({"added", "part", "deltas", "text", "part end", "end"})
    ends_last: bool = False
    output: str = "whole"


@st.composite
def styles(draw: DrawFn) -> Style:
    """Any style whose items can be distinguished and whose text is sent."""
    named = draw(st.sampled_from(["always", "always", "fresh", "never"]))
    placed = draw(st.booleans()) or named != "always"
    sources = draw(st.sampled_from([{"deltas"}, {"end"}, {"deltas", "end"}]))
    # Without places nobody could tell that a new name is one of a new item.
    steps = sources if placed and sources == {"end"} else sources | {"added"}
    steps |= draw(st.sets(st.sampled_from(["part", "text", "part end", "end"])))
    output = draw(st.sampled_from(["whole", "empty", "null", "renamed"]))
    return Style(named, placed, frozenset(steps), draw(st.booleans()), output)


@dataclass
class ItemEvents:
    """One item: as it is in the end, and the events about it in order."""

    item: Item
    events: list[Event]
    ends: list[Event]


def item_events(
    style: Style, number: int, kind: str, pieces: int, fresh: Iterator[int]
) -> ItemEvents:
    """An item with one text of that kind, in that style."""
    item_type, line, key, index = KINDS[kind]
    texts = [f"<{number}:{piece}>" for piece in range(pieces)]
    item = _whole(number, item_type)
    part = {"type": kind.replace("reasoning_summary_text", "summary_text"), key: "".join(texts)}
    item |= {line: [part]} if line else {key: part[key], "call_id": f"c{number}", "name": "look"}
    place = {"output_index": number} if style.placed else {}
    at = {index: 0} if index and style.placed else {}
    stem = "reasoning_summary_part" if line == "summary" else "content_part"

    def about(kind: str, **fields: Any) -> Event:
        name = {"always": f"i{number}", "fresh": f"x{next(fresh)}"}.get(style.named)
        named = {"item_id": name} if name else {}
        return {"type": f"response.{kind}", **fields, **named, **place, **at}

    def whole(event: Event) -> Event:
        return {**event, "item": _named(event["item"], style, fresh), **place}

    opening = {
        "added": [whole(added(item))],
        "part": [about(f"{stem}.added", part={**part, key: ""})] if line else [],
        "deltas": [about(f"{kind}.delta", delta=text) for text in texts],
    }
    ending = {
        "text": [about(f"{kind}.done", **{key: part[key]})],
        "part end": [about(f"{stem}.done", part=part)] if line else [],
        "end": [whole(done(item))],
    }
    return ItemEvents(item, _steps(opening, style), _steps(ending, style))


def _steps(steps: dict[str, list[Event]], style: Style) -> list[Event]:
    return [event for step, events in steps.items() if step in style.steps for event in events]


def _whole(number: int, item_type: str) -> Item:
    item: Item = {"type": item_type, "id": f"i{number}"}
    if item_type == "message":
        item |= {"role": "assistant", "status": "completed", "content": []}
    if item_type == "reasoning":
        item["summary"] = []
    return item


def _named(item: Item, style: Style, fresh: Iterator[int]) -> Item:
    if style.named == "always":
        return item
    without = {key: value for key, value in item.items() if key != "id"}
    return without if style.named == "never" else {**without, "id": f"x{next(fresh)}"}


@st.composite
def streams(draw: DrawFn) -> tuple[list[Event], int]:
    """A whole stream, and how many pieces of text each of its items has: one number for all."""
    style, fresh = draw(styles()), count()
    kinds = draw(st.lists(st.sampled_from(sorted(KINDS)), min_size=1, max_size=4))
    pieces = draw(st.integers(1, 3))
    items = [item_events(style, number, kind, pieces, fresh) for number, kind in enumerate(kinds)]
    events = [created()]
    if style.named == "always" and draw(st.booleans()):
        events += _woven(draw, items)
    elif style.ends_last and style.named == "always":
        events += [event for item in items for event in item.events]
        events += [event for item in items for event in item.ends]
    else:
        events += [event for item in items for event in (*item.events, *item.ends)]
    output: Any = [_named(item.item, style, fresh) for item in items]
    if style.output == "renamed":
        output = [{**item, "id": f"y{next(fresh)}"} for item in output]
    output = {"empty": [], "null": None}.get(style.output, output)
    response = {"id": "r1", "status": "completed", "output": output}
    return [*events, {"type": "response.completed", "response": response}], pieces


def _woven(draw: DrawFn, items: list[ItemEvents]) -> list[Event]:
    """The events of all items in turns, each item's own in their order."""
    lines = [deque([*item.events, *item.ends]) for item in items]
    if draw(st.booleans()):
        woven = [line.popleft() for line in lines if line[0]["type"].endswith("item.added")]
    else:
        woven = []
    while any(lines):
        woven.append(draw(st.sampled_from([line for line in lines if line])).popleft())
    return woven


JUNK: st.SearchStrategy[Any] = st.sampled_from(
    [None, 5, -1, 2**70, 1.5, True, "", "x", [], [None], {}, {"a": 1}, [{}]]
)


@st.composite
def spoiled(draw: DrawFn) -> list[Event]:
    """A stream with events dropped, doubled and swapped, values replaced and keys dropped."""
    events = deepcopy(draw(streams())[0])
    for _ in range(draw(st.integers(1, 6))):
        at = draw(st.integers(0, len(events) - 1))
        how = draw(st.sampled_from(["drop", "double", "swap", "key", "junk", "junk"]))
        if how == "drop" and len(events) > 1:
            del events[at]
        elif how == "double":
            events.insert(draw(st.integers(0, len(events))), deepcopy(events[at]))
        elif how == "swap":
            other = draw(st.integers(0, len(events) - 1))
            events[at], events[other] = events[other], events[at]
        else:
            _spoil(draw, events[at], keep=how == "junk")
    return events


def _spoil(draw: DrawFn, value: Any, *, keep: bool) -> None:
    """Put junk in one place of the value, however deep, or nothing at all."""
    places = list(_places(value))
    if places:
        owner, key = draw(st.sampled_from(places))
        junk = deepcopy(draw(JUNK)) if keep else None
        if keep:
            # Another type of part would be one of a future backend's, and pass.
            owner[key] = None if key == "type" and isinstance(junk, str) else junk
        else:
            del owner[key]


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    keys = list(value) if isinstance(value, dict) else range(len(value))
    for key in keys:
        yield value, key
        if isinstance(value[key], dict | list):
            yield from _places(value[key])
