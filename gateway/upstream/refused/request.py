"""A finished request without what its backend refuses. Pure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from gateway.upstream.chat.template import SystemPlace, TemplateForm
from gateway.upstream.chat.templating import in_template
from gateway.upstream.history.in_turns import in_turns
from lanes.codec import decode, encode

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from msgspec import Raw


class Refusal(NamedTuple):
    """What a backend refuses: a key of its requests, or only some value of it.

    Attributes:
        key: The key, perhaps of an object (`reasoning.effort`); `STRICT` and `DEVELOPER` stand for
            what is deeper, `MESSAGES` and `INPUT` for what is in them.
        value: The value, as JSON, if others are accepted; one of `ORDERS` for `INPUT` and
            `MESSAGES`, or a key of messages; behind `DEMANDED` or `FILLED` one that they
            must have.
    """

    key: str
    value: str = ""


#: `strict` of tools and schemas; the role `developer`; an order of messages.
STRICT: Final = "strict"
DEVELOPER: Final = "developer"
MESSAGES: Final = "messages"
INPUT: Final = "input"
#: What stands before a key of messages that a backend does not refuse but demand.
DEMANDED: Final = "with "
#: What stands there if an empty text is not enough.
FILLED: Final = "with any "
#: Orders that a chat template refuses (`gateway/upstream/chat/template.py`).
TURNS, SYSTEM, USER_AFTER_TOOL, CALL_IDS = "turns", "system", "user after tool", "call ids"
SAME_IDS: Final = "same call ids"
ORDERS: Final = (TURNS, SYSTEM, USER_AFTER_TOOL, CALL_IDS, SAME_IDS)
#: Two names of one thing.
OTHER_NAME: Final = {"max_tokens": "max_completion_tokens", "max_completion_tokens": "max_tokens"}
#: Keys that mean nothing without another one.
_DEPENDENT: Final = {"logprobs": "top_logprobs"}
_NINE: Final = re.compile("[a-zA-Z0-9]{9}")


def without(request: dict[str, Any], refused: Collection[Refusal]) -> dict[str, Any]:
    """Return a request without what is refused, renamed where it has another name."""
    kept = dict(request)
    keys = {refusal.key for refusal in refused if not refusal.value}
    for key in {refusal.key for refusal in refused} - {STRICT, DEVELOPER, INPUT, MESSAGES}:
        value = value_of(request, key)
        if value is not None and (key in keys or Refusal(key, as_value(value)) in refused):
            _drop(kept, key, keys)
    if STRICT in keys:
        kept = _without_strict(kept)
    if DEVELOPER in keys and isinstance(kept.get("input"), list):
        kept["input"] = [_without_developer(item) for item in kept["input"]]
    orders = {refusal.value for refusal in refused if refusal.key == INPUT}
    if orders and isinstance(kept.get("input"), list):
        kept["input"] = in_turns(kept["input"], system=SYSTEM not in orders)
    inside = {refusal.value for refusal in refused if refusal.key == MESSAGES}
    if inside and "messages" in kept:
        bare = [_without_keys(message, inside) for message in kept["messages"]]
        for demanded in (one for one in inside if one.startswith(DEMANDED)):
            bare = [_with_reasoning(message, demanded) for message in bare]
        orders = inside.intersection(ORDERS)
        kept["messages"] = in_template(bare, _template(orders)) if orders else bare
    return kept


def value_of(request: Mapping[str, Any], key: str) -> Any:
    """Return the value of a key, which may be one of an object's (`reasoning.effort`)."""
    outer, _, inner = key.partition(".")
    value = request.get(outer)
    if not inner:
        return value
    return value.get(inner) if isinstance(value, dict) else None


def as_value(value: object) -> str:
    """Return a small value as `Refusal.value` has it; larger ones are not told apart."""
    return " " if isinstance(value, dict | list) else encode(value).decode()[:64]


def _drop(kept: dict[str, Any], key: str, refused: set[str]) -> None:
    outer, _, inner = key.partition(".")
    if inner:
        rest = {name: value for name, value in kept[outer].items() if name != inner}
        kept[outer] = rest
        if not rest:
            del kept[outer]
        return
    value = kept.pop(key, None)
    other = OTHER_NAME.get(key)
    if other is not None and other not in refused and "messages" in kept:
        kept.setdefault(other, value)
    kept.pop(_DEPENDENT.get(key, ""), None)


def _without_strict(request: dict[str, Any]) -> dict[str, Any]:
    """Leave out `strict` wherever it is: the schema stays, and is no longer enforced."""
    kept = dict(request)
    if isinstance(kept.get("tools"), list):
        kept["tools"] = [_bare(_inside(tool, "function")) for tool in kept["tools"]]
    kept |= {
        key: _inside(kept[key], inner)
        for key, inner in (("response_format", "json_schema"), ("text", "format"))
        if isinstance(kept.get(key), dict)
    }
    return kept


def _inside(value: Any, key: str) -> Any:
    inner = value.get(key) if isinstance(value, dict) else None
    return {**value, key: _bare(inner)} if isinstance(inner, dict) else value


def _bare(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    return {key: inner for key, inner in value.items() if key != STRICT}


def _without_developer(item: dict[str, Any] | Raw) -> Any:
    """Let the system say what the developer says: the older name for the same."""
    read = item if isinstance(item, dict) else decode(bytes(item))
    return {**read, "role": "system"} if read.get("role") == DEVELOPER else item


def _without_keys(message: dict[str, Any], keys: set[str]) -> dict[str, Any]:
    kept = {key: value for key, value in message.items() if key not in keys}
    if "tool_calls" in kept:
        calls = kept["tool_calls"]
        kept["tool_calls"] = [{k: v for k, v in call.items() if k not in keys} for call in calls]
    return kept


def _with_reasoning(message: dict[str, Any], demanded: str) -> dict[str, Any]:
    """Return a message of the assistant with the key of reasoning that is demanded of it."""
    if message["role"] != "assistant":
        return message
    filled = demanded.startswith(FILLED)
    key = demanded.removeprefix(FILLED if filled else DEMANDED)
    return {**message, key: message.get(key) or (" " if filled else "")}


def _template(orders: set[str]) -> TemplateForm:
    return TemplateForm(
        SystemPlace.NOWHERE if SYSTEM in orders else SystemPlace.FIRST,
        user_follows=not orders & {USER_AFTER_TOOL, TURNS},
        call_id=_NINE if CALL_IDS in orders else None,
        repeats_ids=SAME_IDS not in orders,
    )
