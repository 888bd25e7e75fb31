"""Every backend's body, at any chunking, becomes the same strict stream."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from lanes.codec import decode_lenient
from tests import tapes
from tests.machines.drive import feed
from tests.support.dialect_reading import check, chunks, profile, read, received
from tests.support.tape_mutations import MUTATIONS

if TYPE_CHECKING:
    from lanes.ports import Event

#: How each body ends: the status, and each item's type and text.
ENDS: dict[str, list[str]] = {
    "friendli_failed.sse": ["failed", "message: The first step"],
    "friendli_incomplete.sse": ["incomplete", "message: One two three four"],
    "friendli_reasoning_tool.sse": [
        "completed",
        "reasoning: The user asks for weather; call the tool.",
        'function_call: {"city":"Seoul"}',
    ],
    "friendli_text.sse": ["completed", "message: A lane runs its requests in order."],
    "llamacpp_builtin_tool.sse": ["completed", "message: Hello there! I's"],
    "llamacpp_max_output_tokens.sse": [
        "completed",
        "message: There was a time when dragons were mythical creatures with scales and",
    ],
    "llamacpp_plain.sse": [
        "completed",
        "message: Hello, welcome to my little corner of the world.",
    ],
    "llamacpp_text_tool.sse": [
        "completed",
        "reasoning: Think once.",
        "message: Order is kept.",
        'function_call: {"n":1}',
    ],
    "llamacpp_tool_output_turn.sse": [
        "completed",
        "message: <tool_response>\n18 C, sunny\n</tool_response>",
    ],
    "llamacpp_tools_auto.sse": ["completed", 'function_call: {"city": "Paris"}'],
    "llamacpp_tools_cut.sse": ["completed", "function_call: {"],
    "llamacpp_tools_required.sse": ["completed", 'function_call: {"city": "Paris"}'],
    "maritaca_failed.sse": ["failed", "message: A primeira etapa"],
    "maritaca_incomplete.sse": ["incomplete", "message: Um dois três"],
    "maritaca_reasoning_tool.sse": [
        "completed",
        "reasoning: Preciso da ferramenta.",
        'function_call: {"city": "Recife"}',
    ],
    "maritaca_text.sse": ["completed", "message: A fila é por conexão."],
    "ollama_text_tool.sse": [
        "completed",
        "reasoning: Need the tool.",
        "message: Looking it up.",
        'function_call: {"q":"lane"}',
    ],
    "openai_text.sse": [
        "completed",
        "reasoning: Pick a short reply.",
        "message: Use a queue per lane.",
    ],
    "openrouter_text.sse": ["completed", "reasoning: Brief.", "message: Yes, it is ordered."],
    "vllm_text.sse": ["completed", "reasoning: Short answer.", "message: Lanes are independent."],
    "sglang": ["completed", "reasoning: Short answer.", "message: Lanes are independent."],
    "hf": ["completed", "reasoning: Short answer.", "message: Lanes are independent."],
    "lmstudio": ["completed", "reasoning: All of it.", "message: Use a queue per lane."],
    "copilot": ["completed", "reasoning: Pick a short reply.", "message: Use a queue per lane."],
    "xai": ["completed", "reasoning: Pick a short reply.", "message: Use a queue per lane."],
    "azure": ["completed", "reasoning: Pick a short reply.", "message: Use a queue per lane."],
    "vllm_dead": ["failed", "reasoning: Short answer.", "message: Lanes are independent."],
    "llamacpp_error": ["failed", "reasoning: Think once."],
    "error_nested": ["failed"],
    "error_flat": ["failed", "reasoning: Pick a short reply.", "message: Use a"],
    "vllm_harmony": ["completed", "reasoning: Short answer.", "message: Lanes are independent."],
    "vllm_renamed": [
        "completed",
        "reasoning: The user asks for weather; call the tool.",
        'function_call: {"city":"Seoul"}',
    ],
    "sglang_limit": ["incomplete", "reasoning: Short answer.", "message: Lanes are independent."],
    "sglang_failed": ["failed", "reasoning: Short answer.", "message: Lanes are"],
    "sglang_overflow": ["failed"],
    "openrouter_error": ["failed", "reasoning: Brief.", "message: Yes, it is ordered."],
}


def reads(name: str) -> list[bytes]:
    return [tapes.tape(name)] if name.endswith(".sse") else MUTATIONS[name]()


def end(terminal: dict[str, Any]) -> list[str]:
    return [terminal["status"], *(f"{item['type']}: {text(item)}" for item in terminal["output"])]


def text(item: dict[str, Any]) -> str:
    parts = [*item.get("summary", ()), *item.get("content", ())]
    return "".join([item.get("arguments", ""), *(part["text"] for part in parts)])


def test_every_body_has_an_end() -> None:
    responses = [name for name in tapes.names() if not name.startswith("chat_")]
    assert sorted(ENDS) == sorted([*responses, *MUTATIONS])


@pytest.mark.parametrize("name", ENDS)
def test_body(name: str) -> None:
    played = read(reads(name), profile(name))
    assert end(check(played)) == ENDS[name]


@pytest.mark.parametrize("size", [1, 7, 4096])
@pytest.mark.parametrize("name", ENDS)
def test_any_chunking_reads_the_same(name: str, size: int) -> None:
    whole = read(reads(name), profile(name))
    split = read(chunks(b"".join(reads(name)), size), profile(name))
    assert split.events == whole.events


def whole(event: Event) -> bool:
    """Whether it can be read: all that cannot are the same to a run."""
    try:
        decode_lenient(event[1])
    except ValueError:
        return False
    return True


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("name", ENDS)
def test_a_body_cut_at_any_byte_ends_once(name: str, clean: bool) -> None:
    """At each byte; what comes of it is judged once, however many cuts it is the same for."""
    body = b"".join(reads(name))
    played_before: set[tuple[object, ...]] = set()
    judged: set[str] = set()
    for size in range(len(body)):
        events = received([body[:size]], cut=not clean)
        known = (*events[:-1], *(event if whole(event) else "half" for event in events[-1:]))
        if known in played_before:
            continue
        played_before.add(known)
        played = feed(events, profile=profile(name))
        assert played.run.over
        if played.run.fault is not None:
            assert played.events == []
        elif (sent := repr(played.events)) not in judged:
            judged.add(sent)
            assert check(played)["status"] == played.run.state
    assert len(judged) > len(received(reads(name))) // 3


@pytest.mark.parametrize(
    "name",
    ["llamacpp_max_output_tokens.sse", "llamacpp_tools_cut.sse", "ollama_text_tool.sse"],
)
def test_an_end_at_the_token_limit_is_incomplete(name: str) -> None:
    spent = tapes.events(name)[-1]["response"]["usage"]["output_tokens"]
    for limit, status in ((spent, "incomplete"), (spent + 1, "completed")):
        request = {"model": "m", "input": "hi", "max_output_tokens": limit}
        terminal = check(read(reads(name), profile(name), request))
        assert terminal["status"] == status
        if status == "incomplete":
            assert terminal["incomplete_details"] == {"reason": "max_output_tokens"}


def test_a_body_of_chat_completions_is_no_response() -> None:
    played = read(reads("chat_text_tool.sse"), profile("openai"))
    assert played.events == []
    assert played.run.fault is not None
