"""A conversation -> a plan of the answer. The same request always gets the same answer."""

from __future__ import annotations

import re
import zlib
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from gateway.tools.rehearse.calls import ScriptedCall, planned_calls, slices, written_value
from gateway.tools.rehearse.conversation import (
    CLOSING,
    TOPIC_NOISE,
    RehearsedConversation,
    brief,
    opening,
    phrases,
    read_conversation,
    recap,
)
from gateway.tools.rehearse.refusals import RequestRefused
from lanes.compaction.prompt import SUMMARY_PROMPT

_EFFORT = {"minimal": 6, "low": 9, "medium": 14, "high": 20, "xhigh": 26, "max": 32}
#: Words of an answer for which the message sets no length.
_DEFAULT_WORDS = 30
#: Words about the topic that an answer of a set length has at least.
_TOPIC_WORDS = 6
_REASONING = (
    'The last message is about "{topic}", so the answer has to start there. Earlier messages '
    "matter less, and the closing sentence has to come last. Counting the words once more does "
    "no harm."
)


class Ending(StrEnum):
    """How a response ends."""

    WHOLE = "whole"
    FAIL = "fail midway"
    CUT = "cut midway"
    STALL = "stall"


@dataclass(frozen=True, slots=True)
class ScriptedReasoning:
    """Reasoning: parts of pieces, shown as a summary if `shown`."""

    parts: tuple[tuple[str, ...], ...]
    shown: bool


@dataclass(frozen=True, slots=True)
class ScriptedMessage:
    """A message, or a refusal."""

    pieces: tuple[str, ...]
    refusal: bool = False


@dataclass(frozen=True, slots=True)
class AnswerPlan:
    """The answer to one request: parts of pieces, one piece a token."""

    parts: tuple[ScriptedReasoning | ScriptedMessage | ScriptedCall, ...]
    ending: Ending
    words_in: int


def decide(request: dict[str, Any]) -> AnswerPlan:
    """Plan the answer to a checked request.

    Raises:
        RequestRefused: The last user message asks for a refusal, or a schema is invalid.
    """
    conversation = read_conversation(request)
    asked = conversation.last.lower()
    _refuse(asked)
    topic = _topic(conversation.last)
    answer = planned_calls(request, conversation, topic) or (
        _message(request, conversation, topic),
    )
    endings = (Ending.FAIL, Ending.CUT, Ending.STALL)
    ending = next((one for one in endings if re.search(rf"\b{one}\b", asked)), Ending.WHOLE)
    return AnswerPlan((*_reasoning(request, topic), *answer), ending, conversation.words)


def _refuse(asked: str) -> None:
    if "fail before" in asked:
        raise RequestRefused(
            "You asked me to fail before I start.", status=500, kind="server_error"
        )
    if "fail 400" in asked:
        raise RequestRefused("You asked me to fail with 400.", param="input", code="invalid_value")
    if "fail 429" in asked:
        headers = {
            "retry-after": "30",
            "x-ratelimit-limit-requests": "60",
            "x-ratelimit-remaining-requests": "0",
            "x-ratelimit-reset-requests": "30s",
        }
        message = "You asked me to fail with 429. Please try again in 30s."
        code = "rate_limit_exceeded"
        raise RequestRefused(message, code=code, status=429, kind="requests", headers=headers)


def _topic(last: str) -> str:
    """Return the longest word that is not a stage direction."""
    words = re.findall(r"\w+", TOPIC_NOISE.sub(" ", last))
    return max(words, key=len, default="rehearsal")[:40]


def _reasoning(request: dict[str, Any], topic: str) -> tuple[ScriptedReasoning, ...]:
    wanted = request.get("reasoning") or {}
    effort = wanted.get("effort")
    if effort in (None, "none"):
        return ()
    pieces = _pieces(_REASONING.format(topic=topic).split()[: _EFFORT[effort]])
    half = len(pieces) // 2
    detailed = wanted.get("summary") == "detailed"
    parts = (pieces[:half], _pieces([piece.strip() for piece in pieces[half:]]))
    return (
        ScriptedReasoning(
            parts if detailed else (pieces,), shown=wanted.get("summary") is not None
        ),
    )


def _pieces(words: list[str]) -> tuple[str, ...]:
    return tuple(word if index == 0 else f" {word}" for index, word in enumerate(words))


def _message(
    request: dict[str, Any], conversation: RehearsedConversation, topic: str
) -> ScriptedMessage:
    if conversation.last.startswith(SUMMARY_PROMPT):
        return ScriptedMessage(_pieces(recap(conversation)))
    shape = (request.get("text") or {}).get("format") or {}
    if shape.get("type") == "json_schema":
        return ScriptedMessage(slices(written_value(shape.get("schema"), topic)))
    asked = conversation.last.lower()
    if re.search(r"\brefuse\b", asked):
        return ScriptedMessage(
            _pieces(f"You asked me to refuse, so I do. {CLOSING}".split()), refusal=True
        )
    count = re.search(r"\bin (\d{1,6}) words?\b", asked)
    start = opening(conversation, request)
    if count is None:
        return ScriptedMessage(_pieces(_words(start, topic)))
    return ScriptedMessage(
        _pieces(_exactly(int(count[1]), start, brief(conversation, topic), topic))
    )


def _words(start: list[str], topic: str) -> list[str]:
    """Return enough words to be watched."""
    words = list(start)
    for phrase in phrases(topic, zlib.crc32(topic.encode())):
        if len(words) >= max(_DEFAULT_WORDS, len(start) + 12):
            break
        words += phrase
    return words + CLOSING.split()


def _exactly(count: int, start: list[str], short: list[str], topic: str) -> list[str]:
    """Return `count` words; few words are about the message rather than the conversation."""
    closing = CLOSING.split()
    closing = closing[-min(count, len(closing) if count > 2 * len(closing) else 1) :]
    room = count - len(closing)
    words = list(start if len(start) + _TOPIC_WORDS <= room else short)[:room]
    for phrase in phrases(topic, zlib.crc32(topic.encode())):
        if len(words) >= room:
            break
        words += phrase[: room - len(words)]
    return words + (closing if count else [])
