"""Tool calls as servers of Chat Completions are known to write them, in any mix of their ways.

Each way of saying which call a piece is of, how it is named and how its arguments come is one of a
server's habits (docs/field-cases.md 11: B90, B91, B92). A mix of habits is read as the calls that
were meant, wherever they can be told at all.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.dialects.chatting import chunk, whole
from tests.support.dialect_reading import check

pytestmark = pytest.mark.timeout(300)

NAMES = ["f", "get", "get_weather", "git.log", "mcp__a__b"]
TOOLS = [{"type": "function", "name": name} for name in NAMES]

Arguments = dict[str, Any]
#: Habits that say where a piece belongs, so that pieces of several calls may be mixed.
INDICES = ["right", "text", "float", "from one", "zero", "none", "null", "of the piece"]
IDS = ["first", "each", "changed", "emptied", "last", "none", "one for all", "empty"]
NAMINGS = ["first", "each", "pieces", "grown", "late", "emptied", "second"]
WRITINGS = ["pieces", "object", "null first", "restated", "grown"]


@dataclass(frozen=True)
class Habits:
    """How a server writes its calls."""

    index: str
    id: str
    name: str
    writing: str
    mixed: bool
    many: bool  # several entries in one chunk
    tools: bool  # the request declares them

    @property
    def placed(self) -> bool:
        return self.index in ("right", "text", "float", "from one")

    @property
    def named(self) -> bool:
        return self.id == "each"


_words = st.sampled_from(["a", "b c", '"', "{", "}", "\\", '{"a":1}', "\n", "é", "\U0001f600", ""])
_values = st.recursive(
    _words | st.integers(-9, 99) | st.booleans() | st.none(),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(_words, inner, max_size=2),
    max_leaves=4,
)
_arguments = st.dictionaries(_words, _values, max_size=3)
_calls = st.lists(st.tuples(st.sampled_from(NAMES), _arguments), min_size=1, max_size=3)
_habits = st.builds(
    Habits,
    st.sampled_from(INDICES),
    st.sampled_from(IDS),
    st.sampled_from(NAMINGS),
    st.sampled_from(WRITINGS),
    st.booleans(),
    st.booleans(),
    st.booleans(),
)


def tellable(habits: Habits, calls: list[tuple[str, Arguments]]) -> bool:
    """Whether anybody could tell the calls apart by what is written."""
    return _order_tells(habits) and _names_tell(habits, calls) and _repetitions_tell(habits, calls)


def _order_tells(habits: Habits) -> bool:
    if habits.mixed and not habits.placed:
        # An id on each piece tells them apart, but not what their halves of names belong to.
        return habits.named and habits.name in ("first", "each", "emptied")
    if (
        habits.mixed
        and habits.name in ("second", "late")
        and habits.id in ("none", "empty", "last")
    ):
        return False  # a nameless call that begins like the one before looks like more of it
    if habits.mixed and habits.id == "one for all":
        return False
    if habits.id in ("changed", "last") and not (habits.placed or habits.index == "none"):
        return habits.name == "each" and habits.writing == "pieces"
    if habits.index == "of the piece":
        return habits.named or (habits.id == "first" and habits.name == "first")
    return True


def _names_tell(habits: Habits, calls: list[tuple[str, Arguments]]) -> bool:
    if habits.id == "one for all" and len({name for name, _ in calls}) < len(calls):
        return False  # it looks like one call that is said again at another place
    if habits.many and habits.name in ("each", "grown"):
        # Two entries of one chunk that only say the same name are two calls.
        return habits.named or (habits.placed and habits.id != "changed")
    if habits.name in ("pieces", "grown") and not habits.tools:
        # Without a place, only the tools show that it is one name.
        return habits.placed and habits.id != "changed"
    if habits.name == "grown" and habits.id == "changed":
        return False  # a short name that has not grown yet looks like another call's
    return not (habits.name == "late" and habits.id == "one for all" and not habits.placed)


def _repetitions_tell(habits: Habits, calls: list[tuple[str, Arguments]]) -> bool:
    if habits.id == "changed" and habits.writing == "restated":
        return False  # with another id it is another call
    # A call that is said twice looks like two that are alike.
    alike = any(first == second for first, second in pairwise(calls))
    return not alike or habits.placed or habits.named


def entries(
    habits: Habits, number: int, name: str, pieces: list[str], counter: list[int]
) -> list[dict[str, Any]]:
    """The entries of one call."""
    texts = _texts(habits, pieces)
    names = _names(habits, name, len(texts))
    texts = [""] * (len(names) - len(texts)) + texts
    made = []
    for at, (said, text) in enumerate(zip(names, texts, strict=True)):
        counter[0] += 1
        function = {"arguments": text} if said is None else {"name": said, "arguments": text}
        index = _index(habits, number, counter[0])
        entry = {} if index is None and habits.index != "null" else {"index": index}
        call_id = _id(habits, number, at, counter[0], last=at == len(texts) - 1)
        entry |= {} if call_id is None else {"id": call_id}
        made.append({**entry, "function": function})
    return made


def _texts(habits: Habits, pieces: list[str]) -> list[Any]:
    whole_text = "".join(pieces)
    ways: dict[str, list[Any]] = {
        "pieces": pieces,
        "object": [json.loads(whole_text)],
        "null first": [None, *pieces],
        "restated": [*pieces, whole_text],
        "grown": ["".join(pieces[: at + 1]) for at in range(len(pieces))],
    }
    return ways[habits.writing]


def _names(habits: Habits, name: str, count: int) -> list[str | None]:
    half = (len(name) + 1) // 2
    begun: dict[str, list[str | None]] = {
        "first": [name],
        "each": [name] * count,
        "pieces": [name[:half], name[half:] or None],
        "grown": [name[:half], name],
        "late": [None] * (count - 1) + [name],
        "emptied": [name, *[""] * (count - 1)],
        "second": ["", name],
    }
    names = begun[habits.name]
    if habits.name in ("pieces", "grown"):
        return [*names, *[None] * count]  # the arguments follow
    return names + [None] * (count - len(names))


def _index(habits: Habits, number: int, piece: int) -> Any:
    ways = {"right": number, "text": str(number), "float": float(number), "from one": number + 1}
    return {**ways, "zero": 0, "of the piece": piece}.get(habits.index)


def _id(habits: Habits, number: int, at: int, piece: int, *, last: bool) -> str | None:
    own = f"call_{number}"
    return {
        "first": own if at == 0 else None,
        "each": own,
        "changed": f"call_{piece}",
        "emptied": own if at == 0 else "",
        "last": own if last else None,
        "one for all": "call_0" if at == 0 else None,
        "empty": "",
    }.get(habits.id)


@settings(deadline=None, max_examples=400)
@given(_calls, _habits, st.data())
def test_a_mix_of_habits_is_the_calls_that_were_meant(
    calls: list[tuple[str, Arguments]], habits: Habits, data: st.DataObject
) -> None:
    assume(tellable(habits, calls))
    counter = [0]
    lines = []
    for number, (name, arguments) in enumerate(calls):
        written = json.dumps(arguments, ensure_ascii=False)
        cuts = data.draw(st.lists(st.integers(1, len(written)), max_size=4).map(sorted))
        if habits.id == "changed":  # with another id, a piece that could begin a call does
            cuts = [at for at in cuts if written[at:].lstrip()[:1] != "{"]
        if habits.writing == "grown":  # a first piece that could be nested looks like no repetition
            cuts = sorted({1, *cuts})
        pieces = [written[a:b] for a, b in zip([0, *cuts], [*cuts, len(written)], strict=True)]
        lines.append(entries(habits, number, name, [one for one in pieces if one], counter))
    order = [number for number, line in enumerate(lines) for _ in line]
    if habits.mixed:
        order = data.draw(st.permutations(order))
    written_entries = [lines[number].pop(0) for number in order]
    together = data.draw(st.integers(1, 3)) if habits.many else 1
    sent = [
        chunk(tool_calls=written_entries[at : at + together])
        for at in range(0, len(written_entries), together)
    ]
    heard = whole(*sent, finish="tool_calls", **({"tools": TOOLS} if habits.tools else {}))
    check(heard)
    got = [(item["name"], json.loads(item["arguments"])) for item in heard.output]
    if habits.mixed:
        assert sorted(got, key=repr) == sorted(calls, key=repr)
    else:
        assert got == calls
    ids = [item["call_id"] for item in heard.output]
    assert len({*ids}) == len(ids)
