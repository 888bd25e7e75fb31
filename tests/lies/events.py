"""Bodies of events that are odd one by one or in their order, and the end each must come to.

An end is written as `seen` in `tests/lies/ends.py` writes it.
"""

from __future__ import annotations

from typing import Any

from tests.support.events import (
    call,
    called,
    closed,
    completed,
    created,
    data,
    delta,
    event,
    failed,
    in_progress,
    incomplete,
    item_added,
    item_done,
    message,
    opened,
    response,
)

#: The name of a lie, the reads in which it comes, and the end.
Rows = dict[str, tuple[list[bytes], str]]

ABC = "completed: message abc"
FAILED = "failed server_error: message abc"


def text(*middle: bytes, output: Any = None, **extra: Any) -> list[bytes]:
    """A body with `abc` in it, and whatever else in its middle."""
    head = [created(), *opened(), delta("a"), *middle, delta("b"), delta("c")]
    whole = [message("abc")] if output is None else output
    return [*head, *closed("abc"), completed("r1", whole, **extra)]


def raw(kind: str, **fields: Any) -> bytes:
    return data({"type": f"response.{kind}", **fields})


def nameless(item: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in item.items() if key != "id"}


def placed(kind: str, index: Any) -> list[bytes]:
    """A message all of whose events claim to be at that `output_index`."""
    at = {"output_index": index, "item_id": "m1", "content_index": 0}
    return [
        created(),
        raw("output_item.added", output_index=index, item=message("")),
        *(raw("output_text.delta", **at, delta=letter) for letter in "abc"),
        raw("output_item.done", output_index=index, item=message("abc")),
        completed("r1", [message("abc")]),
    ]


CALL = "completed: function_call c1 look {}"
ORDER: Rows = {
    "a delta before its item": (
        [created(), delta("a"), *opened(), delta("b"), delta("c"), *closed("abc"), completed()],
        ABC,
    ),
    "deltas without any item": ([created(), *map(delta, "abc"), completed()], ABC),
    "an item added twice": (text(item_added(message(""))), ABC),
    "an item added twice without ids": (
        [
            created(),
            *[item_added(nameless(message("")))] * 2,
            *[raw("output_text.delta", delta=letter) for letter in "abc"],
            completed(),
        ],
        ABC,
    ),
    "an item added again once done": (
        [created(), *opened(), *map(delta, "abc"), *closed("abc"), *opened(), completed()],
        ABC,
    ),
    "an item done twice": (
        [created(), *opened(), *map(delta, "abc"), *closed("abc") * 2, completed()],
        ABC,
    ),
    "an item done twice without ids": (
        [created(), *[item_done(nameless(message("abc")))] * 2, completed()],
        ABC,
    ),
    "an item never added": ([created(), item_done(message("abc")), completed()], ABC),
    "an item never done": ([created(), *opened(), *map(delta, "abc"), completed()], ABC),
    "deltas after their end": (
        [created(), *opened(), *map(delta, "abc"), *closed("abc"), delta("d"), completed()],
        ABC,
    ),
    "a part's end before its text's": (
        [created(), *opened(), *map(delta, "abc"), *closed("abc")[::-1], completed()],
        ABC,
    ),
    "another call_id in done": (
        [created(), *called("look")[:3], item_done(call("look", call_id="c2")), completed()],
        CALL,
    ),
    "another call_id in completed": (
        [created(), *called("look"), completed("r1", [call("look", call_id="c2")])],
        CALL,
    ),
    "all names change in completed": (
        [created(), *called("look"), completed("r1", [call("look", call_id="c2", item="f2")])],
        CALL,
    ),
    "another call's name in done": (
        [created(), *called("look")[:3], item_done(call("other")), completed()],
        CALL,
    ),
    "created twice": (text(created("r2"), in_progress("r3")), ABC),
    "in_progress first": ([in_progress(), *text()], ABC),
    "in_progress only": ([in_progress(), *text()[1:]], ABC),
    "no beginning": (text()[1:], ABC),
    "a terminal only": ([completed("r1", [message("abc")])], ABC),
    "a failure only": ([failed()], "failed server_error"),
    "an empty response": ([created(), completed()], "completed"),
    "a beginning in the end": ([*text(), created("r2"), *opened("m9")], ABC),
    "a terminal twice": ([*text(), completed("r1", [message("x")])], ABC),
    "another terminal after it": ([*text(), failed(), incomplete()], ABC),
    "an error after it": ([*text(), event("error", message="late"), data("[DONE]")], ABC),
    "garbage after it": ([*text(), b"data: {{{\n\n", b"\xff\xfe\n\n"], ABC),
    "failed twice": ([*text()[:-4], failed(), failed()], FAILED),
    "an error and then failed": (
        [*text()[:-4], event("error", message="boom"), failed()],
        FAILED,
    ),
    "a cut": (text()[:-4], FAILED),
    "done instead of an end": ([*text()[:-4], data("[DONE]")], FAILED),
    "done in the middle": ([*text()[:-4], data("[DONE]"), *text()[-4:]], FAILED),
    "numbers that go back": (
        [
            raw("created", sequence_number=9, response={"id": "r1"}),
            *(raw("output_text.delta", item_id="m1", delta=x, sequence_number=-1) for x in "abc"),
            raw("completed", sequence_number=2**70, response={"id": "r1"}),
        ],
        ABC,
    ),
    "numbers that are none": (
        [
            raw("created", sequence_number="first", response={"id": "r1"}),
            *(raw("output_text.delta", item_id="m1", delta=x, sequence_number=[]) for x in "abc"),
            raw("completed", sequence_number=None, response={"id": "r1"}),
        ],
        ABC,
    ),
}

PLACES: list[Any] = [-1, -(2**63), 2**31, 2**70, 0.5, 1e300, "0", "x", None, True, [], {}]
INDICES: Rows = {
    **{f"output_index {place!r}": (placed("output_index", place), ABC) for place in PLACES},
    **{
        f"content_index {place!r}": (
            [
                created(),
                item_added(message("")),
                *(
                    raw("output_text.delta", item_id="m1", content_index=place, delta=x)
                    for x in "abc"
                ),
                completed("r1", [message("abc")]),
            ],
            ABC,
        )
        for place in PLACES
    },
    "no index at all": (
        [
            created(),
            raw("output_item.added", item=message("")),
            *(raw("output_text.delta", item_id="m1", delta=x) for x in "abc"),
            raw("output_item.done", item=message("abc")),
            completed("r1", [message("abc")]),
        ],
        ABC,
    ),
    "another index each time": (
        [
            created(),
            item_added(message(""), 7),
            *(delta(x, index=n) for n, x in enumerate("abc")),
            item_done(message("abc"), 9),
            completed("r1", [message("abc")]),
        ],
        ABC,
    ),
}

TYPES: Rows = {
    "no type but an event line": (
        [
            b'event: response.created\ndata: {"response":{"id":"r1"}}\n\n',
            *[
                b'event: response.output_text.delta\ndata: {"item_id":"m1","delta":"%c"}\n\n' % x
                for x in b"abc"
            ],
            b'event: response.completed\ndata: {"response":{"id":"r1"}}\n\n',
        ],
        ABC,
    ),
    "wrong event lines": (
        [b"event: response.failed\n" + e.partition(b"\n")[2] for e in text()],
        ABC,
    ),
    "event lines that are none": ([b"event: \xff\xfe\n" + e for e in text()], ABC),
    "neither type nor event line": (text(data({"delta": "x", "item_id": "m1"})), ABC),
    "a number for a type": (text(data({"type": 5, "delta": "x"})), ABC),
    "a list for a type": (text(data({"type": ["response.completed"]})), ABC),
    "an empty type": (text(data({"type": ""})), ABC),
    "an unknown type": (text(raw("zebra", stripes=[1, None])), ABC),
    "an unknown type about nobody": (text(raw("zebra", item_id=5, output_index="x")), ABC),
    "a type of another API": (text(data({"type": "message_delta", "delta": {}})), ABC),
    "chunks of another API": (text(data(response("r1", "x") | {"object": "chunk"})), ABC),
    "keepalive": (text(data({"type": "keepalive"}), data({"type": "ping"}), b": hi\n\n"), ABC),
}
