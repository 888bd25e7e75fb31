"""What a backend sends that mixes up its items: each event is of any of three, in any order."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import strategies as st

from tests.machines.backend import (
    added,
    args,
    call,
    completed,
    created,
    delta,
    done,
    message,
    reasoning,
)

if TYPE_CHECKING:
    from tests.machines.drive import Event

#: The events of a thought, a message and a call, in their places.
_EVENTS: list[Event] = [
    *(added(reasoning(), 0), delta("x", "rs1", "reasoning_text"), done(reasoning("x"), 0)),
    *(added(message(), 1), delta("a"), done(message("a"), 1)),
    *(added(call(), 2), args("{}"), done(call(), 2)),
    {"type": "response.content_part.added", "item_id": "m1", "part": {"type": "output_text"}},
    done(message("z", id="m9"), 5),
]


def turns() -> st.SearchStrategy[list[Event]]:
    """Draw a response of such events, with an end or without."""
    ends = st.sampled_from([[], [completed([])], [completed([message("ab")])]])
    events = st.lists(st.sampled_from(_EVENTS), max_size=12)
    return st.builds(lambda middle, end: [created(), *middle, *end], events, ends)
