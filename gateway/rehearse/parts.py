"""The events of one part of an answer, from its item's opening to its end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gateway.rehearse.plan import Call, Reason, Say
from gateway.rehearse.shapes import SEAL

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gateway.rehearse.telling import Step, Telling

_CALLS = {
    "function": ("fc", "function_call", "arguments", "function_call_arguments"),
    "custom": ("ctc", "custom_tool_call", "input", "custom_tool_call_input"),
}


def tell(telling: Telling, index: int, part: Reason | Say | Call) -> Iterator[Step]:
    """`index` is the part's place in the output."""
    match part:
        case Reason():
            return _reason(telling, index, part)
        case Say():
            return _say(telling, index, part)
        case Call():
            return _call(telling, index, part)


def _reason(telling: Telling, index: int, part: Reason) -> Iterator[Step]:
    item: dict[str, Any] = {"id": telling.own("rs", index), "type": "reasoning", "summary": []}
    sealed = {"encrypted_content": "rehearsal-partial"} if telling.encrypted else {}
    yield 0, telling.item("added", index, {**item, **sealed})
    waited = 0
    for at, pieces in enumerate(part.parts):
        where = {"item_id": item["id"], "output_index": index, "summary_index": at}
        if not part.shown:
            waited += sum(1 for _ in telling.think(pieces))
        elif not telling.full:
            yield from _summary(telling, where, pieces, item["summary"])
    if telling.encrypted:
        sealed = {"encrypted_content": f"{SEAL}{telling.seed}{index}"}
    yield waited, telling.item("done", index, {**item, **sealed})


def _summary(
    telling: Telling, where: dict[str, Any], pieces: tuple[str, ...], summary: list[dict[str, str]]
) -> Iterator[Step]:
    kind, part = "response.reasoning_summary", {"type": "summary_text", "text": ""}
    yield 0, telling.event(f"{kind}_part.added", **where, part=part)
    text = ""
    for piece in telling.think(pieces):
        text += piece
        yield 1, telling.event(f"{kind}_text.delta", **where, delta=piece)
    part = {"type": "summary_text", "text": text}
    yield 0, telling.event(f"{kind}_text.done", **where, text=text)
    yield 0, telling.event(f"{kind}_part.done", **where, part=part)
    summary.append(part)


def _say(telling: Telling, index: int, said: Say) -> Iterator[Step]:
    own = telling.own("msg", index)
    where = {"item_id": own, "output_index": index, "content_index": 0}
    key, kind = ("refusal", "refusal") if said.refusal else ("text", "output_text")
    bare: dict[str, Any] = {} if said.refusal else {"logprobs": []}
    part = {"type": kind, **({} if said.refusal else {"annotations": []}), **bare}
    item = {"id": own, "type": "message", "role": "assistant", "status": "in_progress"}
    yield 0, telling.item("added", index, {**item, "content": []})
    yield 0, telling.event("response.content_part.added", **where, part={**part, key: ""})
    text = ""
    for piece in telling.spend(said.pieces):
        text += piece
        yield 1, telling.event(f"response.{kind}.delta", **where, delta=piece, **bare)
    part = {**part, key: text}
    yield 0, telling.event(f"response.{kind}.done", **where, **{key: text}, **bare)
    yield 0, telling.event("response.content_part.done", **where, part=part)
    yield 0, telling.item("done", index, {**item, "status": telling.status, "content": [part]})


def _call(telling: Telling, index: int, call: Call) -> Iterator[Step]:
    prefix, kind, key, event = _CALLS[call.kind]
    own = telling.own(prefix, index)
    where = {"item_id": own, "output_index": index}
    item = {"id": own, "type": kind, "call_id": telling.own("call", index), "name": call.name}
    # Custom calls carry no status, and the end of their input no name.
    function = call.kind == "function"
    opened = {"status": "in_progress"} if function else {}
    named = {"name": call.name} if function else {}
    yield 0, telling.item("added", index, {**item, **opened, key: ""})
    text = ""
    for piece in telling.spend(call.pieces):
        text += piece
        yield 1, telling.event(f"response.{event}.delta", **where, delta=piece)
    yield 0, telling.event(f"response.{event}.done", **where, **{key: text}, **named)
    closed = {"status": telling.status} if function else {}
    yield 0, telling.item("done", index, {**item, **closed, key: text})
