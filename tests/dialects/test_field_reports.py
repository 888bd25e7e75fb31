"""docs/field-cases.md 11: answers of Chat Completions backends, as public reports show them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from lanes.codec import encode
from tests.dialects.chatting import DONE, USAGE, call, chunk, counted, hear, outcome, text
from tests.machines.drive import REQUEST

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.machines.drive import Played

#: A chunk, or bytes as they are.
Piece = Any
SAID = ["completed", "message ab"]
CALLED = ["completed", 'function_call  f {"a":1}']
THOUGHT = ["completed", "reasoning Hm", "message ab"]


def said(*pieces: Piece, end: str = "\n\n") -> bytes:
    """The body of these pieces; objects become events."""
    return b"".join(
        one if isinstance(one, bytes) else b"data: %b%b" % (encode(one), end.encode())
        for one in pieces
    )


def last(finish: Any = "stop", **delta: Any) -> list[Piece]:
    return [chunk(finish, **delta), counted(), DONE]


def choice(extra: dict[str, Any] | None = None, **fields: Any) -> dict[str, Any]:
    """A chunk whose choice has these fields."""
    return {**chunk(), "choices": [{"index": 0, **fields}], **(extra or {})}


def entry(**fields: Any) -> dict[str, Any]:
    return chunk(tool_calls=[fields])


FILTER = {"hate": {"filtered": False, "severity": "safe"}}
NOTHING: dict[str, Any] = {"total_tokens": 0, "total_characters": 0}

#: Case -> the body, and what becomes of it.
BODIES: dict[str, tuple[bytes, list[str]]] = {
    "C01 the key `reasoning`": (said(chunk(reasoning="Hm"), *text("a", "b"), *last()), THOUGHT),
    "C02 reasoning and text in one delta": (
        said(chunk(reasoning_content="H"), chunk(reasoning_content="m", content="a"),
             *text("b"), *last()),
        THOUGHT,
    ),
    "C03 a finish_reason twice": (
        said(*text("a"), chunk("stop", content="b"), chunk("stop"), counted(), DONE),
        SAID,
    ),
    "C04 a call that ends by stop": (said(call(0, "f", '{"a":1}', "c1"), *last("stop")), CALLED),
    "C05 a finish_reason beside the reasoning, before the text": (
        said(chunk("stop", reasoning_content="Hm"), *text("a", "b"), *last()),
        THOUGHT,
    ),
    "C06 an empty finish_reason on each chunk": (
        said(chunk("", content="a"), chunk("", content="b"), *last()),
        SAID,
    ),
    "C07 text in the last chunk": (said(*text("a"), *last("stop", content="b")), SAID),
    "C08 nulls beside the reasoning": (
        said(chunk(role=None, content=None, reasoning_content="Hm", tool_calls=None),
             *text("a", "b"), *last()),
        THOUGHT,
    ),
    "C10 timings in each chunk": (
        said(*({**one, "timings": {"cache_n": 7}} for one in text("a", "b")), *last()),
        SAID,
    ),
    "C12 empty names after the first": (
        said(call(0, "f", '{"a"', "c1"), call(0, "", ":1}", ""), *last("tool_calls")),
        CALLED,
    ),
    "C15 reasoning_details in pieces": (
        said(*(chunk(reasoning_details=[{"type": "reasoning.text", "text": one}])
               for one in ("H", "m")), *text("a", "b"), *last()),
        THOUGHT,
    ),
    "C16 an empty role and empty counts in each chunk": (
        said(*({**chunk(role="", content=one), "usage": NOTHING} for one in ("a", "b")),
             *last()),
        SAID,
    ),
    "C18 a call in pieces without an index": (
        said(entry(id="c1", type="function", function={"name": "f", "arguments": '{"a"'}),
             entry(function={"arguments": ":1}"}), *last("stop")),
        CALLED,
    ),
    "C19 two whole calls without an index": (
        said(entry(id="c1", function={"name": "f", "arguments": '{"a":1}'}),
             entry(id="c2", function={"name": "f", "arguments": '{"a":2}'}), *last("stop")),
        [*CALLED, 'function_call  f {"a":2}'],
    ),
    "C20 the key `reasoning_text`": (
        said(chunk(reasoning_text="Hm"), *text("a", "b"), *last()),
        THOUGHT,
    ),
    "C21 a call without arguments": (
        said(call(0, "f", "", "c1"), *last("tool_calls")),
        ["completed", "function_call  f {}"],
    ),
    "C25 comments at the start": (
        said(b": OPENROUTER PROCESSING\n\n" * 2, *text("a", "b"), *last()),
        SAID,
    ),
    "C27 a first chunk about filters": (
        said({"id": "", "choices": [], "created": 0, "model": "", "object": "",
              "prompt_filter_results": [{"prompt_index": 0, "content_filter_results": FILTER}]},
             *text("a", "b"), *last()),
        SAID,
    ),
    "C28 a choice about filters, without a delta": (
        said(*text("a"), choice(finish_reason=None, content_filter_results=FILTER,
                                content_filter_offsets={"check_offset": 44}),
             *text("b"), *last(),
             choice(finish_reason=None, content_filter_results=FILTER)),
        SAID,
    ),
    "C29 `data: null`": (said(*text("a"), b"data: null\n\n", *text("b"), *last()), SAID),
    "C30 `data:` without data": (
        said(*text("a"), b"data:\n\n", b"data: \n\n", *text("b"), *last()),
        SAID,
    ),
    "C31 comments that end with their line": (
        said(b"id: 1\n", *text("a"), b": ping\n", *text("b"), b": ping\n", *last()),
        SAID,
    ),
    "C34 line ends of Unicode within the text": (
        said(*text("a\u2028b\u2029c\u0085d"), *last()),
        ["completed", "message a\u2028b\u2029c\u0085d"],
    ),
    "C36 an event that a proxy has torn": (
        said(*text("a"), b'data: {"choices":[{"index":0,"delta":{"con\n\n',
             b'tent":"b"}}]}\n\n', *last()),
        ["failed", "message a"],
    ),
    "C38 `end_turn`": (said(*text("a", "b"), *last("end_turn")), SAID),
    "C39 no finish_reason and no end": (said(*text("a", "b")), ["failed", "message ab"]),
    "C40 reasoning alone, up to the limit": (
        said(chunk(reasoning="Hm"), *last("length")),
        ["incomplete", "reasoning Hm"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("size", [1, 4096])
@pytest.mark.parametrize("case", BODIES)
def test_what_becomes_of_it(case: str, size: int) -> None:
    body, expected = BODIES[case]
    played = hear([body[at : at + size] for at in range(0, len(body), size)])
    assert outcome(played) == expected


def _usage(played: Played) -> Any:
    return played.terminal["usage"]


#: Case -> the body, and the tokens that are counted.
COUNTS: dict[str, tuple[bytes, int]] = {
    "C14 usage within the choice": (
        said(*text("a"), choice(delta={}, finish_reason="stop", usage=USAGE), DONE),
        5,
    ),
    "C16 empty counts in each chunk": (
        said(*({**one, "usage": NOTHING} for one in text("a")),
             {**chunk("stop"), "usage": NOTHING}, counted(), DONE),
        5,
    ),
    "C26 usage in the last chunk with text": (
        said({**chunk("stop", content="a"), "usage": USAGE}, DONE),
        5,
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", COUNTS)
def test_what_it_counts(case: str) -> None:
    body, total = COUNTS[case]
    played = hear([body])
    assert outcome(played) == ["completed", "message a"]
    assert _usage(played)["total_tokens"] == total


CONTEXT = {"code": 400, "message": "the request exceeds the available context size",
           "type": "exceed_context_size_error"}  # fmt: skip
CAPACITY = {"code": 502, "message": "Worker local total request limit reached (33/32)"}
MINIMAX = {"status_code": 1008, "status_msg": "insufficient balance"}
#: Case -> the body, and what the error says.
ERRORS: dict[str, tuple[bytes, str]] = {
    "C09 an error in its own field": (b"error: " + encode(CONTEXT) + b"\n\n", "context size"),
    "C13 an error with its message twice": (
        said(*text("a"), {"error": {"message": "Compute error."}, "message": "Compute error."}),
        "Compute error.",
    ),
    "C22 an error beside empty choices": (
        said({**chunk(), "choices": [], "error": CAPACITY}, DONE),
        "Worker local",
    ),
    "C23 an error beside finish_reason `error`": (
        said(*text("a"), {**chunk("error", content=""), "error": CAPACITY}, DONE),
        "Worker local",
    ),
    "C24 an end that only its native reason calls an error": (
        said(choice(delta={"content": ""}, finish_reason="stop",
                    native_finish_reason="network_error"), counted(), DONE),
        "network_error",
    ),
    "C41 a status within the answer": (
        encode({"id": "x", "choices": None, "base_resp": MINIMAX}) + b"\n",
        "insufficient balance",
    ),
    "C42 a flat error": (
        encode({"code": "InvalidParameter", "message": "wrong", "request_id": "r"}), "wrong"
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", ERRORS)
def test_an_error_is_told(case: str) -> None:
    body, words = ERRORS[case]
    played = hear([body])
    fault = played.run.fault
    message = played.terminal["error"]["message"] if fault is None else fault.message
    assert words in message


#: Case -> the body, as somebody framed it.
FRAMES: dict[str, Callable[[list[Piece]], bytes]] = {
    "C32 a whole answer and an end glued to it": lambda _: encode(
        {"object": "chat.completion",
         "choices": [{"index": 0, "message": {"content": "ab"}, "finish_reason": "stop"}]}
    ) + b"data: [DONE]\n\n",
    "C33 CR LF": lambda pieces: said(*pieces).replace(b"\n", b"\r\n"),
    "C35 no blank lines": lambda pieces: said(*pieces, end="\n"),
    "C37 a blank before the first line": lambda pieces: b" " + said(*pieces),
}  # fmt: skip


@pytest.mark.parametrize("size", [1, 7, 4096])
@pytest.mark.parametrize("case", FRAMES)
def test_however_it_is_framed(case: str, size: int) -> None:
    body = FRAMES[case]([*text("a", "b"), *last()])
    played = hear([body[at : at + size] for at in range(0, len(body), size)], REQUEST)
    assert outcome(played) == SAID
