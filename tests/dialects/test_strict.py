"""A judge that refuses nothing proves nothing: each rule has a row that breaks it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.dialects.strict import JUDGES, refuses
from tests.dialects.strict.asked import items

if TYPE_CHECKING:
    from tests.dialects.strict.asked import Json

STORED = ("openai", "azure")
STATELESS = tuple(name for name in JUDGES if name not in STORED)
USER: Json = {"type": "message", "role": "user", "content": "hi"}
PLAIN: Json = {"model": "m", "input": [USER], "stream": True}


def assistant(text: str = "a", **fields: Any) -> Json:
    content = [{"type": "output_text", "text": text}]
    return {"type": "message", "role": "assistant", "content": content, **fields}


def call(**fields: Any) -> Json:
    whole = {"type": "function_call", "call_id": "c1", "name": "look", "arguments": "{}"}
    return {**whole, **fields}


def output(value: Any = "ok", **fields: Any) -> Json:
    return {"type": "function_call_output", "call_id": "c1", "output": value, **fields}


def thought(**fields: Any) -> Json:
    content = [{"type": "reasoning_text", "text": "t"}]
    whole = {"type": "reasoning", "id": "rs_1", "summary": [], "content": content}
    return {key: value for key, value in {**whole, **fields}.items() if value is not ...}


SEAL = thought(content=..., encrypted_content="gAAAAAB")
OPEN = thought(encrypted_content="t", summary=[{"type": "summary_text", "text": "t"}])
SEVERAL = [{"type": "output_text", "text": "a"}, {"type": "output_text", "text": "b"}]
IMAGE = {"type": "input_image", "image_url": "data:"}
TOOL: Json = {"type": "function", "name": "look"}


def given(*listed: Json, then: Json | None = USER) -> Json:
    return {"input": [*listed, then] if then else [*listed]}


#: Who refuses, what it is that they refuse, and a word of why.
ROWS: list[tuple[tuple[str, ...], Json, str]] = [
    (tuple(JUDGES), {"input": None}, "required"),
    (tuple(JUDGES), {"input": 5}, "string or objects"),
    (tuple(JUDGES), {"input": ["hi"]}, "string or objects"),
    (STORED, {"zebra": 1}, "unknown zebra"),
    (STORED, given(SEAL), "following item"),
    (STORED, given(SEAL, then=None), "following item"),
    (STORED, given(SEAL, output()), "following item"),
    (STORED, given(thought(), assistant()), "not found"),
    (STORED, given(OPEN, assistant()), "verified"),
    (tuple(JUDGES), given(call(call_id=5)), "call_id must be"),
    (tuple(JUDGES), given(call(arguments={})), "arguments must be"),
    (tuple(JUDGES), given(output({})), "output must be"),
    (STATELESS, {"previous_response_id": "resp_1"}, "previous_response_id"),
    (STATELESS, {"conversation": "conv_1"}, "conversation"),
    (STATELESS, given({"type": "item_reference", "id": "m"}), "stored"),
    (STATELESS, given({"role": "user", "content": "hi"}), "without a type"),
    (STATELESS, given(assistant(content=[])), "without content"),
    (("friendli", "maritaca"), {"zebra": 1}, "unknown zebra"),
    (("friendli",), {"store": False}, "unknown store"),
    (("friendli", "llamacpp"), {"tools": [{"type": "web_search"}]}, "web_search"),
    (("llamacpp",), {"tools": [{"type": "custom", "name": "x"}]}, "custom"),
    (("friendli",), {"tools": [TOOL]}, "parameters"),
    (
        ("friendli", "maritaca", "vllm", "sglang", "ollama", "huggingface"),
        given({"type": "compaction", "id": "c", "encrypted_content": "gAAAA"}),
        "unknown input item",
    ),
    (
        ("maritaca", "ollama"),
        given(call(type="custom_tool_call", input="")),
        "unknown",
    ),
    (("friendli", "vllm"), given(thought(id=...), assistant()), "id is missing"),
    (
        ("friendli", "vllm", "llamacpp", "maritaca"),
        given(thought(summary=...), assistant()),
        "summary",
    ),
    (("friendli", "vllm", "llamacpp"), given(thought(content=[]), assistant()), "no text"),
    (("friendli", "vllm", "llamacpp"), given(thought(content=...), assistant()), "no text"),
    (("maritaca",), given(thought(content=[]), assistant()), "without either"),
    (("vllm",), {"prompt": {"id": "p"}}, "prompt"),
    (("vllm",), {"background": True}, "background"),
    (("vllm",), {"background": None}, "background"),
    (("vllm",), {"service_tier": None}, "service_tier"),
    (("vllm",), {"tools": [{"type": "custom", "format": {"type": "grammar"}}]}, "grammar"),
    (("vllm",), given(assistant(status="incomplete"), then=None), "goes on within"),
    (("vllm",), given(assistant(status="in_progress"), then=None), "goes on within"),
    (
        ("vllm", "sglang", "lmstudio", "groq", "openrouter"),
        given(thought(encrypted_content="gAAAA"), assistant()),
        "encrypted_content",
    ),
    (("vllm",), given(assistant(content=SEVERAL)), "content[0]"),
    (("vllm", "llamacpp"), given(thought(content=SEVERAL), assistant()), "content[0]"),
    (("sglang",), {"include": ["message.output_text.logprobs"]}, "include"),
    (("sglang",), {"tool_choice": "required", "tools": []}, "required"),
    (("sglang",), given(thought(content=[]), assistant()), "no text"),
    (("llamacpp",), given(assistant(), then=None), "prefill"),
    (("llamacpp",), given(call(), then=None), "prefill"),
    (("llamacpp",), given({"type": "zebra"}), "cannot determine"),
    (("llamacpp",), given({"type": "message", "role": "tool", "content": "x"}), "cannot determine"),
    (("llamacpp",), given(USER | {"content": None}), "cannot determine"),
    (("llamacpp",), given(USER | {"content": [{"type": "input_file"}]}), "input_file"),
    (("llamacpp",), given(assistant(content="a")), "output_text"),
    (
        ("llamacpp",),
        given(assistant(content=[{"type": "refusal", "refusal": "no"}])),
        "output_text",
    ),
    (("llamacpp", "ollama"), given(call(arguments="[1]")), "JSON object"),
    (("llamacpp", "ollama"), given(call(arguments="{")), "JSON object"),
    (("llamacpp", "ollama"), given(output([IMAGE])), "input text"),
    (("ollama",), given(output([{"type": "input_text", "text": "a"}])), "input text"),
    (("ollama",), given(assistant(), assistant(), then=None), "2 or more"),
    (("ollama",), given(thought(), assistant()), "encrypted_content"),
    (("ollama",), given(SEAL, assistant()), "encrypted_content"),
    (("ollama", "xai"), {"background": False}, "background"),
    (("ollama",), {"include": ["a"]}, "include"),
    (("ollama",), {"metadata": {"a": "b"}}, "metadata"),
    (("ollama",), {"tool_choice": "required"}, "tool_choice"),
    (("ollama",), {"truncation": "auto"}, "truncation"),
    (("lmstudio",), {"text": {}}, "format"),
    (("xai",), {"include": ["web_search_call.results"]}, "include"),
    (("xai",), given(thought(), assistant()), "not found"),
    (("openrouter",), {"store": True}, "store"),
    (("generic",), given(assistant(id="m")), "id and status"),
    (("generic",), given(assistant(status="completed")), "id and status"),
    (("openrouter",), given(assistant()), "id is required"),
    (("openrouter",), given(assistant(id="m", status="completed")), "unknown status"),
    (("huggingface",), {"reasoning": {"summary": "detailed"}}, "summary"),
    (("huggingface",), given(call()), "output of a tool"),
    (("huggingface",), given(call(), output()), "output of a tool"),
    (("huggingface",), given(thought(), assistant()), "reasoning"),
]


@pytest.mark.parametrize(("dialects", "fragment", "word"), ROWS)
def test_it_refuses(dialects: tuple[str, ...], fragment: Json, word: str) -> None:
    for dialect in dialects:
        why = refuses(dialect, PLAIN | fragment)
        assert why is not None, dialect
        assert word in why, dialect


@pytest.mark.parametrize("dialect", JUDGES)
def test_no_rule_is_without_a_row(dialect: str) -> None:
    requests = [PLAIN | fragment for _, fragment, _ in ROWS]
    broken = [[rule(request) for request in requests] for rule in JUDGES[dialect].request]
    listed = [item for request in requests for item in items(request)]
    broken += [[rule(item) for item in listed] for rule in JUDGES[dialect].item]
    assert all(any(why is not None for why in rule) for rule in broken)


@pytest.mark.parametrize("dialect", JUDGES)
def test_it_takes_what_it_should(dialect: str) -> None:
    """What each of them takes: a turn with a call, and its own reasoning."""
    assert refuses(dialect, PLAIN) is None
    assert refuses(dialect, PLAIN | {"input": "hi"}) is None
    whole = assistant(id="msg_1", status="completed")
    if dialect == "openrouter":
        del whole["status"]
    assert refuses(dialect, PLAIN | given(whole)) is None
    if dialect != "huggingface":
        assert refuses(dialect, PLAIN | given(call(), output(), whole)) is None
    own = dict.fromkeys(("openai", "azure", "xai", "maritaca", "generic"), SEAL) | {"ollama": OPEN}
    if dialect != "huggingface":
        assert refuses(dialect, PLAIN | given(own.get(dialect, thought()), whole)) is None
