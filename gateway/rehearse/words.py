"""The sentences of the script."""

from __future__ import annotations

import re
from itertools import count
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gateway.rehearse.conversation import Heard

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


def phrases(topic: str, seed: int) -> Iterator[list[str]]:
    """Sentences about `topic` without end; `seed` decides where they start."""
    for index in count(seed % len(_PHRASES)):
        yield [topic if word == "{topic}" else word for word in _PHRASES[index % len(_PHRASES)]]


def opening(heard: Heard, request: dict[str, Any]) -> list[str]:
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
