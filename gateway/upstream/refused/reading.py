"""The key that an error says its backend refuses, whatever the server's words. Pure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from gateway.upstream.chat.chunks import SEALED_KEYS, TEXT_KEYS
from gateway.upstream.refused.request import (
    CALL_IDS,
    DEMANDED,
    DEVELOPER,
    INPUT,
    MESSAGES,
    SAME_IDS,
    STRICT,
    SYSTEM,
    TURNS,
    USER_AFTER_TOOL,
    Refusal,
    as_value,
    value_of,
)
from lanes.stream.backend_errors import ReportedFault

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from lanes.errors import UpstreamFault

#: Statuses with which a server refuses a request for what is in it; templates fail with 500, too.
STATUSES: Final = (400, 422, 500)
_OF_KEYS: Final = (400, 422)
#: What the client has to get, or the model to see: without it the answer would be to another
#: question, so the client gets the error.
MEANT: Final = frozenset(
    {"messages", "model", "input", "instructions", "prompt", "conversation", "stream", "tools"}
    | {"functions", "function_call", "modalities", "audio", "web_search_options", "n", "stop"}
    | {"previous_response_id", "background"}
)
#: How servers say that they refuse a value, not the key.
_ONLY_VALUES: Final = re.compile(
    r"must be (?:one of|['\"`])|only the default|unsupported.value", re.I
)
#: How servers say that they refuse a key.
_REFUSING: Final = re.compile(
    r"unsupported|unrecogni[sz]ed|unknown|unexpected|extraneous|deprecated|cannot find field"
    r"|extra.forbidden|extra (?:inputs|fields|keys)|only allowed|invalid (?:parameter|argument)"
    r"|not (?:yet |currently |be )*(?:supported|permitted|allowed|recogni[sz]ed|available|accepted"
    r"|implemented|enabled)"
    r"|(?:do|does|did)(?: not|n.t) (?:\w+ )?(?:support|accept|allow|recogni[sz]e)"
    r"|(?:is|are)n.t (?:supported|allowed|permitted)",
    re.I,
)
#: How servers say that a message lacks its reasoning.
_DEMANDING: Final = re.compile(
    r"\bmust (?:be|have|include|contain|provide|pass)\b(?! (?:empty|null|removed|omitted|unset))"
    r"|\bmissing\b|\b(?:is|are|field) required\b|\brequires?\b",
    re.I,
)
#: What comes after it names other keys.
_ADVICE: Final = re.compile(
    r"expected one of|did you mean|\buse ['\"`]|instead of|(?<!un)supported (?:parameters|keys)"
    r"|(?:allowed|valid|known|permitted) (?:parameters|properties|fields|keys|values)",
    re.I,
)
#: How an error says that it is about a message.
_OF_MESSAGES: Final = re.compile(r"\bmessages?\b|\bassistant\b", re.I)
_ORDERS: Final = (
    (SYSTEM, r"system[^.,;]{0,20}\brole[^.,;]{0,20}(?:not|un)"),
    (SYSTEM, r"\brole[^.,;]{0,20}\bsystem\b[^.,;]{0,20}(?:not|un)"),
    (SYSTEM, r"does not support[^.,;]{0,20}\bsystem|only user(?:,| and) (?:assistant|model)"),
    (USER_AFTER_TOOL, r"role.{0,8}\buser\b.{0,8} after role.{0,8}\btool\b"),
    (CALL_IDS, r"tool.?call.{0,20}\bid.{0,80}(?:length|alphanumeric|a-z)"),
    (SAME_IDS, r"duplicat[^.]{0,60}\b(?:tool|call|ids?\b)|\btool.?calls?\b[^.]{0,60}duplicat"),
    (SAME_IDS, r"tool call results? does not follow"),
    (TURNS, r"\balternat"),
)
_ORDER_PATTERNS: Final = [(order, re.compile(words, re.I | re.S)) for order, words in _ORDERS]
#: Objects of which single keys may be refused; and what stands between the parts of a path.
_NESTED: Final = frozenset({"reasoning", "text", "stream_options"})
_PATH: Final = re.compile(r"[\[\]/.]+")
#: A key that is a word of the language counts only in quotes, or where an error names a field.
_BEFORE: Final = (
    r"(?:['\"`\[]|\b(?:body|request|json|params)[.:]"
    r"|\b(?:supplied|parameters?|arguments?|field|key|property):? )"
)
_WITHIN: Final = rf"(?:{_BEFORE}|\.)"


def refusal_in(fault: UpstreamFault, request: Mapping[str, Any]) -> Refusal | None:
    """Return what of a request an error refuses, if the request can do without it."""
    order = _order(fault) if fault.status in STATUSES else None
    if order is not None and "messages" in request:
        return Refusal(MESSAGES, order)
    if order in (TURNS, SYSTEM) and isinstance(request.get("input"), list):
        return Refusal(INPUT, order)
    told = f"{fault.message} {fault.param or ''}"
    if "messages" in request and (demanded := _demanded(told)) is not None:
        return Refusal(MESSAGES, DEMANDED + demanded)
    # An error within a stream has no status of its own, or that of the server which writes it.
    reported = isinstance(fault, ReportedFault) and fault.status in STATUSES
    if fault.status not in _OF_KEYS and not reported:
        return None
    if fault.code == "context_length_exceeded":
        return None
    words = f"{fault.code or ''} {fault.type or ''} {fault.message}"
    by_value = _ONLY_VALUES.search(words) is not None
    if not by_value and not _REFUSING.search(words):
        return None
    return _refused(fault, request, by_value=by_value)


def _order(fault: UpstreamFault) -> str | None:
    """Return the order that a chat template refuses."""
    found = (order for order, pattern in _ORDER_PATTERNS if pattern.search(fault.message))
    return next(found, None)


def _refused(fault: UpstreamFault, request: Mapping[str, Any], *, by_value: bool) -> Refusal | None:
    """Return what an error names, if the request can do without it.

    Args:
        fault: The error; its words refuse something.
        request: The request.
        by_value: Whether only a value is refused.
    """
    if "messages" in request and (inner := _in_messages(fault)):
        return Refusal(MESSAGES, inner)
    key = _named(fault.param, fault.message, request)
    if key in (STRICT, DEVELOPER):
        return Refusal(key)
    if key is None or key in MEANT or not _can_go(key, value_of(request, key)):
        return None
    value = value_of(request, key)
    one = by_value and not isinstance(value, dict | list)
    return Refusal(key, as_value(value) if one else "")


def _demanded(text: str) -> str | None:
    """Return the key of reasoning that the assistant's messages must have."""
    if _REFUSING.search(text):
        return None
    named = (key for key in TEXT_KEYS if _place(key, text, _WITHIN) >= 0)
    return next(named, None) if _DEMANDING.search(text) else None


def _in_messages(fault: UpstreamFault) -> str | None:
    """Return the key that no message may have, among those that a backend itself sends."""
    text = f"{fault.param or ''} {_told(fault.message)}"
    if not _OF_MESSAGES.search(text):
        return None
    found = [
        (place, key)
        for key in SEALED_KEYS + TEXT_KEYS
        if (place := _place(key, text, _WITHIN)) >= 0
    ]
    return min(found)[1] if found else None


def _named(param: str | None, text: str, request: Mapping[str, Any]) -> str | None:
    """Return the key that an error is about: by its `param`, else the first that it names.

    What is deep in a request comes with a path to it, so that is looked for first.
    """
    for key in (STRICT, DEVELOPER):
        if re.search(rf"[.'\"`\[]{key}\b|\b{key}=", f"{param or ''} {_told(text)}"):
            return key
    found = _found(_PATH.sub(".", param), request, "") if param else None
    return found or _found(_told(text), request, _BEFORE)


def _told(text: str) -> str:
    """Return an error's text up to its advice, which names other keys."""
    return _ADVICE.split(text)[0]


def _found(text: str, request: Mapping[str, Any], before: str) -> str | None:
    """Return the key that a text names first, the innermost of several in one place.

    Args:
        text: The text.
        request: Has the keys.
        before: What must come before a key that is a word of the language.
    """
    found = [
        (place, key) for key in _candidates(request) if (place := _place(key, text, before)) >= 0
    ]
    return min(found, key=lambda one: (one[0], -len(one[1])))[1] if found else None


def _candidates(request: Mapping[str, Any]) -> Iterator[str]:
    for key, value in request.items():
        yield key
        if key in _NESTED and isinstance(value, dict):
            yield from (f"{key}.{inner}" for inner in value)


def _place(key: str, text: str, before: str) -> int:
    """Return where a text names a key, in whatever spelling; -1 if it does not."""
    word = before if key.isalpha() else r"(?<!\w)"
    spelled = "[_ -]?".join(map(re.escape, key.split("_")))
    found = re.search(rf"{word}((?i:{spelled}))(?!\w)", text)
    return -1 if found is None else found.start(1)


def _can_go(key: str, value: object) -> bool:
    """Return whether the answer is still one to what was asked."""
    if key == "response_format":
        return isinstance(value, dict) and value.get("type") in ("text", "json_object")
    if key == "text":
        return isinstance(value, dict) and _can_go("text.format", value.get("format"))
    if key == "text.format":
        kind = value.get("type") if isinstance(value, dict) else None
        return kind in (None, "text", "json_object")
    return key != "tool_choice" or value == "auto"
