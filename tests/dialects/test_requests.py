"""What of a request each dialect sends on, and what a client cannot ask it for."""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING, Any

import pytest
from openai.types.responses import response_create_params

from gateway.logs import ThrottledWarnings
from gateway.upstream import dialect as dialects
from gateway.upstream.dialect import NEWER_KEYS, dialect_names, find
from lanes.errors import ClientFault
from lanes.history.makers import Maker
from tests.dialects.strict import JUDGES, refuses

if TYPE_CHECKING:
    from collections.abc import Callable

    Json = dict[str, Any]

LOOK: Json = {"type": "function", "name": "look"}
SHELL: Json = {"type": "custom", "name": "sh"}
SEARCH: Json = {"type": "web_search"}
SEALED = "reasoning.encrypted_content"
STORED = ("openai", "azure")


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing was warned of before."""
    notices = ThrottledWarnings(logging.getLogger("multilane.dialect"), every=600.0)
    monkeypatch.setattr(dialects, "NOTICES", notices)


def sent(dialect: str, **body: Any) -> Json:
    made: Json = json.loads(find(dialect).request({"model": "m", "input": "hi", **body}, [b"{}"]))
    return made


#: One of everything that the reference takes, with values that mean something.
FULL: Json = {
    **{"include": [SEALED, "message.output_text.logprobs"]},
    **{"instructions": "be brief", "max_output_tokens": 9, "max_tool_calls": 2, "metadata": {}},
    **{"parallel_tool_calls": False, "reasoning": {"effort": "low", "summary": "detailed"}},
    **{"service_tier": None, "temperature": 0, "text": {}, "tool_choice": "auto", "top_p": 1},
    **{"tools": [LOOK, SHELL, SEARCH], "top_logprobs": 1, "truncation": "auto", "user": "u"},
    **{"background": False, "previous_response_id": "resp_1", "store": True, "stream": False},
}


@pytest.mark.parametrize("dialect", JUDGES)
def test_it_takes_what_is_left_of_a_full_request(dialect: str) -> None:
    assert FULL.keys() <= response_create_params.ResponseCreateParamsBase.__annotations__.keys() | {
        "stream"
    }
    request = sent(dialect, **FULL)
    assert refuses(dialect, request) is None
    assert request["stream"] is True
    assert "previous_response_id" not in request
    assert (request["temperature"], request["max_output_tokens"]) == (0, 9)
    assert request["reasoning"]["effort"] == "low"
    assert ("service_tier" in request) == (dialect in STORED)
    assert request.get("store") is (None if dialect == "friendli" else False)


@pytest.mark.parametrize("dialect", JUDGES)
def test_unknown_keys_go_on_where_they_may_mean_something(dialect: str) -> None:
    kept = "top_k" in sent(dialect, top_k=5)
    assert kept == (dialect not in ("friendli", "maritaca"))


@pytest.mark.parametrize("dialect", [*JUDGES, "chat"])
def test_a_conversation_is_refused_where_none_is_kept(dialect: str) -> None:
    if dialect in STORED:
        assert sent(dialect, conversation="conv_1")["conversation"] == "conv_1"
        return
    with pytest.raises(ClientFault) as caught:
        sent(dialect, conversation="conv_1")
    assert (caught.value.status, caught.value.param) == (404, "conversation")
    assert caught.value.code == "conversation_not_found"
    assert "conversation" not in sent(dialect, conversation=None)


TOOLS: dict[str, list[Json]] = {
    "friendli": [LOOK | {"parameters": {"type": "object", "properties": {}}}, SHELL],
    "llamacpp": [LOOK],
    "ollama": [LOOK],
}


@pytest.mark.parametrize("dialect", JUDGES)
def test_tools_that_it_does_not_take_are_left_out(
    dialect: str, caplog: pytest.LogCaptureFixture
) -> None:
    tools = [LOOK, SHELL, SEARCH]
    assert sent(dialect, tools=tools)["tools"] == TOOLS.get(dialect, tools)
    lines = [record.getMessage() for record in caplog.records]
    assert len(lines) == (dialect in TOOLS)
    assert all(line.startswith(f"{dialect} takes no tool of type") for line in lines)


CHOICES: list[tuple[list[Json], Any]] = [
    ([SEARCH], "required"),
    ([LOOK, SEARCH], {"type": "web_search"}),
    ([LOOK, SHELL], {"type": "custom", "name": "sh"}),
]


@pytest.mark.parametrize(("tools", "choice"), CHOICES)
def test_a_choice_of_what_is_left_out_is_refused(tools: list[Json], choice: Any) -> None:
    with pytest.raises(ClientFault, match="function") as caught:
        sent("llamacpp", tools=tools, tool_choice=choice)
    assert (caught.value.status, caught.value.param) == (400, "tool_choice")
    assert sent("openai", tools=tools, tool_choice=choice)["tool_choice"] == choice


def test_a_choice_that_still_means_something_stays() -> None:
    named = {"type": "function", "name": "look"}
    assert sent("llamacpp", tools=[LOOK, SEARCH], tool_choice=named)["tool_choice"] == named
    assert sent("llamacpp", tools=[LOOK, SEARCH], tool_choice="required")["tools"] == [LOOK]
    bare = sent("llamacpp", tools=[SEARCH], tool_choice="auto")
    assert not bare.keys() & {"tools", "tool_choice"}
    assert sent("llamacpp", tools=[], tool_choice="auto")["tools"] == []


MEANT: list[tuple[str, Json, bool]] = [
    ("ollama", {"tool_choice": "required"}, True),
    ("ollama", {"tool_choice": "auto"}, False),
    ("ollama", {"truncation": "disabled"}, False),
    ("ollama", {"metadata": {"a": "b"}}, False),
    ("friendli", {"top_logprobs": 3}, True),
    ("friendli", {"max_tool_calls": None}, False),
    ("friendli", {"zebra": 1}, True),
    ("friendli", {"service_tier": "flex"}, True),
    ("friendli", {"service_tier": "auto"}, False),
    ("friendli", {"truncation": "auto"}, False),
    ("friendli", {"user": "u"}, True),
    ("generic", {"moderation": {"model": "m"}}, True),
    ("chat", {"access_programs": {"p": {}}}, True),
    ("openai", {"zebra": 1, "top_logprobs": 3}, False),
]


@pytest.mark.parametrize(("dialect", "body", "logged"), MEANT)
def test_what_changes_the_answer_by_being_left_out_is_told_once(
    dialect: str, body: Json, logged: bool, warnings: Callable[[], list[str]]
) -> None:
    for _ in range(3):
        sent(dialect, **body)
    lines = warnings()
    assert lines == [f"{dialect} does nothing about {key}; left out" for key in body if logged]


def test_each_upstream_is_named_once_for_each_field(warnings: Callable[[], list[str]]) -> None:
    body = {"model": "m", "input": "hi", "service_tier": "flex", "max_tool_calls": 3}
    for upstream in ("default", "a", "b", "a"):
        for name in ("friendli", "chat"):
            find(name).request({**body, "zebra": 1, "yak": 2}, [b"{}"], Maker(upstream, name))
    places = ["friendli", "a: friendli", "b: friendli"]
    lines = [line for line in warnings() if "friendli" in line]
    assert lines == [
        f"{place} does nothing about {key}; left out"
        for place in places
        for key in ("service_tier", "max_tool_calls", "zebra")
    ]
    others = [line for line in warnings() if "friendli" not in line]
    assert sum("max_tool_calls" in line for line in others) == 1
    assert not any("service_tier" in line for line in others)


def test_items_that_it_does_not_take_are_told_once(caplog: pytest.LogCaptureFixture) -> None:
    items = [b'{"type":"zebra","id":"z"}', b'{"type":"item_reference","id":"m"}'] * 2
    for _ in range(3):
        assert json.loads(find("vllm").request({"model": "m"}, items))["input"] == []
    lines = [record.getMessage() for record in caplog.records]
    assert lines == ["vllm takes no input item of type zebra; left out"]


SHAPES: list[tuple[str, Json, Json]] = [
    ("lmstudio", {"text": {}}, {"text": ...}),
    (
        "lmstudio",
        {"text": {"verbosity": "low"}},
        {"text": {"verbosity": "low", "format": {"type": "text"}}},
    ),
    ("lmstudio", {"text": {"format": {"type": "text"}}}, {}),
    ("huggingface", {"reasoning": {"summary": "concise"}}, {"reasoning": {"summary": "auto"}}),
    ("huggingface", {"reasoning": {"effort": "low"}}, {}),
    (
        "xai",
        {"include": ["a", "reasoning.encrypted_content"]},
        {"include": ["reasoning.encrypted_content"]},
    ),
    ("xai", {"background": False}, {"background": ...}),
    ("xai", {"instructions": "x"}, {}),
    ("sglang", {"include": ["message.output_text.logprobs", "a"]}, {"include": ["a"]}),
    ("sglang", {"include": ["a"]}, {}),
    ("maritaca", {"include": [SEALED]}, {"include": ...}),
    ("friendli", {"tools": [SHELL]}, {}),
    ("friendli", {"tools": [LOOK | {"parameters": {"type": "object"}}]}, {}),
    ("groq", {"text": {}}, {}),
]


@pytest.mark.parametrize(("dialect", "body", "changed"), SHAPES)
def test_the_last_touch(dialect: str, body: Json, changed: Json) -> None:
    plain = sent(dialect)
    whole = {key: value for key, value in {**plain, **body, **changed}.items() if value is not ...}
    assert sent(dialect, **body) == whole


def test_how_each_shows_its_key() -> None:
    assert find("azure").auth("k") == {"api-key": "k"}
    others = (find(name) for name in JUDGES if name != "azure")
    assert all(one.auth("k") == {"authorization": "Bearer k"} for one in others)
    assert all(find(name).path == "/responses" for name in JUDGES)


#: What only backends get that know it.
NEWER: Json = {
    "client_metadata": {"k": "v"},
    "moderation": {"model": "omni-moderation-latest"},
    "image": {"context_compression": "enabled"},
    "access_programs": {"cyber": "standard"},
    "multi_agent": {"enabled": True},
}


@pytest.mark.parametrize("dialect", dialect_names())
def test_newer_keys_go_where_they_are_known(dialect: str, caplog: pytest.LogCaptureFixture) -> None:
    assert NEWER.keys() == NEWER_KEYS
    request = sent(dialect, **NEWER)
    if dialect == "openai":
        assert NEWER.items() <= request.items()
        assert not caplog.records
        return
    assert not NEWER.keys() & request.keys()
    told = {key for key in NEWER if f" about {key}; left out" in caplog.text}
    assert told == NEWER.keys() - {"client_metadata"}  # it changes no answer
