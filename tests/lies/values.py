"""Bodies whose values are of the wrong type or shape, and the end each must come to."""

from __future__ import annotations

from typing import Any

from tests.lies.events import ABC, CALL, Rows, raw, text
from tests.support.events import (
    USAGE,
    call,
    completed,
    created,
    data,
    delta,
    event,
    item_added,
    item_done,
    message,
    opened,
    response,
)

JUNK: list[Any] = [None, 5, -0.5, True, "", "x", [], [None], [[]], {}, {"a": 1}, 2**70]


def _rows(name: str, make: Any, end: str = ABC) -> Rows:
    return {f"{name} {junk!r}": (make(junk), end) for junk in JUNK}


def _word(junk: Any) -> bool:
    return isinstance(junk, str) and bool(junk)


def _created(junk: Any) -> list[bytes]:
    return [raw("created", response=junk), *text()[1:]]


def _item(key: str, junk: Any) -> list[bytes]:
    whole = message("abc") | {key: junk}
    head = [created(), item_added(message("") | {key: junk}), *map(delta, "abc")]
    return [*head, item_done(whole), completed("r1", [whole])]


def _call(key: str, junk: Any) -> list[bytes]:
    whole = call("look") | {key: junk}
    return [created(), item_added(call("look", "") | {key: junk}), item_done(whole), completed()]


def _reasoning(key: str, junk: Any) -> list[bytes]:
    whole: dict[str, Any] = {"type": "reasoning", "id": "rs1", "summary": [], key: junk}
    body = [created(), item_added(whole), item_done(whole), *text()[1:-1]]
    return [*body, completed("r1", [whole, message("abc")])]


def _part(key: str, junk: Any) -> list[bytes]:
    part = {"type": "output_text", "text": "abc", "annotations": [], key: junk}
    whole = message("abc") | {"content": [part]}
    at = {"item_id": "m1", "output_index": 0, "content_index": 0}
    return [
        *(created(), item_added(message(""))),
        event("response.content_part.added", **at, part=part | {"text": ""}),
        *map(delta, "abc"),
        event("response.content_part.done", **at, part=part),
        *(item_done(whole), completed("r1", [whole])),
    ]


VALUES: Rows = {
    **{
        f"delta {junk!r}": (text(raw("output_text.delta", item_id="m1", delta=junk)), ABC)
        for junk in JUNK
        if not _word(junk)
    },
    **_rows("item", lambda junk: text(raw("output_item.added", item=junk))),
    **_rows("item done", lambda junk: text(raw("output_item.done", item=junk))),
    **_rows("part", lambda junk: text(raw("content_part.added", item_id="m1", part=junk))),
    **_rows("part done", lambda junk: text(raw("content_part.done", item_id="m1", part=junk))),
    **_rows("item_id", lambda junk: text(raw("output_item.added", item_id=junk))),
    **_rows("response", _created),
    **_rows("response at the end", lambda junk: [*text()[:-1], raw("completed", response=junk)]),
    **_rows("output", lambda junk: text(output=junk)),
    **_rows("content", lambda junk: _item("content", junk)),
    **_rows("status", lambda junk: _item("status", junk)),
    **_rows("role", lambda junk: _item("role", junk)),
    **_rows("item's id", lambda junk: _item("id", junk)),
    **_rows("phase", lambda junk: _item("phase", junk)),
    **_rows("annotations", lambda junk: _part("annotations", junk)),
    **_rows("logprobs", lambda junk: _part("logprobs", junk)),
    **_rows("call's id", lambda junk: _call("id", junk), CALL),
    **_rows("call's status", lambda junk: _call("status", junk), CALL),
    **_rows("call's namespace", lambda junk: _call("namespace", junk), CALL),
    **_rows(
        "thought's status",
        lambda junk: _reasoning("status", junk),
        "completed: reasoning, message abc",
    ),
    **_rows(
        "thought's summary",
        lambda junk: _reasoning("summary", junk),
        "completed: reasoning, message abc",
    ),
    **_rows(
        "thought's content",
        lambda junk: _reasoning("content", junk),
        "completed: reasoning, message abc",
    ),
    **_rows(
        "secret",
        lambda junk: _reasoning("encrypted_content", junk),
        "completed: reasoning, message abc",
    ),
    "arguments that are an object": (
        [created(), item_done(call("look") | {"arguments": {}}), completed()],
        CALL,
    ),
    "arguments' end that is an object": (
        [
            *(created(), item_added(call("look", ""))),
            raw("function_call_arguments.done", item_id="f1", arguments={"a": [1]}),
            *(item_done(call("look") | {"arguments": {"a": [1]}}), completed()),
        ],
        'completed: function_call c1 look {"a":[1]}',
    ),
    "a summary in a message": (
        _item("summary", [{"type": "output_text", "text": "x"}]),
        ABC,
    ),
    "a summary in a thought's content": (
        _reasoning("content", [{"type": "summary_text", "text": "x"}]),
        "completed: reasoning, message abc",
    ),
    "a call's keys in a message": (
        [created(), item_done(message("abc") | {"call_id": 5, "arguments": []}), completed()],
        ABC,
    ),
    "a key twice": (
        text(
            b'data: {"type":"response.output_text.delta","item_id":"m1","delta":"x","delta":""}\n\n'
        ),
        ABC,
    ),
    "NaN": (text(b'data: {"type":"response.zebra","x":[NaN,Infinity,-1e999]}\n\n'), ABC),
}

_COUNTS: list[Any] = [None, "7", "x", -1, -(2**40), 2**70, 1.5, 7.0, True, [], {}]
USAGES: Rows = {
    **{
        f"usage with {key} {count!r}": (text(usage={**USAGE, key: count}), ABC)
        for key in ("input_tokens", "output_tokens", "total_tokens", "input_tokens_details")
        for count in _COUNTS
    },
    **{
        f"usage with details of {count!r}": (
            text(
                usage={
                    **USAGE,
                    "input_tokens_details": {"cached_tokens": count, "cache_write_tokens": count},
                    "output_tokens_details": {"reasoning_tokens": count},
                }
            ),
            ABC,
        )
        for count in _COUNTS
    },
    **{f"usage {junk!r}": (text(usage=junk), ABC) for junk in JUNK},
}


def _ended(kind: str, **fields: Any) -> list[bytes]:
    body = response("r1", fields.pop("status", "completed"), **fields)
    return [*text()[:-1], raw(kind, response=body)]


ENDS: Rows = {
    "completed but failed": (
        _ended("completed", status="failed"),
        FAILED := "failed server_error: message abc",
    ),
    "completed but cancelled": (_ended("completed", status="cancelled"), FAILED),
    "completed but queued": (_ended("completed", status="queued"), FAILED),
    "completed but incomplete": (
        _ended("completed", status="incomplete"),
        "incomplete max_output_tokens: message abc",
    ),
    "completed with a reason": (
        _ended("completed", incomplete_details={"reason": "content_filter"}),
        "incomplete content_filter: message abc",
    ),
    "completed with a reason nobody knows": (
        _ended("completed", incomplete_details={"reason": "zebra"}),
        "incomplete None: message abc",
    ),
    "completed with an error": (_ended("completed", error={"message": "boom"}), FAILED),
    "completed and in progress": (_ended("completed", status="in_progress"), ABC),
    "completed and nonsense": (_ended("completed", status=["x"]), ABC),
    "cancelled": (_ended("cancelled", status="cancelled"), FAILED),
    "failed without an error": (_ended("failed", status="failed", error=None), FAILED),
    "failed with a word": (_ended("failed", error="boom"), FAILED),
    "failed with a list": (_ended("failed", error=[{"message": "boom"}]), FAILED),
    "failed with a number": (_ended("failed", error=5), FAILED),
    "failed with a code": (
        _ended("failed", error={"code": 429, "message": None}),
        "failed rate_limit_exceeded: message abc",
    ),
    "incomplete without a reason": (
        _ended("incomplete"),
        "incomplete max_output_tokens: message abc",
    ),
    "incomplete with a list": (
        _ended("incomplete", incomplete_details=["x"]),
        "incomplete max_output_tokens: message abc",
    ),
    "incomplete with a number": (
        _ended("incomplete", incomplete_details={"reason": 7}),
        "incomplete None: message abc",
    ),
}

#: Items and parts of types that the official types do not know: they pass as they are.
UNKNOWN: Rows = {
    "an item of an unknown type": (
        [
            *(created(), item_added({"type": "zebra", "id": "z1", "stripes": 7})),
            *(item_done({"type": "zebra", "id": "z1", "stripes": 7}), *text()[1:-1], completed()),
        ],
        "completed: zebra, message abc",
    ),
    "an item of an unknown type at the end only": (
        [*text(output=[message("abc"), {"type": "zebra", "id": "z1"}])],
        "completed: message abc, zebra",
    ),
    "a part of an unknown type": (
        [
            *(created(), *opened(), delta("abc")),
            raw("content_part.added", item_id="m1", content_index=1, part={"type": "zebra"}),
            *(
                item_done(
                    message("abc") | {"content": [*message("abc")["content"], {"type": "zebra"}]}
                ),
            ),
            completed(),
        ],
        ABC,
    ),
    "text of an unknown kind": (
        text(data({"type": "response.zebra.delta", "item_id": "m1", "delta": "x"})),
        ABC,
    ),
}
