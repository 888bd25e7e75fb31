"""A whole history -> the input that a backend accepts (D21). Pure.

The history may hold items of other backends than the one that is asked now. So every form makes an
item acceptable or leaves it out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Raw

from gateway.upstream.history.continuation import CONTINUE_MESSAGE
from gateway.upstream.history.item_forms import (
    CALL_TEXTS,
    ITEM_FORMS,
    is_of_assistant,
    is_sealed,
    kind_of,
)
from lanes.codec import decode
from lanes.stream.item_schema import PREFIXES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gateway.upstream.history.replay_form import ReplayForm

    Item = dict[str, Any]


def replay_items(items: Sequence[bytes], form: ReplayForm) -> tuple[list[Any], list[str]]:
    """Return the items in the backend's form, in order, and the types of those it does not accept.

    Reasoning that it does not accept is dropped silently, and so is reasoning that no item of the
    assistant's follows: no backend accepts that. Idempotent.
    """
    if form.kinds is None:
        return _unchanged(items), []
    accepted: list[Item] = []
    left_out: list[str] = []
    call_names: dict[str, str] = {}
    for data in items:
        item = decode(data)
        kind = kind_of(item)
        if form.calls_as_text and kind in CALL_TEXTS:
            accepted.append(CALL_TEXTS[kind](item, call_names))
        elif kind not in form.kinds:
            left_out.append(kind)
        elif (formed := _formed(item, kind, form.kinds[kind], form)) is not None:
            accepted.append(formed)
    return _ordered(accepted, form), left_out


def _formed(item: Item, kind: str, keys: frozenset[str] | None, form: ReplayForm) -> Item | None:
    formed = ITEM_FORMS[kind](item, form) if kind in ITEM_FORMS else item
    if formed is None or keys is None:
        return formed
    return {key: formed[key] for key in formed if key in keys}


def _ordered(items: list[Item], form: ReplayForm) -> list[Item]:
    kept = _outputs_after_calls(_without_dangling_reasoning(items))
    if form.joins_text:
        kept = _join_messages(kept)
    _add_ids(kept, form.needs_id)
    if form.closes_input and kept and is_of_assistant(kept[-1]):
        kept.append(CONTINUE_MESSAGE)
    return kept


def _unchanged(items: Sequence[bytes]) -> list[Raw]:
    """Return the items byte for byte; only what may be reasoning, and the next item, is decoded."""
    kept: list[bytes] = []
    for data in reversed(items):
        if b'"reasoning"' in data:
            item = decode(data)
            followed = bool(kept) and is_of_assistant(decode(kept[-1]))
            if kind_of(item) == "reasoning" and not (followed and is_sealed(item)):
                continue
        kept.append(data)
    return [Raw(data) for data in reversed(kept)]


def _without_dangling_reasoning(items: list[Item]) -> list[Item]:
    """Drop reasoning that no item of the assistant's follows."""
    kept: list[Item] = []
    for item in reversed(items):
        if item["type"] != "reasoning" or (kept and is_of_assistant(kept[-1])):
            kept.append(item)
    return kept[::-1]


def _add_ids(items: list[Item], kinds: frozenset[str]) -> None:
    """Give the assistant's items of these types an id made of their place, where they lack one."""
    for place, item in enumerate(items):
        if item["type"] in kinds and is_of_assistant(item) and not isinstance(item.get("id"), str):
            item["id"] = f"{PREFIXES[item['type']]}_{place}"


def _outputs_after_calls(items: list[Item]) -> list[Item]:
    """Move each output to the turn of its call: in a chat no message may come between them."""
    turns: list[list[Item]] = [[]]
    turn_of_call: dict[object, list[Item]] = {}
    for item in items:
        call_id = item.get("call_id")
        if call_id is None:
            if not is_of_assistant(item):
                turns.append([])
            turns[-1].append(item)
        elif is_of_assistant(item):
            turn_of_call[call_id] = turns[-1]
            turns[-1].append(item)
        else:
            turn_of_call.get(call_id, turns[-1]).append(item)
    return [item for turn in turns for item in turn]


def _join_messages(items: list[Item]) -> list[Item]:
    """Join consecutive messages of one phase of the assistant; each has one text already."""
    kept: list[Item] = []
    for item in items:
        last = kept[-1] if kept else None
        if last is not None and _is_words(last) and _is_words(item) and _same_phase(last, item):
            text = f"{last['content'][0]['text']}\n\n{item['content'][0]['text']}"
            kept[-1] = {**last, "content": [{**last["content"][0], "text": text}]}
        else:
            kept.append(item)
    return kept


def _same_phase(last: Item, item: Item) -> bool:
    return last.get("phase") == item.get("phase")


def _is_words(item: Item) -> bool:
    return item["type"] == "message" and item.get("role") == "assistant"
