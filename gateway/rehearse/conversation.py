"""A checked request -> what was said so far."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

#: Ends every whole answer, so that an answer without it is known to be cut.
CLOSING = "End of rehearsal."

_BY_MODEL = ("function_call", "custom_tool_call", "reasoning")
_OUTPUTS = ("function_call_output", "custom_tool_call_output")


@dataclass(frozen=True, slots=True)
class Heard:
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


def hear(request: dict[str, Any]) -> Heard:
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
    return Heard(tuple(said), tuple(outputs), ends, _cut(items), words)


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
    # A short answer is only the end of the closing sentence, a structured one has none.
    whole = text.endswith((CLOSING, "}")) or CLOSING.endswith(text)
    return text if answer.get("status") == "incomplete" or not whole else None
