"""A checked request -> the conversation so far, and the sentences that answer it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

#: Ends every complete answer, so that one without it shows that it was cut.
CLOSING = "End of rehearsal."

_BY_MODEL = ("function_call", "custom_tool_call", "reasoning")
_OUTPUTS = ("function_call_output", "custom_tool_call_output")

#: Stage directions in a message, which are not what it is about.
TOPIC_NOISE = re.compile(
    r"in \d+ words?|fail (before|midway|429|400)|cut midway|use the tool( twice)?|stall|refuse"
    r"|please",
    re.IGNORECASE,
)
_LONGEST_QUOTE = 16
_LONGEST_WORD = 60
_MOST_QUOTES = 20
_PHRASES = tuple(
    phrase.split()
    for phrase in (
        "There is much to say about {topic} and a script can only say it in order.",
        "Nobody thought about this: every word was written down before you asked.",
        "A real model would know more about {topic} and take longer to tell you.",
        "The words arrive one by one so that you can watch them, count them or cut them.",
        "Ask for another course while this line is running and the next answer will follow it.",
        "What you see is a rehearsal, and {topic} is its subject for now.",
        "Other lanes may be talking at this moment about something else entirely.",
    )
)


@dataclass(frozen=True, slots=True)
class RehearsedConversation:
    """What the script reacts to.

    `messages` are the user's, in order; `outputs` those of tools after the model's last item; `cut`
    is the last answer, if it was cut and the user continued; `words` counts those of the whole
    input, `answered` the outputs since the last user message.
    """

    messages: tuple[str, ...]
    outputs: tuple[str, ...]
    ends_with_output: bool
    cut: str | None
    words: int
    answered: int

    @property
    def last(self) -> str:
        """The last user message, which decides on the answer."""
        return self.messages[-1] if self.messages else ""


def read_conversation(request: dict[str, Any]) -> RehearsedConversation:
    """Read the input of a checked request."""
    items = request["input"]
    if isinstance(items, str):
        items = [{"role": "user", "content": items}]
    messages: list[str] = []
    outputs: list[str] = []
    answered = 0
    words = len((request.get("instructions") or "").split())
    for item in items:
        text = _text(item)
        words += len(text.split())
        if item.get("role") == "user":
            messages.append(text)
            answered = 0
        elif item.get("type") in _OUTPUTS:
            outputs.append(text)
            answered += 1
        elif item.get("role") == "assistant" or item.get("type") in _BY_MODEL:
            outputs.clear()
    ends = items[-1].get("type") in _OUTPUTS
    return RehearsedConversation(
        tuple(messages), tuple(outputs), ends, _cut(items), words, answered
    )


def _text(item: dict[str, Any]) -> str:
    """Return the text of an item of any type."""
    for key in ("content", "output", "arguments", "input", "summary"):
        value = item.get(key)
        if isinstance(value, str):
            return value
        if isinstance(value, list):
            parts = (part for part in value if isinstance(part, dict))
            return " ".join(str(part.get("text") or part.get("refusal") or "") for part in parts)
    return ""


def _cut(items: list[dict[str, Any]]) -> str | None:
    answers = [index for index, item in enumerate(items) if item.get("role") == "assistant"]
    if not answers:
        return None
    answer, following = items[answers[-1]], items[answers[-1] + 1 :]
    if not following or following[0].get("role") != "user":
        return None
    text = _text(answer).strip()
    # A short answer has only the end of the closing sentence, structured output has none of it.
    whole = text.endswith((CLOSING.split()[-1], "}")) or CLOSING.endswith(text)
    return text if answer.get("status") == "incomplete" or not whole else None


def phrases(topic: str, seed: int) -> Iterator[list[str]]:
    """Yield sentences about `topic` without end; `seed` chooses the first."""
    for index in count(seed % len(_PHRASES)):
        yield [topic if word == "{topic}" else word for word in _PHRASES[index % len(_PHRASES)]]


def recap(conversation: RehearsedConversation) -> list[str]:
    """Return the words of a summary: what was said up to the message that asks for one."""
    told = conversation.messages[:-1]
    quotes = "; ".join(f'"{_quote(text)}"' for text in told[-_MOST_QUOTES:])
    said = f"The user said: {quotes}." if told else "The user said nothing."
    return f"Summary of {len(told)} messages. {said}".split()


def brief(conversation: RehearsedConversation, topic: str) -> list[str]:
    """Return the opening words of a short answer: its topic."""
    return ["Changing", "course:", topic] if conversation.cut is not None else [f"{topic}:"]


def opening(conversation: RehearsedConversation, request: dict[str, Any]) -> list[str]:
    """Return the opening words of an answer: what it says about the conversation."""
    sentences = []
    if conversation.cut is not None:
        sentences.append(f'Changing course from "{_tail(conversation.cut)}":')
    sentences += [f'The tool answered "{_quote(output)}".' for output in conversation.outputs]
    if "use the tool" in conversation.last.lower() and not request.get("tools"):
        sentences.append("You asked for a tool, but declared none.")
    sentences.append(
        f'You said "{_quote(conversation.last)}".' if conversation.messages else "You said nothing."
    )
    earlier = conversation.messages[:-1]
    if earlier:
        quotes = "; ".join(f'"{_quote(text)}"' for text in earlier[-_MOST_QUOTES:])
        left = len(earlier) - _MOST_QUOTES
        more = f" (after {left} more)" if left > 0 else ""
        sentences.append(f"Earlier you said{more}: {quotes}.")
    return " ".join(sentences).split()


def _quote(text: str) -> str:
    words = text.split()
    quoted = (word[:_LONGEST_WORD] for word in words[:_LONGEST_QUOTE])
    return " ".join(quoted) + (" …" if len(words) > _LONGEST_QUOTE else "")


def _tail(text: str) -> str:
    return " ".join(text.split()[-4:])
