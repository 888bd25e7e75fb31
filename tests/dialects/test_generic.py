"""What a backend that nobody knows is given: the form that SDKs send."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.dialects.generic import DIALECT
from lanes.codec import decode, encode

PART = {"type": "output_text", "text": "hi", "annotations": [], "logprobs": [{"token": "hi"}]}
PLAIN = {"type": "message", "role": "user", "content": "hi"}
OUTPUT = {"type": "function_call_output", "call_id": "c", "output": "x"}


def sent(*items: dict[str, Any]) -> list[dict[str, Any]]:
    """Those items as they are sent, without the words of the user before them."""
    request = decode(DIALECT.request({}, [encode(item) for item in (PLAIN, *items)]))
    sent_items: list[dict[str, Any]] = request["input"][1:]
    return sent_items


def test_a_message_of_the_users_is_typed() -> None:
    assert sent({"role": "user", "content": "hi"}) == [PLAIN]


def test_a_message_of_the_assistants_is_whole() -> None:
    item = {
        "id": "m",
        "type": "message",
        "role": "assistant",
        "status": "incomplete",
        "phase": "final_answer",
        "content": [PART],
    }
    assert sent(item, PLAIN)[0] == {
        "id": "m",
        "type": "message",
        "role": "assistant",
        "status": "completed",
        "content": [{"type": "output_text", "text": "hi", "annotations": []}],
    }


def test_a_call_is_bare() -> None:
    call = {"type": "function_call", "call_id": "c", "name": "w", "arguments": "{}"}
    assert sent({**call, "id": "f", "status": "completed"}, OUTPUT) == [call, OUTPUT]


@pytest.mark.parametrize(
    ("seal", "kept"), [({}, False), ({"encrypted_content": "gAAAA"}, True)], ids=["open", "sealed"]
)
def test_reasoning_goes_back_sealed_only(seal: dict[str, str], kept: bool) -> None:
    content = [{"type": "reasoning_text", "text": "Think."}]
    item = {"type": "reasoning", "id": "r", "summary": [], "content": content, **seal}
    message = {"type": "message", "role": "assistant", "id": "m", "content": [PART]}
    assert [one["type"] == "reasoning" for one in sent(item, message, PLAIN)].count(True) == kept


def test_nulls_are_left_out() -> None:
    request = decode(DIALECT.request({"model": "m", "user": None}, [encode(PLAIN)]))
    assert request == {"model": "m", "input": [PLAIN], "stream": True, "store": False}


def test_it_is_trusted_with_little() -> None:
    profile = DIALECT.profile
    assert not profile.ordered_indices
    assert not profile.replays_reasoning
    assert not profile.counts_limit
    assert profile.cuts_text
