"""Tools in namespaces, for backends that know none: flat names, and the way back."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.upstream.dialect import dialect_names, find
from gateway.upstream.flat_tools import FlatTools
from gateway.upstream.restored_names import RestoredNames
from lanes.codec import encode
from tests.dialects.chat_asking import asked, output, user
from tests.dialects.chatting import call, whole

if TYPE_CHECKING:
    Json = dict[str, Any]

NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
FLAT = [name for name in dialect_names() if not find(name).namespaces]


def function(name: str, **more: Any) -> Json:
    return {"type": "function", "name": name, "parameters": {"type": "object"}, **more}


def space(name: str, *tools: Json, **more: Any) -> Json:
    return {"type": "namespace", "name": name, "description": "d", "tools": [*tools], **more}


def flat(*tools: Json) -> list[str]:
    """The names of the tools that a backend gets."""
    listed = FlatTools([*tools]).body({"tools": [*tools]})["tools"]
    return [tool["name"] for tool in listed]


def long(letter: str, size: int = 60) -> str:
    return letter * size


NAMES: list[tuple[list[Json], list[str]]] = [
    ([space("crm", function("search"))], ["crm__search"]),
    ([space("mcp__docs__", function("search"))], ["mcp__docs__search"]),
    ([function("f"), space("a", function("x"), function("y")), function("g")],
     ["f", "a__x", "a__y", "g"]),
    ([space("a", function("x")), space("b", function("x")), function("x")],
     ["a__x", "b__x", "x"]),
    ([space("a", function("x"), function("x")), space("a", function("x"))], ["a__x"]),
    ([space("a", {"type": "custom", "name": "sh"})], ["a__sh"]),
]  # fmt: skip


@pytest.mark.parametrize(("tools", "names"), NAMES)
def test_names(tools: list[Json], names: list[str]) -> None:
    assert flat(*tools) == names


#: Tools that would share a name, or have one that no backend takes.
ODD: list[list[Json]] = [
    [space("a", function("x")), function("a__x")],
    [space("a", function("b__c")), space("a__b", function("c"))],
    [space("a", function("x")), space("a__", function("x"))],
    [space("a.b", function("x")), space("a_b", function("x")), space("a b", function("x"))],
    [space(long("n"), function(long("a"))), space(long("n"), function(long("b")))],
    [space("", function("")), space("", function("__")), function("__")],
    [space("ü", function("x")), space("ö", function("x")), {"type": "function",
     "function": {"name": "a__x"}}, space("a", function("x"))],
]  # fmt: skip


@pytest.mark.parametrize("tools", ODD)
def test_no_two_tools_share_a_name(tools: list[Json]) -> None:
    body = {"tools": tools}
    made = FlatTools(tools)
    listed = [tool.get("name") or tool["function"]["name"] for tool in made.body(body)["tools"]]
    assert len({*listed}) == len(listed)
    assert all(NAME.fullmatch(name) for name in listed)
    assert len(made.names) == sum(len(tool.get("tools", ())) for tool in tools)


_word = st.sampled_from(["a", "b", "_", "__", "a__b", "", "é", ".", "x" * 40, "y" * 70, "a__b__a"])
_inner = st.lists(st.builds(function, _word), max_size=4)
_tools = st.lists(
    st.one_of(st.builds(function, _word), st.builds(lambda n, t: space(n, *t), _word, _inner)),
    max_size=5,
)


def pairs(tools: list[Json]) -> set[tuple[str, str]]:
    return {(t["name"], one["name"]) for t in tools for one in t.get("tools", ())}


@given(_tools, st.randoms())
def test_any_names_are_told_apart_and_found_again(tools: list[Json], chance: Any) -> None:
    plain = {tool["name"] for tool in tools if tool["type"] == "function"}
    made, mixed = FlatTools(tools), FlatTools(chance.sample(tools, len(tools)))
    assert made.names == mixed.names, "the order of tools does not matter"
    assert {*made.names.values()} == pairs(tools)
    assert not plain & made.names.keys()
    assert all(NAME.fullmatch(name) for name in made.names)
    for name, (where, what) in made.names.items():
        item = {"type": "function_call", "call_id": "c", "name": what, "namespace": where}
        (data,) = made.items([encode(item)])
        assert json.loads(data) == {"type": "function_call", "call_id": "c", "name": name}
        event = encode({"type": "response.output_item.done", "item": json.loads(data)})
        ((_, back),) = RestoredNames(made.names, None).feed([(None, event)])
        assert json.loads(back)["item"] == item


@given(_tools, _tools, _word, _word)
def test_other_tools_do_not_change_a_name_that_is_nobody_elses(
    tools: list[Json], others: list[Json], where: str, what: str
) -> None:
    alone = FlatTools([space(where, function(what))]).flat_name(where, what)
    for listed in ([], tools, others, [*others, *tools]):
        name = FlatTools(listed).flat_name(where, what)
        clash = [t["name"] for t in listed if t["name"] == alone and t["type"] == "function"]
        joined = [one for one in pairs(listed) if FlatTools([]).flat_name(*one) == alone]
        if not clash and {*joined} <= {(where, what)}:
            assert name == alone


def test_a_tool_keeps_what_it_says() -> None:
    tools = [space("a", function("x", description="own", strict=True, defer_loading=True),
                   function("y"), description="of all")]  # fmt: skip
    first, second = FlatTools(tools).body({"tools": tools})["tools"]
    assert first == function("a__x", description="own", strict=True)
    assert second == function("a__y", description="of all")


CHOICES: list[tuple[Any, Any]] = [
    ("required", "required"),
    ({"type": "function", "name": "x", "namespace": "a"}, {"type": "function", "name": "a__x"}),
    ({"type": "function", "name": "y"}, {"type": "function", "name": "b__y"}),
    ({"type": "function", "name": "f"}, {"type": "function", "name": "f"}),
    ({"type": "function", "name": "nobody"}, {"type": "function", "name": "nobody"}),
    (
        {"type": "function", "name": "x"},
        {"type": "allowed_tools", "mode": "required",
         "tools": [{"type": "function", "name": "a__x"}, {"type": "function", "name": "b__x"}]},
    ),
    (
        {"type": "namespace", "name": "b"},
        {"type": "allowed_tools", "mode": "required",
         "tools": [{"type": "function", "name": "b__x"}, {"type": "custom", "name": "b__y"}]},
    ),
    ({"type": "namespace", "name": "nobody"}, {"type": "namespace", "name": "nobody"}),
    (
        {"type": "allowed_tools", "mode": "auto", "tools": [
            {"type": "function", "name": "f"}, {"type": "namespace", "name": "a"},
            {"type": "custom", "name": "y", "namespace": "b"}]},
        {"type": "allowed_tools", "mode": "auto", "tools": [
            {"type": "function", "name": "f"}, {"type": "function", "name": "a__x"},
            {"type": "custom", "name": "b__y"}]},
    ),
]  # fmt: skip


@pytest.mark.parametrize(("choice", "wanted"), CHOICES)
def test_choices(choice: Any, wanted: Any) -> None:
    custom = {"type": "custom", "name": "y"}
    tools = [function("f"), space("a", function("x")), space("b", function("x"), custom)]
    made = FlatTools(tools).body({"tools": tools, "tool_choice": choice})
    assert made["tool_choice"] == wanted


def test_what_has_no_namespace_is_untouched() -> None:
    body = {"tools": [function("f")], "tool_choice": {"type": "function", "name": "f"}}
    items = [encode({"role": "user", "content": 'the "namespace": of it'})]
    made = FlatTools(body["tools"])
    assert made.body(body) is body
    assert made.items(items) is items


# The dialects

TOOLS = [function("search"), space("crm", function("search")), space("web", function("search"))]
CALL = {"type": "function_call", "call_id": "a", "arguments": "{}", "name": "search"}


@pytest.mark.parametrize("name", FLAT)
def test_each_dialect_without_namespaces_gets_flat_names(name: str) -> None:
    items = [user(), CALL | {"namespace": "web"}, output("a"), user("more")]
    data = [encode(item) for item in items]
    made = find(name).request({"model": "m", "input": [], "tools": TOOLS}, data)
    sent = json.loads(made)
    listed = [tool.get("function", tool)["name"] for tool in sent["tools"]]
    assert listed == ["search", "crm__search", "web__search"]
    assert b"namespace" not in made
    # Where a call is told in words, so is its output; and Gemini's outputs name their tool.
    told = 3 if name in ("huggingface", "gemini") else 2
    assert made.count(b"web__search") == told, "as a tool, and in the history"
    # Without its tools the history says the same.
    assert b"web__search" in find(name).request({"model": "m", "input": []}, data)


@pytest.mark.parametrize("name", ["openai", "azure"])
def test_who_knows_namespaces_gets_them(name: str) -> None:
    data = [encode(user()), encode(CALL | {"namespace": "web"}), encode(output("a"))]
    sent = json.loads(find(name).request({"model": "m", "input": [], "tools": TOOLS}, data))
    assert sent["tools"] == TOOLS
    assert sent["input"][1]["namespace"] == "web"


def test_calls_come_back_by_both_names() -> None:
    tools = [*TOOLS, space("box", {"type": "custom", "name": "sh"})]
    heard = whole(
        call(0, "web__search", '{"q":1}', "c1"),
        call(1, "search", "{}", "c2"),
        call(2, "box__sh", '{"input":"ls"}', "c3"),
        call(3, "made__up", "{}", "c4"),
        finish="tool_calls",
        tools=tools,
    )
    said = [(item["type"], item.get("namespace"), item["name"]) for item in heard.output]
    assert said == [
        ("function_call", "web", "search"),
        ("function_call", None, "search"),
        ("custom_tool_call", "box", "sh"),
        ("function_call", None, "made__up"),
    ]
    assert heard.output[2]["input"] == "ls"
    for event in heard.events:
        item = event.get("item", {})
        if item.get("call_id") == "c1":
            assert (item["namespace"], item["name"]) == ("web", "search")
        assert "web__search" not in json.dumps(event.get("item", ""))
        if event["type"] == "response.function_call_arguments.done":
            assert event["name"] in ("search", "made__up")
    (made,) = [t for t in asked(user(), *heard.output, output("c1"), tools=tools)["messages"]
               if "tool_calls" in t]  # fmt: skip
    assert made["tool_calls"][0]["function"]["name"] == "web__search"


def test_types_that_have_no_form_are_all_named(warnings: Any) -> None:
    odd = [{"type": "web_search"}, {"type": "tool_search"}, space("a", {"type": "mcp"})]
    asked(user(), tools=[*odd, function("f")])
    said = " ".join(warnings())
    assert all(word in said for word in ("web_search", "tool_search", "mcp"))


_event: st.SearchStrategy[Any] = st.recursive(
    st.sampled_from([None, 1, "crm__search", "name", "function_call", [], {}]),
    lambda inner: (
        st.dictionaries(
            st.sampled_from(["name", "item", "response", "output", "type", "namespace"]), inner
        )
        | st.lists(inner, max_size=3)
    ),
)


@given(_event)
def test_odd_events_pass(event: Any) -> None:
    names = {"crm__search": ("crm", "search")}
    data = encode(event)
    ((_, back),) = RestoredNames(names, None).feed([(None, data)])
    if b"crm__search" not in data:
        assert back == data
