"""What a create's input may refer to: calls and items (protocol.md 3)."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from lanes.errors import ClientFault
from lanes.history.entries import Entry, input_items
from lanes.history.lineage import Lineage, resolve_input

CALLS = [
    {"type": "function_call", "id": "x", "call_id": "c1"},
    {"type": "custom_tool_call", "id": "x", "call_id": "c1"},
    {"type": "computer_call", "id": "x", "call_id": "c1"},
    {"type": "shell_call", "call_id": "c1"},
    {"type": "local_shell_call", "id": "c1", "call_id": "x"},
    {"type": "local_shell_call", "id": "x", "call_id": "c1"},
    {"type": "apply_patch_call", "call_id": "c1"},
    {"type": "tool_search_call", "id": "x", "call_id": "c1"},
    {"type": "program", "id": "x", "call_id": "c1"},
    {"type": "zebra_call", "id": "c1"},
    {"type": "zebra_call", "id": "c1", "call_id": None},
    {"type": "zebra", "call_id": "c1"},
]
OUTPUTS = [
    {"type": "function_call_output", "call_id": "c1"},
    {"type": "custom_tool_call_output", "call_id": "c1"},
    {"type": "computer_call_output", "call_id": "c1"},
    {"type": "shell_call_output", "call_id": "c1"},
    {"type": "local_shell_call_output", "call_id": "c1"},
    {"type": "local_shell_call_output", "id": "c1"},
    {"type": "apply_patch_call_output", "call_id": "c1"},
    {"type": "tool_search_output", "call_id": "c1"},
    {"type": "program_output", "call_id": "c1"},
    {"type": "zebra_output", "call_id": "c1"},
]
OTHERS: list[dict[str, Any]] = [
    {"type": "message", "id": "c1", "role": "user", "content": "hi"},
    {"role": "user", "content": "hi", "id": "c1"},
    {"type": "function_call_output", "call_id": "c1"},
    {"type": "function_call", "id": "c1", "call_id": "x"},
    {"type": "function_call", "call_id": 1},
    {"type": "mcp_approval_request", "id": "c1"},
    {"type": "web_search_call", "id": 1},
    {"type": 42, "call_id": None},
]


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("where", ["chain", "input", "same input"])
def test_b27_every_kind_of_call_is_known(call: dict[str, Any], where: str) -> None:
    lineage = Lineage()
    entry = [Entry.of(call)]
    first = lineage.keep("r1", "a", None, *((entry, []) if where == "input" else ([], entry)))
    node = lineage.keep("r2", "a", first, [], [])
    for output in OUTPUTS:
        items = [output, call] if where == "same input" else [output]
        entries = resolve_input(items, None if where == "same input" else node, lineage)
        assert [entry.data for entry in entries] == [msgspec.json.encode(one) for one in items]


@pytest.mark.parametrize("output", OUTPUTS)
@pytest.mark.parametrize("other", OTHERS)
def test_b28_an_output_without_its_call_is_refused(
    output: dict[str, Any], other: dict[str, Any]
) -> None:
    lineage = Lineage()
    node = lineage.keep("r1", "a", None, [Entry.of(other)], [])
    with pytest.raises(ClientFault, match=r"^No tool call found for .* with call_id c1\.$") as e:
        resolve_input([{"role": "user", "content": "x"}, output], node, lineage)
    assert (e.value.status, e.value.code, e.value.param) == (400, "invalid_value", "input")
    assert e.value.type == "invalid_request_error"


def test_b28_a_call_is_found_two_responses_back_but_not_on_another_branch() -> None:
    lineage = Lineage()
    call = {"type": "function_call", "call_id": "c1"}
    result = {"type": "function_call_output", "call_id": "c1", "output": "late"}
    first = lineage.keep("r1", "a", None, [], [Entry.of(call)])
    second = lineage.keep("r2", "a", first, [Entry.of({"role": "user", "content": "x"})], [])
    branch = lineage.keep("r3", "b", None, [], [])
    assert resolve_input([result], second, lineage) == (Entry.of(result),)
    with pytest.raises(ClientFault, match="c1"):
        resolve_input([result], branch, lineage)
    ghost = {"type": "function_call_output", "call_id": "ghost"}
    with pytest.raises(ClientFault, match=r"for function call output with call_id ghost\."):
        resolve_input([result, ghost], second, lineage)


def test_approvals_answer_requests_and_no_call() -> None:
    lineage = Lineage()
    request = Entry.of({"type": "mcp_approval_request", "id": "q1"})
    call = Entry.of({"type": "function_call", "call_id": "c1"})
    node = lineage.keep("r1", "a", None, [], [request, call])
    fine = {"type": "mcp_approval_response", "approval_request_id": "q1", "approve": True}
    assert len(resolve_input([fine], node, lineage)) == 1
    with pytest.raises(ClientFault, match="mcp approval response with approval_request_id c1"):
        resolve_input([fine | {"approval_request_id": "c1"}], node, lineage)
    with pytest.raises(ClientFault, match="call_id q1"):
        resolve_input([{"type": "function_call_output", "call_id": "q1"}], node, lineage)


@pytest.mark.parametrize(
    "item",
    [
        {"type": "function_call_output", "output": "no call_id"},
        {"type": "tool_search_output", "call_id": None, "execution": "server"},
        {"type": "function_call_output", "call_id": 7},
        {"type": "local_shell_call_output"},
        {"type": "mcp_approval_response"},
        {"type": ["odd"], "call_id": {}},
        {},
    ],
)
def test_what_names_no_call_is_left_to_the_backend(item: dict[str, Any]) -> None:
    assert resolve_input([item], None, Lineage()) == (Entry.of(item),)


def test_references_become_the_items_they_name() -> None:
    lineage = Lineage()
    ours, theirs, only = ({"id": id, "type": "message", "n": n} for id, n in ("i1", "i2", "j3"))
    ours["id"] = theirs["id"] = "i"
    node = lineage.keep("r1", "a", None, [], [Entry.of(ours)])
    lineage.keep("r2", "b", None, [], [Entry.of(theirs), Entry.of(only)])
    items: list[dict[str, Any]] = [
        {"type": "item_reference", "id": "i"},
        {"role": "user", "content": "between"},
        {"id": only["id"]},
        {"type": None, "id": "i"},
    ]
    entries = resolve_input(items, node, lineage)
    assert [msgspec.json.decode(entry.data) for entry in entries] == [ours, items[1], only, ours]
    (latest,) = resolve_input(items[:1], None, lineage)
    assert latest.data == msgspec.json.encode(theirs)
    assert lineage.find_items(None, {"i"}) == {"i": latest}


def test_a_call_that_is_referred_to_can_be_answered() -> None:
    lineage = Lineage()
    call = {"type": "function_call", "id": "f1", "call_id": "c1"}
    lineage.keep("r1", "a", None, [], [Entry.of(call)])
    result = {"type": "function_call_output", "call_id": "c1"}
    entries = resolve_input([{"type": "item_reference", "id": "f1"}, result], None, lineage)
    assert entries == (Entry.of(call), Entry.of(result))


@pytest.mark.parametrize("id", ["gone", None, 3, ""])
def test_unknown_references_are_refused(id: object) -> None:
    lineage = Lineage()
    lineage.keep("r1", "a", None, [], [Entry.of({"id": "gone", "type": "message"})])
    lineage.evict_failed("a", "r1")
    with pytest.raises(ClientFault) as caught:
        resolve_input([{"type": "item_reference", "id": id}], None, lineage)
    assert (caught.value.status, caught.value.param) == (400, "input")
    assert caught.value.code == "invalid_value"
    assert "'gone'" in caught.value.message or id != "gone"


@pytest.mark.parametrize("item", [{"id": "x", "role": "user"}, {"type": "message", "id": "x"}])
def test_an_item_with_an_id_is_no_reference(item: dict[str, Any]) -> None:
    assert resolve_input([item], None, Lineage()) == (Entry.of(item),)


def test_an_item_of_two_responses_is_found_until_both_are_gone() -> None:
    lineage = Lineage()
    entry = Entry.of({"type": "message", "id": "i", "n": 1})
    lineage.keep("r1", "a", None, [], [entry])
    lineage.keep("r2", "b", None, [entry], [])
    lineage.evict_failed("b", "r2")
    assert lineage.find_items(None, {"i"}) == {"i": entry}
    lineage.evict_failed("a", "r1")
    assert not lineage.find_items(None, {"i"})


@pytest.mark.parametrize(
    ("value", "texts"), [("hi", ["hi"]), ("", [""]), ([], []), (None, []), ("渐🙂", ["渐🙂"])]
)
def test_b59_input_comes_in_many_forms(value: Any, texts: list[str]) -> None:
    content = [[{"type": "input_text", "text": text}] for text in texts]
    assert input_items(value) == [
        {"type": "message", "role": "user", "content": parts} for parts in content
    ]


def test_b59_a_list_is_taken_as_it_is() -> None:
    items = [{"role": "user", "content": "x", "extra": None}]
    assert input_items(items) == items
    assert input_items(items) is not items
