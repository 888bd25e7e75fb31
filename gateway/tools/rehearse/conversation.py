"""A checked request -> what was said so far, and the sentences that answer it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

#: Ends every whole answer, so that an answer without it is known to be cut.
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
class Conversation:
    """What the script reacts to."""

    said: tuple[str, ...]
    """The user messages, in order."""
    outputs: tuple[str, ...]
    """The tool outputs that came in since the model's last item."""
    ends_with_output: bool
    cut: str | None
    """The last answer, if it was cut short and the user went on."""
    words: int
    """All words of the input."""

    @property
    def last(self) -> str:
        """The user message that decides."""
        return self.said[-1] if self.said else ""


def hear(request: dict[str, Any]) -> Conversation:
    """Walk the input once."""
    items = request["input"]
    if isinstance(items, str):
        items = [{"role": "user", "content": items}]
    said: list[str] = []
    outputs: list[str] = []
    words = len((request.get("instructions") or "").split())
    for item in items:
        text = _text(item)
        words += len(text.split())
        if item.get("role") == "user":
            said.append(text)
        elif item.get("type") in _OUTPUTS:
            outputs.append(text)
        elif item.get("role") == "assistant" or item.get("type") in _BY_MODEL:
            outputs.clear()
    ends = items[-1].get("type") in _OUTPUTS
    return Conversation(tuple(said), tuple(outputs), ends, _cut(items), words)


def _text(item: dict[str, Any]) -> str:
    """The words of one item, whatever it is."""
    for key in ("content", "output", "arguments", "input", "summary"):
        held = item.get(key)
        if isinstance(held, str):
            return held
        if isinstance(held, list):
            parts = (part for part in held if isinstance(part, dict))
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
    # A short answer has only the end of the closing sentence, a structured one none of it.
    whole = text.endswith((CLOSING.split()[-1], "}")) or CLOSING.endswith(text)
    return text if answer.get("status") == "incomplete" or not whole else None


def phrases(topic: str, seed: int) -> Iterator[list[str]]:
    """Sentences about `topic` without end; `seed` decides where they start."""
    for index in count(seed % len(_PHRASES)):
        yield [topic if word == "{topic}" else word for word in _PHRASES[index % len(_PHRASES)]]


def brief(heard: Conversation, topic: str) -> list[str]:
    """The opening of an answer that has few words: what it is about."""
    return ["Changing", "course:", topic] if heard.cut is not None else [f"{topic}:"]


def opening(heard: Conversation, request: dict[str, Any]) -> list[str]:
    """What the answer says about the conversation before it says anything else."""
    sentences = []
    if heard.cut is not None:
        sentences.append(f'Changing course from "{_tail(heard.cut)}":')
    sentences += [f'The tool answered "{_quote(output)}".' for output in heard.outputs]
    if "use the tool" in heard.last.lower() and not request.get("tools"):
        sentences.append("You asked for a tool, but declared none.")
    sentences.append(f'You said "{_quote(heard.last)}".' if heard.said else "You said nothing.")
    earlier = heard.said[:-1]
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
