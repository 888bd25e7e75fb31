"""Tool calls in streams of Chat Completions, in every form in which servers send them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.dialects.chatting import (
    Chunk,
    body,
    call,
    chunk,
    hear,
    outcome,
    text,
    whole,
)
from tests.support.dialect_reading import check

if TYPE_CHECKING:
    from tests.machines.drive import Played

F, G = 'function_call  f {"a":1}', 'function_call  g {"b":2}'
F2, TIME = 'function_call  f {"b":2}', "function_call  get_time {}"
CALLS: list[tuple[str, list[Chunk], list[str]]] = [
    ("pieces", [call(0, "f", "", "c1"), call(0, None, '{"a"'), call(0, None, ":1}")], [F]),
    ("no index", [call(None, "f", "", "c1"), call(None, None, '{"a":1}')], [F]),
    ("id and name repeated", [call(0, "f", '{"a"', "c1"), call(0, "f", ":1}", "c1")], [F]),
    ("id empty after", [call(0, "f", '{"a"', "c1"), call(0, "", ":1}", "")], [F]),
    ("arguments null", [call(0, "f", None, "c1"), call(0, None, '{"a":1}')], [F]),
    ("arguments an object", [call(0, "f", {"a": 1}, "c1")], [F]),
    ("whole", [call(0, "f", '{"a":1}', "c1")], [F]),
    ("name late", [call(0, None, '{"a"', "c1"), call(0, "f", ":1}")], [F]),
    ("id late", [call(0, "f", '{"a"'), call(0, None, ":1}", "c1")], [F]),
    ("no arguments", [call(0, "f", "", "c1")], ["function_call  f {}"]),
    ("no name", [call(0, None, '{"a":1}', "c1"), *text("x")], ["message x"]),
    ("two", [call(0, "f", '{"a":1}', "c1"), call(1, "g", '{"b":2}', "c2")], [F, G]),
    ("new id", [call(0, "f", '{"a":1}', "c1"), call(0, "g", '{"b":2}', "c2")], [F, G]),
    ("no index, ids", [call(None, "f", '{"a":1}', "c"), call(None, "g", '{"b":2}', "d")], [F, G]),
    ("nothing but names", [call(None, "f", '{"a":1}'), call(None, "g", '{"b":2}')], [F, G]),
    ("ids empty", [call(0, "f", '{"a":1}', ""), call(0, "g", '{"b":2}', "")], [F, G]),
    ("one id for two", [call(0, "f", '{"a":1}', "c1"), call(1, "g", '{"b":2}', "c1")], [F, G]),
    # B90
    ("index as text", [call("0", "f", '{"a"', "c1"), call("0", None, ":1}")], [F]),
    ("an index for each piece", [call(0, "f", '{"a"', "c1"), call(1, None, ":1}")], [F]),
    ("always 0", [call(0, "f", '{"a":1}', ""), call(0, "g", '{"b":2}', "")], [F, G]),
    ("one name", [call(0, "f", '{"a":1}', "c1"), call(0, "f", '{"a":1}', "c2")], [F, F]),
    ("another id each time", [call(0, "f", '{"a"', "c1"), call(0, None, ":1}", "c2")], [F]),
    ("another id, named", [call(None, "f", '{"a"', "c1"), call(None, "f", ":1}", "c2")], [F]),
    ("id at the end alone", [call(None, "f", '{"a":1}'), call(None, None, "", "c1")], [F]),
    (
        "two announced at 0 before their arguments",
        [
            call(0, "f", None, "c1"),
            call(0, "f", None, "c2"),
            call(0, None, '{"a":1}', "c1"),
            call(0, None, '{"b":2}', "c2"),
        ],
        [F, F2],
    ),
    # B91
    ("name in pieces", [call(0, "get_", ""), call(0, "time", ""), call(0, None, "{}")], [TIME]),
    ("name that grows", [call(0, "get_", ""), call(0, "get_time", "{}")], [TIME]),
    ("name each time", [call(0, "f", '{"a"', "c1"), call(0, "f", ":1}", "c1")], [F]),
    ("name at the end", [call(0, "", '{"a"', "c1"), call(0, "", ":1}"), call(0, "f")], [F]),
    # B92
    ("said again", [call(0, "f", '{"a"', "c"), call(0, None, ":1}"), call(0, "f", '{"a":1}')], [F]),
    ("at another place", [call(0, "f", '{"a":1}', "c"), call(1, "f", '{"a": 1}', "c")], [F]),
    ("grown", [call(0, "f", "{", "c"), call(0, None, '{"a"'), call(0, None, '{"a":1}')], [F]),
    ("an object again", [call(0, "f", {"a": 1}, "c"), call(0, "f", {"a": 1}, "c")], [F]),
    ("a brace too many", [call(0, "f", '{"a":1}', "c1"), call(0, None, "}")], [F]),
    ("one id, another call", [call(0, "f", '{"a":1}', "c"), call(0, "f", '{"b":2}', "c")], [F, F2]),
    ("without function", [chunk(tool_calls=[{"name": "f", "arguments": {"a": 1}}])], [F]),
    (
        "both forms",
        [
            chunk(
                tool_calls=[{"index": 0, "function": {"name": "f", "arguments": '{"a":1}'}}],
                function_call={"name": "f", "arguments": '{"a":1}'},
            ),
        ],
        [F],
    ),
    (
        "mixed",
        [
            call(0, "f", '{"a"', "c1"),
            call(1, "g", '{"b"', "c2"),
            call(0, None, ":1}"),
            call(1, None, ":2}"),
        ],
        [F, G],
    ),
    (
        "mixed by id",
        [
            call(None, "f", '{"a"', "c1"),
            call(None, "g", '{"b"', "c2"),
            call(None, None, ":1}", "c1"),
            call(None, None, ":2}", "c2"),
        ],
        [F, G],
    ),
    ("text after", [call(0, "f", '{"a":1}', "c1"), *text("x")], [F, "message x"]),
    (
        "text within",
        [call(0, "f", '{"a"', "c1"), *text("x", "y"), call(0, None, ":1}")],
        [F, "message xy"],
    ),
    (
        "the old form",
        [
            chunk(function_call={"name": "f", "arguments": ""}),
            chunk(function_call={"arguments": '{"a":1}'}),
        ],
        [F],
    ),
    (
        "two in a chunk",
        [chunk(tool_calls=[{"function": {"name": "f", "arguments": {"a": 1}}}] * 2)],
        [F, F],
    ),
]


@pytest.mark.parametrize(
    ("sent_chunks", "wanted"), [case[1:] for case in CALLS], ids=[case[0] for case in CALLS]
)
def test_calls(sent_chunks: list[Chunk], wanted: list[str]) -> None:
    heard = whole(*sent_chunks, finish="tool_calls")
    check(heard)
    assert outcome(heard) == ["completed", *wanted]
    ids = [item["call_id"] for item in heard.output if item["type"] == "function_call"]
    assert len(set(ids)) == len(ids)
    assert all(ids)


def test_the_call_keeps_the_id_of_the_backend() -> None:
    (item,) = whole(call(0, "f", "{}", "call_c1")).output
    assert item["call_id"] == "call_c1"
    (item,) = whole(call(0, "f", "{}")).output
    assert item["call_id"].startswith("call_")


def test_a_finished_call_is_shown_before_the_next_one_ends() -> None:
    sent_chunks = [call(0, "f", "{}", "c1"), call(1, "g", '{"b', "c2")]
    heard = hear([body(sent_chunks, done=False)])
    kinds = heard.types()
    assert kinds.index("output_item.done") < len(kinds) - 1
    assert [event["delta"] for event in heard.of("function_call_arguments.delta")] == ["{}", '{"b']


@pytest.mark.parametrize("finish", ["length", "content_filter"])
def test_a_call_that_was_cut_is_incomplete(finish: str) -> None:
    sent_chunks = [call(0, "f", '{"a":1}', "c1"), call(1, "g", '{"b', "c2")]
    heard = whole(*sent_chunks, finish=finish)
    check(heard)
    assert [item["status"] for item in heard.output] == ["completed", "incomplete"]
    assert [json.loads(entry.data)["name"] for entry in heard.run.entries()] == ["f"]


def _custom(sent_chunks: list[Chunk], finish: str = "tool_calls") -> Played:
    tools = [{"type": "custom", "name": "sh"}, {"type": "function", "name": "f"}]
    heard = whole(*sent_chunks, finish=finish, tools=tools)
    check(heard)
    return heard


INPUTS = [
    ('{"input":"a\\ud83d\\ude00\\u00e9\\\\"}', "a\U0001f600é\\"),
    ('{"input": "C:\\windows"}', "C:\\windows"),
    ('{"input": "a\nb"}', "a\nb"),
    ('{"input": "a\\ud83d"}', "a\ufffd"),
    ('{"input": "a\\ud83d\\u0041"}', "a\ufffdA"),
    ('{"input": "\\q\\u12"}', "\\q\\u12"),
    ('{"input": ""}', ""),
    ('{"input": null}', ""),
    ('{"input": {"cmd": 1}}', '{"cmd":1}'),
    ('{"input": {"input": "ls"}}', "ls"),
    ('{"arguments": "ls"}', "ls"),
    ('{"arguments": {"input": "ls"}}', "ls"),
    ('"{\\"input\\": \\"ls\\"}"', "ls"),
    ('{"input": "{\\"input\\": \\"ls\\"}"}', "ls"),
    ('{"input": "{\\"a\\": 1}"}', '{"a": 1}'),
    ('{"input": "ls", "why": "look"}', "ls"),
    ('{"input": "ls"', "ls"),
    ("*** Begin Patch\n+{", "*** Begin Patch\n+{"),
    ("[1, 2]", "[1, 2]"),
    ('{"input": "ls -l\\n"}', "ls -l\n"),
    ('{"command": "ls"}', "ls"),
    ('"ls"', "ls"),
    ("ls", "ls"),
    ("{}", "{}"),
    ("", ""),
]


@pytest.mark.parametrize(("arguments", "text"), INPUTS)
def test_a_custom_tool_gets_its_input_back(arguments: str, text: str) -> None:
    half = len(arguments) // 2
    sent_chunks = [call(0, "sh", arguments[:half], "c1"), call(0, None, arguments[half:])]
    heard = _custom([*sent_chunks, call(1, "f", "{}", "c2")])
    custom, function = heard.output
    assert (custom["type"], custom["input"], custom["call_id"]) == ("custom_tool_call", text, "c1")
    assert function["type"] == "function_call"
    assert heard.texts("custom_tool_call_input") == text
    owed = [stub["type"] for stub in heard.run.required_input()]
    assert owed == ["custom_tool_call_output", "function_call_output"]


@pytest.mark.parametrize("size", [1, 2, 5])
@pytest.mark.parametrize(("arguments", "text"), INPUTS)
def test_a_custom_tool_gets_its_input_at_any_chunking(arguments: str, text: str, size: int) -> None:
    pieces = [arguments[at : at + size] for at in range(0, len(arguments), size)]
    heard = _custom([call(0, "sh", "", "c1"), *(call(0, None, piece) for piece in pieces)])
    assert [item["input"] for item in heard.output] == [text]
    assert heard.texts("custom_tool_call_input") == text


def test_a_custom_tools_input_is_streamed() -> None:
    pieces = ['{"in', 'put": "l', "s \\", 'u0041"', "}"]
    sent_chunks = [call(0, "sh", "", "c1"), *(call(0, None, piece) for piece in pieces)]
    heard = _custom(sent_chunks)
    deltas = [event["delta"] for event in heard.of("custom_tool_call_input.delta")]
    assert deltas == ["l", "s ", "A"]
    assert heard.output[0]["input"] == "ls A"
    raw = _custom([call(0, "sh", "ls ", "c1"), call(0, None, "-l")])
    assert [event["delta"] for event in raw.of("custom_tool_call_input.delta")] == ["ls ", "-l"]


def test_a_custom_call_that_was_cut_is_incomplete() -> None:
    (item,) = _custom([call(0, "sh", '{"input": "l', "c1")], "length").output
    assert (item["status"], item["input"]) == ("incomplete", "l")


def test_a_name_that_is_a_function_too_is_a_function() -> None:
    tools = [{"type": "custom", "name": "f"}, {"type": "function", "name": "f"}]
    (item,) = whole(call(0, "f", "{}", "c1"), tools=tools).output
    assert item["type"] == "function_call"
