"""The ways an answer can go wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gateway.tools.load.response_checks import Rule
from tests.load.script import Events, find

if TYPE_CHECKING:
    from collections.abc import Callable


def _lost(kind: str, nth: int = 0) -> Callable[[Events], None]:
    def lose(events: Events) -> None:
        del events[find(events, kind, nth)]

    return lose


def _renumbered(kind: str, nth: int = 0) -> Callable[[Events], None]:
    """Lost before the numbering: the numbers show nothing."""

    def lose(events: Events) -> None:
        del events[find(events, kind, nth)]
        for count, event in enumerate(events):
            event["sequence_number"] = count

    return lose


def _changed(kind: str, nth: int = 0, **fields: Any) -> Callable[[Events], None]:
    def change(events: Events) -> None:
        events[find(events, kind, nth)].update(fields)

    return change


def _response(kind: str, **fields: Any) -> Callable[[Events], None]:
    def change(events: Events) -> None:
        event = events[find(events, kind)]
        event["response"] = {**event["response"], **fields}

    return change


def _swapped(events: Events) -> None:
    events[0], events[1] = events[1], events[0]


def _late(events: Events) -> None:
    late = dict(events[find(events, "response.output_text.delta", 2)])
    events.append({**late, "sequence_number": len(events)})


def _second_terminal(events: Events) -> None:
    events.append({**events[-1], "sequence_number": len(events)})


def _short_output(events: Events) -> None:
    events[-1]["response"]["output"].pop()


def _other_text_at_the_end(events: Events) -> None:
    events[-1]["response"]["output"][1]["content"][0]["text"] = "Something else."


TEXT_DELTA = "response.output_text.delta"

#: What is planted -> (how, the promise it breaks).
FAULTS: dict[str, tuple[Callable[[Events], None], Rule]] = {
    "a delta lost": (_lost(TEXT_DELTA, 2), Rule.NUMBER),
    "a delta lost before numbering": (_renumbered(TEXT_DELTA, 2), Rule.TEXT),
    "a number twice": (_changed(TEXT_DELTA, 3, sequence_number=9), Rule.NUMBER),
    "no number": (_changed(TEXT_DELTA, sequence_number=-1), Rule.NUMBER),
    "created lost": (_lost("response.created"), Rule.ORDER),
    "in_progress lost": (_renumbered("response.in_progress"), Rule.ORDER),
    "created second": (_swapped, Rule.ORDER),
    "another text in a delta": (_changed(TEXT_DELTA, 1, delta="mixed "), Rule.TEXT),
    "another text in done": (_changed("response.output_text.done", text="mixed"), Rule.TEXT),
    "another text at the end": (_other_text_at_the_end, Rule.TEXT),
    "no text done": (_renumbered("response.refusal.done"), Rule.TEXT),
    "no item done": (_renumbered("response.output_item.done"), Rule.ORDER),
    "an index left out": (_changed("response.output_item.added", 1, output_index=2), Rule.INDEX),
    "an index never added": (_changed(TEXT_DELTA, output_index=7), Rule.INDEX),
    "a delta of no item": (_changed(TEXT_DELTA, output_index=-1), Rule.INDEX),
    "a delta before any item": (_lost("response.output_item.added"), Rule.INDEX),
    "another item's id": (_changed(TEXT_DELTA, item_id="msg_of_another_lane"), Rule.INDEX),
    "another item closed": (_changed("response.output_item.done", item={"id": "x"}), Rule.INDEX),
    "an item closed twice": (_changed("response.output_item.done", 1, output_index=0), Rule.INDEX),
    "an item missing at the end": (_short_output, Rule.INDEX),
    "another parent": (_response("response.created", previous_response_id="resp_x"), Rule.PARENT),
    "another response's id": (_response("response.in_progress", id="resp_x"), Rule.LANE),
    "another create's marker": (
        _response("response.created", metadata={"multilane_load": "another"}),
        Rule.LANE,
    ),
    "another status": (_response("response.completed", status="in_progress"), Rule.ORDER),
    "an event after the terminal": (_late, Rule.LATE),
    "a second terminal": (_second_terminal, Rule.LATE),
}
