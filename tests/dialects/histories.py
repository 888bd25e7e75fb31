"""Histories that some client and some backends might have made between them, drawn at random.

Each text is a numbered piece, `<7>`, so that whatever is lost, doubled or out of order shows.
"""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from hypothesis.strategies import DrawFn

    Item = dict[str, Any]

ARGUMENTS = ["", "{}", '{"a": 1}', "[1]", "null", "{", "5", '"x"', "NaN", "{}{}"]
STATUSES = st.sampled_from([None, "completed", "incomplete", "in_progress"])
IMAGE = {"type": "input_image", "image_url": "data:image/png;base64,iVBORw0KGgo="}


def _some(draw: DrawFn, **fields: Any) -> Item:
    """Any of these fields."""
    return {key: value for key, value in fields.items() if draw(st.booleans())}


def _asked(draw: DrawFn, piece: Callable[[], str]) -> list[Item]:
    texts = [piece() for _ in range(draw(st.integers(1, 3)))]
    parts = [{"type": "input_text", "text": text} for text in texts]
    if draw(st.booleans()):
        parts.append(IMAGE)
    content = texts[0] if draw(st.booleans()) else parts
    role = draw(st.sampled_from(["user", "user", "system", "developer"]))
    return [{"role": role, "content": content, **_some(draw, type="message", status="completed")}]


def _said(draw: DrawFn, piece: Callable[[], str]) -> list[Item]:
    extras: tuple[Item, ...] = (
        {},
        {"annotations": []},
        {"annotations": [], "logprobs": []},
        {"logprobs": None},
    )
    content: Any = piece()
    if draw(st.integers(0, 3)):
        content = []
        for _ in range(draw(st.integers(0, 3))):
            if draw(st.integers(0, 4)):
                part = {"type": "output_text", "text": piece(), **draw(st.sampled_from(extras))}
            else:
                part = {"type": "refusal", "refusal": piece()}
            content.append(part)
    item = {"type": "message", "role": "assistant", "content": content}
    return [item | _some(draw, id="msg-1", status=draw(STATUSES), phase=None, x={"y": [None]})]


def _thought(draw: DrawFn, piece: Callable[[], str]) -> list[Item]:
    texts = [f"thought {number}" for number in range(draw(st.integers(0, 2)))]
    content = [{"type": "reasoning_text", "text": text} for text in texts]
    summary = [{"type": "summary_text", "text": text} for text in texts]
    sealed = ["gAAAAABx", "", None, *(["".join(texts)] * 2)]
    return [
        {"type": "reasoning"}
        | _some(
            draw,
            id="rs_a",
            content=draw(st.sampled_from([content, [], None])),
            summary=draw(st.sampled_from([summary, []])),
            encrypted_content=draw(st.sampled_from(sealed)),
            status=draw(STATUSES),
        )
    ]


def _called(draw: DrawFn, piece: Callable[[], str]) -> list[Item]:
    name, output_text = piece(), piece()
    custom = draw(st.integers(0, 3)) == 0
    given = {"input": "ls"} if custom else {"arguments": draw(st.sampled_from(ARGUMENTS))}
    kind = "custom_tool_call" if custom else "function_call"
    call_id = f"call_{name[1:-1]}"
    call = {"type": kind, "call_id": call_id, "name": name, **given}
    call |= _some(draw, id="fc-1", status="completed")
    parts = [{"type": "input_text", "text": output_text}, *([IMAGE] if draw(st.booleans()) else [])]
    output = output_text if draw(st.booleans()) else parts
    answer = {"type": f"{kind}_output", "call_id": call_id, "output": output}
    between = _asked(draw, piece) if draw(st.booleans()) else []
    return [call, *between, answer] if draw(st.integers(0, 4)) else [call]


def _odd(draw: DrawFn, _: Callable[[], str]) -> list[Item]:
    return [
        draw(
            st.sampled_from(
                [
                    {"type": "item_reference", "id": "msg_1"},
                    {"type": "zebra", "id": "z1", "stripes": []},
                    {"type": "web_search_call", "id": "ws_1", "status": "completed"},
                ]
            )
        )
    ]


_KINDS = st.sampled_from([_asked, _said, _said, _thought, _thought, _called, _odd])


@st.composite
def histories(draw: DrawFn) -> list[Item]:
    """Items in any order; a call comes before its output."""
    numbers: Iterator[int] = count()
    made: list[Item] = []
    for kind in draw(st.lists(_KINDS, min_size=1, max_size=8)):
        made += kind(draw, lambda: f"<{next(numbers)}>")
    return made
