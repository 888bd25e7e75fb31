"""Tools and all other keys of a request in Chat's terms."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gateway.dialects.chat import DIALECT
from gateway.upstream.chat.request import shape
from lanes.codec import encode
from tests.dialects.chat_asking import Body, asked, user


def test_a_string_is_a_user_message() -> None:
    made = json.loads(DIALECT.request({"model": "m", "input": "hi"}, [encode(user())]))
    assert made == {
        "model": "m",
        "messages": [{"role": "user", "content": "hi"}],
        "stream": True,
        "stream_options": {"include_usage": True},
    }


# Tools

F = {"type": "function", "name": "f", "parameters": {"type": "object"}, "strict": True}
CUSTOM = {"type": "custom", "name": "sh", "description": "runs", "format": {"type": "text"}}
SCHEMA = {
    "type": "object",
    "properties": {"input": {"type": "string"}},
    "required": ["input"],
    "additionalProperties": False,
}


def _names(made: Body) -> list[str]:
    return [tool["function"]["name"] for tool in made.get("tools", ())]


def test_tools() -> None:
    bare = {"type": "function", "name": "g", "description": None, "strict": None, "x": 1}
    made = asked(tools=[F, bare, CUSTOM], parallel_tool_calls=False)
    inner = {key: value for key, value in F.items() if key != "type"}
    custom = {"name": "sh", "description": "runs", "parameters": SCHEMA}
    assert made["tools"] == [
        {"type": "function", "function": inner},
        {
            "type": "function",
            "function": {"name": "g", "parameters": {"type": "object", "properties": {}}},
        },
        {"type": "function", "function": custom},
    ]
    assert made["parallel_tool_calls"] is False
    assert "tool_choice" not in made


def test_a_grammar_is_told_to_the_model() -> None:
    grammar = {"type": "grammar", "syntax": "lark", "definition": 'start: "x"'}
    (tool,) = asked(tools=[CUSTOM | {"format": grammar}])["tools"]
    description = tool["function"]["parameters"]["properties"]["input"]["description"]
    assert 'start: "x"' in description
    assert "lark" in description


def test_hosted_tools_are_left_out_with_a_word(warnings: Any) -> None:
    made = asked(tools=[{"type": "web_search"}, F], tool_choice="auto")
    assert _names(made) == ["f"]
    assert "web_search" in warnings()[0]
    made = asked(tools=[{"type": "web_search"}], tool_choice="auto", parallel_tool_calls=True)
    assert not made.keys() & {"tools", "tool_choice", "parallel_tool_calls"}


G = F | {"name": "g"}
CHOICES: list[tuple[Any, Any, list[str]]] = [
    ("none", "none", ["f", "g", "sh"]),
    ("auto", "auto", ["f", "g", "sh"]),
    ("required", "required", ["f", "g", "sh"]),
    (None, None, ["f", "g", "sh"]),
    (
        {"type": "function", "name": "f"},
        {"type": "function", "function": {"name": "f"}},
        ["f", "g", "sh"],
    ),
    (
        {"type": "custom", "name": "sh"},
        {"type": "function", "function": {"name": "sh"}},
        ["f", "g", "sh"],
    ),
    (
        {"type": "function", "function": {"name": "g"}},
        {"type": "function", "function": {"name": "g"}},
        ["f", "g", "sh"],
    ),
    (
        {
            "type": "allowed_tools",
            "mode": "required",
            "tools": [{"type": "function", "name": "g"}, {"type": "custom", "name": "sh"}],
        },
        "required",
        ["g", "sh"],
    ),
    ({"type": "allowed_tools", "tools": [{"type": "function", "name": "g"}]}, "auto", ["g"]),
    ({"type": "web_search"}, None, ["f", "g", "sh"]),
]


@pytest.mark.parametrize(("choice", "form", "names"), CHOICES)
def test_tool_choice(choice: Any, form: Any, names: list[str]) -> None:
    made = asked(tools=[F, G, CUSTOM], tool_choice=choice)
    assert made.get("tool_choice") == form
    assert _names(made) == names


def test_a_choice_without_tools_is_left_out_with_a_word(warnings: Any) -> None:
    assert "tool_choice" not in asked(tool_choice="required", tools=[])
    assert "required" in warnings()[0]


# The other keys

KEYS: list[tuple[Body, Body]] = [
    ({"max_output_tokens": 9}, {"max_tokens": 9}),
    ({"max_output_tokens": 9, "max_completion_tokens": 8}, {"max_completion_tokens": 8}),
    ({"top_logprobs": 2}, {"logprobs": True, "top_logprobs": 2}),
    ({"top_logprobs": 0}, {}),
    ({"include": ["message.output_text.logprobs"]}, {"logprobs": True}),
    ({"reasoning": {"effort": "low", "summary": "auto"}}, {"reasoning_effort": "low"}),
    ({"reasoning": {"effort": None}}, {}),
    ({"text": {"verbosity": "low"}}, {"verbosity": "low"}),
    ({"text": {"format": {"type": "text"}}}, {}),
    ({"text": {}}, {}),
    (
        {"text": {"format": {"type": "json_object"}}},
        {"response_format": {"type": "json_object"}},
    ),
    (
        {
            "text": {
                "format": {
                    "type": "json_schema",
                    "name": "n",
                    "schema": {"default": None},
                    "strict": True,
                    "description": None,
                }
            }
        },
        {
            "response_format": {
                "type": "json_schema",
                "json_schema": {"name": "n", "schema": {"default": None}, "strict": True},
            }
        },
    ),
    (
        {
            "include": [],
            "truncation": "auto",
            "store": True,
            "background": False,
            "max_tool_calls": 3,
            "context_management": [],
            "stream_options": {"include_obfuscation": False},
            "previous_response_id": "resp_1",
        },
        {},
    ),
    ({"temperature": None, "tools": None, "text": None, "reasoning": None, "x": None}, {}),
    ({"text": "x", "reasoning": "y", "include": "z"}, {}),
]


PASSING: list[Body] = [
    {"temperature": 0, "top_p": 0.5},
    {"seed": 1, "stop": ["x"], "user": "u"},
    {"metadata": {"a": "b"}, "service_tier": "flex"},
    {"prompt_cache_key": "k", "safety_identifier": "s"},
    {"top_k": 5, "chat_template_kwargs": {"x": 1}},
]


@pytest.mark.parametrize(("body", "form"), [*KEYS, *zip(PASSING, PASSING, strict=True)])
def test_keys(body: Body, form: Body) -> None:
    made = asked(**body)
    for key in ("model", "messages", "stream", "stream_options"):
        del made[key]
    assert made == form


def test_what_the_model_was_to_see_is_not_left_out_silently(warnings: Any) -> None:
    assert "prompt" not in shape({"model": "m", "input": "hi", "prompt": {"id": "x"}})
    assert "prompt" in warnings()[0]
