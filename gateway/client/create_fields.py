"""Pure: the types that the fields of a create have, as the reference gives them (protocol.md 2).

What is in range is the backend's to judge, since services differ on that (D42). Nothing is checked
that the reference does not know.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from lanes.errors import ClientFault

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    #: Checks the value of the field of this name. Raises ClientFault.
    Check = Callable[[str, object], None]

_MAX_PAIRS, _MAX_KEY, _MAX_VALUE = 16, 64, 512
#: Tools of one create, since each snapshot holds all of them.
_MAX_TOOLS: Final = 1024


class Field(NamedTuple):
    """What a field of a create may be.

    Attributes:
        fine: Types of which any value will do, so that most fields cost no call.
        check: Checks a value.
    """

    fine: frozenset[type]
    check: Check


def check_items(key: str, value: object) -> None:
    """Check an array of items. Raises ClientFault."""
    if not isinstance(value, list):
        raise wrong_type(key, "an array of objects", value)
    for index, item in enumerate(value):
        if not isinstance(item, dict):
            raise wrong_type(f"{key}[{index}]", "an object", item)
        if not (type(item.get("type")) in _NAME and type(item.get("role")) in _NAME):
            _ITEM(f"{key}[{index}]", item)
        if "role" in item and type(item.get("content")) not in _CONTENT:
            _ITEM(f"{key}[{index}]", item)


def check_metadata(key: str, value: object) -> None:
    """Check pairs of a client's. Raises ClientFault."""
    if value is None:
        return
    if not isinstance(value, dict):
        raise wrong_type(key, "an object of strings or null", value)
    if len(value) > _MAX_PAIRS:
        raise _wrong(key, f"'{key}' has {len(value)} pairs; at most {_MAX_PAIRS} are allowed.")
    for name, text in value.items():
        if not isinstance(text, str):
            raise wrong_type(f"{key}.{name[:_MAX_KEY]}", "a string", text, param=key)
        if len(name) > _MAX_KEY or len(text) > _MAX_VALUE:
            message = f"'{key}' allows {_MAX_KEY} characters a key and {_MAX_VALUE} a value."
            raise _wrong(key, message)


def wrong_type(key: str, wanted: str, value: object, *, param: str | None = None) -> ClientFault:
    """Return the fault of a field that has another type than it must have.

    Args:
        key: Where it is.
        wanted: What it must be.
        value: What it is.
        param: What the error names, if that is not the key.
    """
    message = f"'{key}' must be {wanted}, not {_json_type(value)}."
    return ClientFault(message, code="invalid_type", param=param or key)


def _json_type(value: object) -> str:
    names: dict[type, str] = {dict: "an object", list: "an array", str: "a string"}
    names |= {bool: "a boolean", type(None): "null", float: "a number with a fraction"}
    return names.get(type(value), "a number")


def _wrong(key: str, message: str) -> ClientFault:
    return ClientFault(message, code="invalid_value", param=key)


def _typed(wanted: str, *types: type) -> Check:
    """Return a check for exactly these types: a boolean is no number."""

    def check(key: str, value: object) -> None:
        if type(value) not in types:
            raise wrong_type(key, wanted, value)

    return check


def _record(fields: Mapping[str, Check], wanted: str = "an object or null") -> Check:
    """Return a check for null or an object; of its fields those that are there are checked."""

    def check(key: str, value: object) -> None:
        if value is None:
            return
        if not isinstance(value, dict):
            raise wrong_type(key, wanted, value)
        for name, inner in fields.items():
            if name in value:
                inner(f"{key}.{name}", value[name])

    return check


def _each(key: str, value: object, check: Check) -> None:
    for index, entry in enumerate(value if isinstance(value, list) else ()):
        check(f"{key}[{index}]", entry)


def _objects(key: str, value: object) -> None:
    for index, entry in enumerate(value if isinstance(value, list) else ()):
        if not isinstance(entry, dict):
            raise wrong_type(f"{key}[{index}]", "an object", entry)


def _input(key: str, value: object) -> None:
    if not isinstance(value, str | list):
        raise wrong_type(key, "a string or an array of objects", value)
    if isinstance(value, list):
        check_items(key, value)


def _tools(key: str, value: object) -> None:
    _OBJECTS(key, value)
    if isinstance(value, list) and len(value) > _MAX_TOOLS:
        raise _wrong(key, f"'{key}' has {len(value)} tools; at most {_MAX_TOOLS} are allowed.")
    _objects(key, value)
    _each(key, value, _TOOL)


def _conversation(key: str, value: object) -> None:
    _typed("a string, an object with an id, or null", str, dict, type(None))(key, value)
    if isinstance(value, dict):
        _typed("a string", str)(f"{key}.id", value.get("id"))


def _include(key: str, value: object) -> None:
    _typed("an array of strings or null", list, type(None))(key, value)
    _each(key, value, _typed("a string", str))


def _choice(key: str, value: object) -> None:
    if not isinstance(value, str):
        _record({"type": _TEXT}, "a string, an object or null")(key, value)


def _management(key: str, value: object) -> None:
    _OBJECTS(key, value)
    _objects(key, value)
    _each(key, value, _managed)


def _managed(key: str, entry: Any) -> None:
    _typed("a string", str)(f"{key}.type", entry.get("type"))
    name, threshold = f"{key}.compact_threshold", entry.get("compact_threshold")
    _COUNT(name, threshold)
    if threshold is not None and threshold < 1:
        raise _wrong(name, f"'{name}' must be at least 1, or null.")


def _truncation(key: str, value: object) -> None:
    _TEXT(key, value)
    if value not in ("auto", "disabled", None):
        raise _wrong(key, f"'{key}' must be 'auto', 'disabled' or null.")


_NULL: Final = type(None)
_NAME: Final = (str, _NULL)
_CONTENT: Final = (str, list, _NULL)
_TEXT: Final = _typed("a string or null", str, _NULL)
_FLAG: Final = _typed("a boolean or null", bool, _NULL)
_COUNT: Final = _typed("an integer or null", int, _NULL)
_NUMBER: Final = _typed("a number or null", int, float, _NULL)
_OBJECTS: Final = _typed("an array of objects or null", list, _NULL)
_OBJECT: Final = _record({})
_ITEM: Final = _record(
    {
        "type": _TEXT,
        "role": _TEXT,
        "content": _typed("a string, an array or null", *_CONTENT),
    }
)
_TOOL: Final = _record(
    {
        "type": _TEXT,
        "name": _TEXT,
        "description": _TEXT,
        "parameters": _OBJECT,
        "strict": _FLAG,
    }
)


def _field(check: Check, *fine: type) -> Field:
    return Field(frozenset(fine), check)


_TEXTS: Final = _field(_TEXT, str, _NULL)
_FLAGS: Final = _field(_FLAG, bool, _NULL)
_COUNTS: Final = _field(_COUNT, int, _NULL)
_NUMBERS: Final = _field(_NUMBER, int, float, _NULL)
#: The fields of a create.
FIELDS: Final[Mapping[str, Field]] = {
    **dict.fromkeys(("instructions", "previous_response_id", "user", "safety_identifier"), _TEXTS),
    **dict.fromkeys(("prompt_cache_key", "prompt_cache_retention", "service_tier"), _TEXTS),
    **dict.fromkeys(("store", "background", "parallel_tool_calls"), _FLAGS),
    **dict.fromkeys(("max_output_tokens", "max_tool_calls", "top_logprobs"), _COUNTS),
    **dict.fromkeys(("temperature", "top_p", "presence_penalty", "frequency_penalty"), _NUMBERS),
    **dict.fromkeys(("access_programs", "image", "client_metadata"), _field(_OBJECT, dict, _NULL)),
    "model": _field(_typed("a string", str), str),
    "input": _field(_input, str),
    "generate": _field(_typed("a boolean", bool), bool),
    "conversation": _field(_conversation, str, _NULL),
    "context_management": _field(_management, _NULL),
    "include": _field(_include, _NULL),
    "metadata": _field(check_metadata, _NULL),
    "moderation": _field(_record({"model": _TEXT, "policy": _OBJECT}), _NULL),
    "prompt": _field(_record({"id": _TEXT, "version": _TEXT, "variables": _OBJECT}), _NULL),
    "prompt_cache_options": _field(
        _record({"mode": _TEXT, "ttl": _TEXT, "comparison_response_id": _TEXT}), _NULL
    ),
    "reasoning": _field(
        _record({"effort": _TEXT, "summary": _TEXT, "generate_summary": _TEXT}), _NULL
    ),
    "stream_options": _field(_record({"include_obfuscation": _FLAG}), _NULL),
    "text": _field(_record({"format": _record({"type": _TEXT}), "verbosity": _TEXT}), _NULL),
    "tool_choice": _field(_choice, str, _NULL),
    "tools": _field(_tools, _NULL),
    "truncation": _field(_truncation, _NULL),
}
