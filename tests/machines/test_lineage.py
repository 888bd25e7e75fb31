"""Chains, forks and the cache, case by case (protocol.md 3)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from lanes.errors import ClientFault
from lanes.history.entries import Entry, input_items
from lanes.history.lineage import ENTRY_BYTES, NODE_BYTES, Lineage, Node, resolve_input

REASONING: dict[str, Any] = {
    "id": "rs1",
    "type": "reasoning",
    "summary": [],
    "content": None,
    "encrypted_content": "gAAA==",
    "x": 0,
}


def assistant(text: str, item_id: str = "m") -> dict[str, Any]:
    """What a model answers."""
    content = [{"type": "output_text", "text": text}]
    return {"type": "message", "id": item_id, "role": "assistant", "content": content}


def turn(
    lineage: Lineage,
    id: str,
    value: Any,
    *outputs: dict[str, Any],
    lane: str | None = "a",
    after: str | None = None,
) -> Node:
    """One response from start to end."""
    parent = lineage.resolve(after)
    entries = resolve_input(input_items(value), parent, lineage)
    return lineage.keep(id, lane, parent, entries, [Entry.of(item) for item in outputs])


def history(lineage: Lineage, id: str) -> list[Any]:
    """All that a continuation of this response sends first."""
    return [json.loads(item) for item in lineage.effective(lineage.resolve(id))]


def user(text: str) -> dict[str, Any]:
    """A string turn as an item."""
    content = [{"type": "input_text", "text": text}]
    return {"type": "message", "role": "user", "content": content}


def test_no_parent_starts_a_new_chain_on_a_used_lane_too() -> None:
    lineage = Lineage()
    turn(lineage, "r1", "one", assistant("1"))
    turn(lineage, "r2", "two", assistant("2"))
    assert lineage.resolve(None) is None
    assert lineage.effective(None) == []
    assert history(lineage, "r2") == [user("two"), assistant("2")]
    assert history(lineage, "r1") == [user("one"), assistant("1")]


def test_an_unknown_parent_is_named_in_the_error() -> None:
    with pytest.raises(ClientFault, match="'resp_x' not found") as caught:
        Lineage().resolve("resp_x")
    fault = caught.value
    assert (fault.code, fault.status) == ("previous_response_not_found", 400)
    assert (fault.type, fault.param) == ("invalid_request_error", "previous_response_id")


def test_b20_items_are_replayed_in_their_order_before_the_tool_output() -> None:
    lineage = Lineage()
    call = {"type": "function_call", "id": "fc1", "call_id": "c1", "name": "w", "arguments": "{}"}
    result = {"type": "function_call_output", "call_id": "c1", "output": "ok"}
    turn(lineage, "r1", "hi", assistant("let me see", "m1"), call)
    turn(lineage, "r2", [result], after="r1")
    assert history(lineage, "r2") == [user("hi"), assistant("let me see", "m1"), call, result]


def test_b22_every_turn_is_carried_once_at_any_depth() -> None:
    lineage = Lineage()
    turn(lineage, "r1", "my name is Ana", assistant("hello"))
    turn(lineage, "r2", "ok", assistant("fine"), after="r1")
    turn(lineage, "r3", "name?", assistant("Ana"), after="r2")
    words = [user("my name is Ana"), assistant("hello"), user("ok"), assistant("fine")]
    assert history(lineage, "r2") == words
    assert history(lineage, "r3") == [*words, user("name?"), assistant("Ana")]


def test_b24_items_are_replayed_value_for_value() -> None:
    lineage = Lineage()
    turn(lineage, "r1", [REASONING], REASONING)
    assert history(lineage, "r1") == [REASONING, REASONING]
    assert json.dumps(history(lineage, "r1")[0]) == json.dumps(REASONING)


def test_a_backends_own_form_is_replayed_and_found_by_the_clients_name_for_it() -> None:
    lineage = Lineage()
    entry = Entry.of(assistant("x", "msg_ours"), b'{"id":"theirs"}')
    node = lineage.keep("r1", "a", None, [], [entry])
    assert lineage.effective(node) == [b'{"id":"theirs"}']
    assert lineage.find_items(node, {"msg_ours"})["msg_ours"].data == b'{"id":"theirs"}'
    assert not lineage.find_items(node, {"theirs"})


def test_b33_a_warm_up_is_a_parent_twice_and_from_other_lanes() -> None:
    lineage = Lineage()
    turn(lineage, "rW", "context", lane="a")
    turn(lineage, "rB", "b", assistant("B"), lane="b", after="rW")
    turn(lineage, "rC", "c", assistant("C"), lane="c", after="rW")
    assert history(lineage, "rB") == [user("context"), user("b"), assistant("B")]
    assert history(lineage, "rC") == [user("context"), user("c"), assistant("C")]


def test_b34_forks_do_not_see_each_other_and_share_their_parent() -> None:
    lineage = Lineage()
    parent = turn(lineage, "rP", "p", assistant("P"), lane="p")
    before = lineage.bytes_held
    x = turn(lineage, "rX", "x", assistant("X"), lane="x", after="rP")
    y = turn(lineage, "rY", "y", assistant("Y"), lane="y", after="rP")
    assert history(lineage, "rX") == [user("p"), assistant("P"), user("x"), assistant("X")]
    assert history(lineage, "rY") == [user("p"), assistant("P"), user("y"), assistant("Y")]
    assert history(lineage, "rP") == [user("p"), assistant("P")]
    assert x.parent is y.parent is parent
    assert lineage.effective(x)[0] is lineage.effective(y)[0]
    assert lineage.bytes_held == before + x.size + y.size


def test_a_chain_of_10_000_is_walked_counted_and_released() -> None:
    lineage = Lineage(max_bytes=0)
    node = None
    for number in range(10_000):
        item = {"type": "function_call", "id": f"i{number}", "call_id": f"c{number}"}
        node = lineage.keep(f"r{number}", "a", node, [], [Entry.of(item)])
    assert len(lineage.effective(node)) == 10_000
    assert resolve_input([{"type": "function_call_output", "call_id": "c0"}], node, lineage)
    assert lineage.find_items(node, {"i0"})
    assert lineage.find("r9998") is None
    assert lineage.bytes_held > 10_000 * NODE_BYTES
    lineage.evict_failed("a", "r9999")
    assert lineage.bytes_held == 0


def test_the_bytes_are_those_of_the_items_and_what_it_costs_to_keep_them() -> None:
    lineage = Lineage()
    node = lineage.keep("r1", None, None, [Entry(b"12345")], [Entry(b"123")])
    assert node.size == lineage.bytes_held == NODE_BYTES + 2 * ENTRY_BYTES + 8


def test_the_ids_unused_for_longest_are_evicted_and_the_heads_stay() -> None:
    lineage = Lineage(max_bytes=4 * NODE_BYTES)
    lineage.keep("old head", "b", None, [], [])
    for number in (1, 2, 3):
        lineage.keep(f"r{number}", "a", None, [], [])
    lineage.resolve("r1")
    lineage.keep("r4", "a", None, [], [])
    kept = [id for id in ("old head", "r1", "r2", "r3", "r4") if lineage.find(id)]
    assert kept == ["old head", "r1", "r3", "r4"]
    assert lineage.bytes_held == 4 * NODE_BYTES


def test_an_evicted_id_is_no_parent_but_stays_counted_while_it_is_built_on() -> None:
    lineage = Lineage(max_bytes=NODE_BYTES)
    first = lineage.keep("r1", "a", None, [], [])
    second = lineage.keep("r2", "a", first, [], [])
    assert lineage.find("r1") is None
    assert lineage.bytes_held == first.size + second.size
    lineage.keep("r3", "a", None, [], [])
    assert lineage.bytes_held == NODE_BYTES


def test_a_parent_forgotten_during_the_run_counts_again_when_the_run_is_kept() -> None:
    lineage = Lineage(max_bytes=NODE_BYTES)
    grandparent = Node.of("r0", None, None, [], [])  # as from the response store
    parent = lineage.keep("r1", "a", grandparent, [], [])
    lineage.evict_failed("a", "r1")
    assert lineage.bytes_held == 0
    lineage.keep("r2", "b", parent, [], [])
    assert lineage.bytes_held == 3 * NODE_BYTES


def test_a_failed_continuation_evicts_its_parent_on_the_same_lane_only() -> None:
    lineage = Lineage()
    turn(lineage, "r1", "hi", lane="a")
    lineage.evict_failed("b", "r1")
    lineage.evict_failed(None, "r1")
    lineage.evict_failed("a", None)
    lineage.evict_failed("a", "unknown")
    assert lineage.find("r1") is not None
    lineage.evict_failed("a", "r1")
    assert lineage.find("r1") is None
    assert lineage.bytes_held == 0


def test_any_response_of_the_lane_is_evicted_so_and_the_head_stays_pinned() -> None:
    lineage = Lineage(max_bytes=2 * NODE_BYTES)
    for id in ("r1", "r2"):
        lineage.keep(id, None, None, [], [])
    lineage.evict_failed(None, "r1")
    assert lineage.find("r1") is None
    lineage.keep("other", "a", None, [], [])
    lineage.keep("other 2", "a", None, [], [])
    assert lineage.find("r2") is not None


def test_an_id_kept_twice_is_held_once() -> None:
    lineage = Lineage()
    lineage.keep("r1", "a", None, [], [])
    node = lineage.keep("r1", "b", None, [Entry(b"1")], [])
    assert lineage.find("r1") is node
    assert lineage.bytes_held == node.size
