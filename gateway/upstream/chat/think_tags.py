"""Reasoning that a model writes into its text, between tags, because its server does not part them.

Only the very start of an answer is looked at, so a tag in code or in later text is text. Once it is
decided, nobody looks any more. Pure.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import Final

#: The opening and the closing tag of the known models, in lower case.
_TAGS: Final = {
    "<think>": "</think>",
    "<thinking>": "</thinking>",
    "<thought>": "</thought>",
    "<reasoning>": "</reasoning>",
    "<reason>": "</reason>",
    "<seed:think>": "</seed:think>",
    "[think]": "[/think]",
    "◁think▷": "◁/think▷",
    "<|channel>thought": "<channel|>",
    "<|start_thinking|>": "<|end_thinking|>",
    "<|channel|>analysis<|message|>": "<|end|>",
}
#: What may stand before the answer, and says nothing.
_LABELS: Final = ("<|start|>assistant", "<|channel|>final<|message|>", "<|start_response|>")
_CLOSING: Final = [tag.encode() for tag in {*_TAGS.values()}]
#: More blanks than this at the start are text.
_MAX_BLANKS: Final = 64


class _Stage(Enum):
    START = auto()
    THINKING = auto()
    BETWEEN = auto()  # the reasoning is over, and the answer has not begun
    DECIDED = auto()


class ThinkTags:
    """Parts the text of one answer into its reasoning and the rest, in pieces of any size.

    `opened` says that the chat template has written the opening tag, so that only the closing one
    comes; `held` that this is not sure, so that nothing is sent before it comes.
    """

    def __init__(self, *, opened: bool = False, held: bool = False) -> None:
        self._opened = opened or held
        self._held = held
        self._stage = _Stage.START
        self._closing = tuple({*_TAGS.values()}) if self._opened else ()
        self._rest = ""  # what may be the beginning of a tag
        self._thought: list[str] = []
        self._tagged = False

    @property
    def decided(self) -> bool:
        """Whether all further text is text."""
        return self._stage is _Stage.DECIDED

    def feed(self, text: str) -> list[tuple[bool, str]]:
        """Return the pieces that can be sent, each with whether it is reasoning."""
        pieces: list[tuple[bool, str]] = []
        self._rest += text
        if self._stage is _Stage.START:
            self._start()
        if self._stage is _Stage.THINKING:
            self._think(pieces)
        if self._stage is _Stage.BETWEEN:
            self._skip()
        if self.decided and self._rest:
            pieces.append((False, self._rest))
            self._rest = ""
        return pieces

    def finish(self, *, answered: bool = False) -> list[tuple[bool, str]]:
        """Return what is left when something else begins, or the answer ends.

        Args:
            answered: Whether the answer ended well, so that what was held must be its text.
        """
        stage, rest, self._stage, self._rest = self._stage, self._rest, _Stage.DECIDED, ""
        if stage is _Stage.THINKING:
            rest = rest.rstrip() if self._thought else rest.strip()
        elif stage is _Stage.BETWEEN:
            rest = rest.strip()
        if self._held and not self._tagged:
            rest = "".join((*self._thought, rest))
            self._thought.clear()
            return [(not answered, rest)] if rest else []
        return [(stage is _Stage.THINKING, rest)] if rest else []

    def whole_text(self) -> str:
        """Return the text that passed for reasoning where no tag ever came, so that it was none."""
        return "" if self._tagged else "".join(self._thought)

    def _start(self) -> None:
        self._drop_labels()
        start = self._rest.lstrip()
        lower = start.lower()
        tag = next((tag for tag in _TAGS if lower.startswith(tag)), None)
        if tag is not None:
            self._stage, self._tagged = _Stage.THINKING, True
            self._closing, self._rest = (_TAGS[tag],), start[len(tag) :]
        elif (start or len(self._rest) > _MAX_BLANKS) and not _begins(lower, *_TAGS, *_LABELS):
            self._stage = _Stage.THINKING if self._opened else _Stage.DECIDED

    def _think(self, pieces: list[tuple[bool, str]]) -> None:
        lower = self._rest.lower()
        found = [(lower.index(tag), tag) for tag in self._closing if tag in lower]
        if found:
            at, tag = min(found)
            thought, self._rest = self._rest[:at].rstrip(), self._rest[at + len(tag) :]
            self._stage = _Stage.BETWEEN
        else:
            # A blank or the beginning of a tag waits: it may be the end of the reasoning.
            thought = self._rest[: len(lower) - _overlap(lower, self._closing)].rstrip()
            self._rest = self._rest[len(thought) :]
        if not self._thought:
            thought = thought.lstrip()
        if thought:
            self._thought.append(thought)
        if found and self._held and not self._tagged:
            thought = "".join(self._thought)
        self._tagged = self._tagged or bool(found)
        if thought and (self._tagged or not self._held):
            pieces.append((True, thought))

    def _skip(self) -> None:
        self._drop_labels()
        start = self._rest.lstrip()
        if start and not _begins(start.lower(), *_LABELS):
            self._stage, self._rest = _Stage.DECIDED, start

    def _drop_labels(self) -> None:
        while label := next((one for one in _LABELS if self._labelled(one)), ""):
            self._rest = self._rest.lstrip()[len(label) :]

    def _labelled(self, label: str) -> bool:
        return self._rest.lstrip().lower().startswith(label)


def _begins(text: str, *tags: str) -> bool:
    """Return whether the text may be the beginning of a tag."""
    return any(tag.startswith(text) for tag in tags)


def _overlap(text: str, tags: tuple[str, ...]) -> int:
    """Return how much of the text's end is the beginning of a tag."""
    longest = max(map(len, tags)) - 1
    sizes = range(min(longest, len(text)), 0, -1)
    return next((size for size in sizes if _begins(text[-size:], *tags)), 0)


def has_closing_tag(data: bytes) -> bool:
    """Return whether a closing tag is anywhere in some JSON."""
    return any(tag in data for tag in _CLOSING)


def closes_alone(text: str) -> bool:
    """Return whether a text ends reasoning that no tag has opened.

    A text about tags has them within a line, in code, or both of a pair.
    """
    lower = text.lower()
    for opening, closing in _TAGS.items():
        before, found, after = lower.partition(closing)
        if not found or opening in lower or closing in after:
            continue
        own_line = before.rstrip(" ").endswith("\n") or after[:1] in ("", "\n") or not before
        return own_line and not before.endswith("`") and before.count("```") % 2 == 0
    return False


def begins_with_tag(text: str) -> bool:
    """Return whether a text begins with an opening tag."""
    return text.lstrip()[:1] in ("<", "[", "◁") and text.lstrip().lower().startswith((*_TAGS,))
