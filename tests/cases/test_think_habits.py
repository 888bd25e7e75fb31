"""Reasoning that only a closing tag ends: seen once, it is known for the model (B95, D46)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.dialects.chatting import body, chunk, counted, described, text
from tests.support.gateway_stand import Stand, stand, user

THOUGHT = ("hm ", "hm\n", "</think>", "\n\n", "h", "i")
READ = ["reasoning hm hm", "message hi"]
RAW = ["message hm hm\n</think>\n\nhi"]


async def said(on: Stand, *pieces: str, finish: str = "stop", **asked: Any) -> list[str]:
    reply = [body([*text(*pieces), chunk(finish), counted()])]
    _, response = await on.turn("a", reply, input=[user("go")], **asked)
    return [described(item) for item in response["output"]]


def deltas(on: Stand, kind: str) -> list[str]:
    return [one["delta"] for one in on.client.transcript if one["type"] == f"response.{kind}.delta"]


async def test_the_first_answer_teaches_the_second() -> None:
    async with stand(dialect="chat") as on:
        assert await said(on, *THOUGHT) == RAW
        assert await said(on, *THOUGHT) == READ
        assert deltas(on, "reasoning_text") == ["hm", " hm"], "it is streamed"
        assert await said(on, *THOUGHT, model="other") == RAW


SWITCHES: list[dict[str, Any]] = [
    {"reasoning": {"effort": "none"}},
    {"enable_thinking": False},
    {"chat_template_kwargs": {"enable_thinking": False}},
    {"chat_template_kwargs": {"thinking": False}},
    {"thinking": {"type": "disabled"}},
]


@pytest.mark.parametrize("switch", SWITCHES)
async def test_a_request_that_turns_it_off_is_answered_at_once(switch: dict[str, Any]) -> None:
    async with stand(dialect="chat", reasoning_tags="opened") as on:
        assert await said(on, "h", "i", **switch) == ["message hi"]
        assert deltas(on, "output_text") == ["h", "i"]


async def test_a_model_that_thinks_at_times_is_waited_for() -> None:
    async with stand(dialect="chat", reasoning_tags="opened") as on:
        for _ in range(2):
            assert await said(on, "h", "i") == ["message hi"]
            assert await said(on, *THOUGHT) == READ
        assert deltas(on, "reasoning_text") == ["hm hm"] * 2


async def test_once_it_has_thought_its_thoughts_are_streamed() -> None:
    async with stand(dialect="chat", reasoning_tags="opened") as on:
        for _ in range(2):
            assert await said(on, *THOUGHT) == READ
        assert deltas(on, "reasoning_text") == ["hm hm", "hm", " hm"]
        # The first time that it does not think, nobody could know.
        assert await said(on, "h", "i") == ["reasoning hi", "message hi"]
        assert await said(on, "h", "i") == ["message hi"]


async def test_what_an_answer_quotes_is_soon_forgotten() -> None:
    async with stand(dialect="chat") as on:
        assert await said(on, "so\n</think>\nends it") == ["message so\n</think>\nends it"]
        await said(on, "h", "i")
        assert await said(on, "h", "i") == ["message hi"]
        before = len(deltas(on, "output_text"))
        assert await said(on, "h", "i") == ["message hi"]
        assert deltas(on, "output_text")[before:] == ["h", "i"]


ABOUT_TAGS = [
    "use `</think>` to end it",
    "<think>a</think> is a pair".replace("<think>", "the tags <think>"),
    "```\na\n</think>\n```\n",
    "it writes </think> in the middle",
    "a\n</think>\nb\n</think>\n",
]


@pytest.mark.parametrize("about", ABOUT_TAGS)
async def test_a_text_about_tags_teaches_nothing(about: str) -> None:
    async with stand(dialect="chat") as on:
        await said(on, about)
        before = len(deltas(on, "output_text"))
        assert await said(on, "h", "i") == ["message hi"]
        assert deltas(on, "output_text")[before:] == ["h", "i"]


async def test_by_setting_off_nothing_is_learnt() -> None:
    async with stand(dialect="chat", reasoning_tags="off") as on:
        for _ in range(2):
            assert await said(on, *THOUGHT) == RAW
