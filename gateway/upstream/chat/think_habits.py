"""Whether a model's text begins within its reasoning, by what its answers showed before (D46).

Many chat templates end with the opening tag, so that only the closing one comes. Nothing in the
stream shows that before the closing tag, when the text has been sent long ago. So each answer is
looked at once it is over, for the next one.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from gateway.upstream.chat.think_tags import closes_alone, has_closing_tag
from lanes.codec import decode, encode

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from lanes.stream.profile import Profile

#: Models that are remembered, with what turns their reasoning on and off.
_MAX_KNOWN: Final = 256
#: The keys of a request that do.
_SWITCHES: Final = (
    *("reasoning", "chat_template_kwargs", "enable_thinking", "thinking", "think"),
    *("thinking_budget", "reasoning_budget", "thinking_forced_open", "disable_reasoning"),
)
#: The keys of which false turns it off, wherever they are.
_OFF_IF_FALSE: Final = ("enable_thinking", "thinking", "think")


@dataclass(slots=True)
class _Habit:
    """How many answers had a closing tag alone, and how many lacked one that was expected."""

    closed: int = 0
    stray: int = 0


class ThinkHabits:
    """What the answers of one upstream showed, for each model and each way to ask it."""

    def __init__(self) -> None:
        self._known: OrderedDict[bytes, _Habit] = OrderedDict()

    def tags(self, setting: str, body: Mapping[str, Any]) -> str:
        """Return how the text of an answer is read (see `Profile.reasoning_tags`).

        Args:
            setting: What the operator says: `auto`, `opened` or `off`.
            body: The request.
        """
        if setting == "off" or _is_off(body):
            return "off" if setting == "off" else "auto"
        habit = self._known.get(_key(body)) or _Habit()
        if habit.closed and not habit.stray:
            return "opened"
        return "held" if setting == "opened" or 0 < habit.stray <= habit.closed else "auto"

    def applied(self, profile: Profile, body: Mapping[str, Any]) -> Profile:
        """Return a profile for the answer to a request: how its text is read, and who hears of it.

        `reasoning_tags` of the given one is what the operator says.
        """
        tags = self.tags(profile.reasoning_tags, body)
        return replace(profile, reasoning_tags=tags, heard=self.listener(tags, body))

    def listener(self, tags: str, body: Mapping[str, Any]) -> Callable[[bytes], None] | None:
        """Return what hears the finished response; None where nothing can be learnt.

        Args:
            tags: How its text was read.
            body: The request.
        """
        if tags == "off" or _is_off(body):
            return None
        key = _key(body)
        if tags == "auto":
            return lambda final: self._look(key, final)
        return lambda final: self._compare(key, final)

    def _look(self, key: bytes, final: bytes) -> None:
        """Look for a closing tag in a message, before which no opening one came."""
        if has_closing_tag(final) and any(map(closes_alone, _texts(final, "message"))):
            self._habit(key).closed += 1

    def _compare(self, key: bytes, final: bytes) -> None:
        """See whether the reasoning that was expected came."""
        if b'"completed"' not in final or b'"function_call"' in final:
            return  # nobody knows what was to come
        thoughts, texts = _texts(final, "reasoning"), _texts(final, "message")
        habit = self._habit(key)
        if not thoughts or thoughts[:1] == texts[:1]:
            habit.stray += 1
        else:
            habit.closed += 1

    def _habit(self, key: bytes) -> _Habit:
        habit = self._known.setdefault(key, _Habit())
        self._known.move_to_end(key)
        while len(self._known) > _MAX_KNOWN:
            self._known.popitem(last=False)
        return habit


def _key(body: Mapping[str, Any]) -> bytes:
    return encode([body.get("model"), {key: body[key] for key in _SWITCHES if key in body}])


def _is_off(body: Mapping[str, Any]) -> bool:
    """Return whether a request turns reasoning off."""
    reasoning, kwargs = body.get("reasoning"), body.get("chat_template_kwargs")
    if isinstance(reasoning, dict) and reasoning.get("effort") == "none":
        return True
    places = (body, kwargs if isinstance(kwargs, dict) else {})
    if any(place.get(key) is False for place in places for key in _OFF_IF_FALSE):
        return True
    thinking = body.get("thinking")
    return isinstance(thinking, dict) and thinking.get("type") == "disabled"


def _texts(final: bytes, kind: str) -> list[str]:
    """Return the texts of the items of one type in a response."""
    items = [item for item in decode(final).get("output", ()) if item.get("type") == kind]
    parts = [part for item in items for part in item.get("content") or ()]
    return [part["text"] for part in parts if isinstance(part.get("text"), str)]
