"""How reasoning comes from a backend of Chat Completions, and how it goes back (D40). Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from gateway.upstream.chat.chunks import IN_CONTENT, SEALED_KEYS, TEXT_KEYS
from gateway.upstream.chat.return_form import ReasoningReturn
from gateway.upstream.chat.vendor_keys import merged, returned, shown
from lanes.history.makers import MADE_BY

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from gateway.upstream.chat.chunks import Delta
    from gateway.upstream.chat.return_form import ReturnForm
    from lanes.history.makers import Maker

    Item = dict[str, Any]


#: A text of this length comes again only where all of it is repeated.
_LONG: Final = 8


class Reasoning:
    """What must go back with the reasoning of one answer.

    Args:
        maker: The backend.
    """

    def __init__(self, maker: Maker) -> None:
        self._maker = maker
        self._key = ""
        self._pieces: dict[str, list[Any]] = {}
        self._said = ""  # what came with details
        self._grows = False

    @property
    def sealed(self) -> bool:
        """Whether something came that no item shows yet."""
        return bool(self._pieces)

    def came_as(self, key: str) -> None:
        """Note the key under which text came."""
        if key and key != self._key:
            self._key = self._maker.reasoning_key = key

    def keep(self, delta: Delta) -> None:
        """Keep what a delta holds beside text."""
        for key in SEALED_KEYS:
            value = getattr(delta, key)
            if value:
                self._pieces.setdefault(key, []).append(value)

    def fresh(self, delta: Delta, text: str) -> str:
        """Return what is new in the text of a delta whose details may hold all that came so far.

        MiniMax documents them so, and mostly sends pieces. A piece that begins with all before it
        is no piece, unless what came is so short that a word could begin with it.
        """
        said = self._said
        if self._grows and text == said:
            new = ""
        elif _extends(said, text):
            self._grows, new = True, text[len(said) :]
        else:
            self._said = said + text
            return text
        self._said = text
        details = delta.reasoning_details
        first = details[0] if isinstance(details, list) and len(details) == 1 else None
        if isinstance(first, dict) and "text" in first:
            delta.reasoning_details = [{**first, "text": new}]
        return new

    def mark(self) -> Item:
        """Return what its item shows from the beginning."""
        return {MADE_BY: self._maker.mark(key=self._key)} if self._key else {}

    def fields(self) -> Item:
        """Return what its item shows at the end, and begin anew."""
        kept = shown({key: merged(pieces) for key, pieces in self._pieces.items()})
        self._pieces = {}
        named = {"key": self._key} if self._key else {}
        return {**kept, MADE_BY: self._maker.mark(**named, keys=list(kept))}


def _extends(said: str, text: str) -> bool:
    """Return whether a text is all that was said, and more."""
    if len(said) < 2 or len(text) <= len(said) or not text.startswith(said):
        return False
    within_word = said[-1].isalnum() and text[len(said)].isalnum()
    return not said.isspace() and (len(said) >= _LONG or not within_word)


def reasoning_fields(items: Sequence[Item], form: ReturnForm, *, calls: bool) -> Item:
    """Return what a message of the assistant has beside its text and its calls.

    Args:
        items: The reasoning of that message.
        form: What the backend takes back.
        calls: Whether the message has calls.
    """
    fields: Item = {}
    for item in items:
        key = _key(item, form)
        if key and (text := _text(item)):
            before = fields.get(key)
            if key == IN_CONTENT:
                fields[key] = [*(before or ()), _thinking_part(text)]
            else:
                fields[key] = (before or "") + text
        for name, value in returned(item).items():
            if name in SEALED_KEYS:
                fields[name] = merged([fields[name], value]) if name in fields else value
    if calls and form.requires and form.reasoning:
        fields.setdefault(form.reasoning, "")
    return fields


def goes_back(form: ReturnForm, *, calls: bool, current: bool) -> bool:
    """Return whether a message goes back with its reasoning.

    Args:
        form: What the backend takes back.
        calls: Whether a tool is called before the user speaks again, or was since the user spoke.
        current: Whether it comes after the user's last message.
    """
    match form.returns:
        case ReasoningReturn.ALWAYS:
            return True
        case ReasoningReturn.CALLS:
            return calls
        case ReasoningReturn.TOOL_LOOP:
            return current
        case ReasoningReturn.NEVER:
            return False


def _thinking_part(text: str) -> Item:
    """Return reasoning as a part of a content."""
    return {"type": "thinking", "thinking": [{"type": "text", "text": text}]}


def _key(item: Mapping[str, Any], form: ReturnForm) -> str | None:
    mark = item.get(MADE_BY)
    if not isinstance(mark, dict):
        return form.reasoning
    key = mark.get("key")
    return key if key in TEXT_KEYS or key == IN_CONTENT else None


def _text(item: Mapping[str, Any]) -> str:
    return _joined(item.get("content")) or _joined(item.get("summary"))


def _joined(parts: object) -> str:
    listed: Iterable[Any] = parts if isinstance(parts, list) else ()
    texts = (part.get("text") for part in listed if isinstance(part, dict))
    return "".join(text for text in texts if isinstance(text, str))
