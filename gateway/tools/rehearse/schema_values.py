"""A JSON schema -> one plausible value."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

_DEPTH = 6


def value(schema: Any, topic: str, nth: int = 0) -> Any:
    """Return a value of a schema, always the same for the same arguments.

    Args:
        schema: The JSON schema.
        topic: The text of its strings.
        nth: The number of the call, so that a second one differs from the first.
    """
    return _value(schema, schema, topic, nth, _DEPTH)


def _value(schema: Any, root: Any, topic: str, nth: int, depth: int) -> Any:
    if not isinstance(schema, dict) or depth == 0:
        return None
    for key in ("const", "default"):
        if key in schema:
            return schema[key]
    if schema.get("enum"):
        return schema["enum"][nth % len(schema["enum"])]
    inner = _inner(schema, root)
    if inner is not None:
        return _value(inner, root, topic, nth, depth - 1)
    kind = _kind(schema)
    if kind == "object":
        properties = schema.get("properties") or {}
        return {name: _value(sub, root, topic, nth, depth - 1) for name, sub in properties.items()}
    if kind == "array":
        return [_value(schema.get("items", {"type": "string"}), root, topic, nth, depth - 1)]
    return _scalar(kind, schema, topic, nth)


def _inner(schema: Mapping[str, Any], root: Any) -> Any:
    """Return the schema that this one only points at, if it does."""
    for key in ("anyOf", "oneOf", "allOf"):
        if schema.get(key):
            return schema[key][0]
    path = schema.get("$ref")
    if not isinstance(path, str):
        return None
    for name in path.removeprefix("#").strip("/").split("/"):
        root = root.get(name) if isinstance(root, dict) and name else root
    return root


def _kind(schema: Mapping[str, Any]) -> str:
    kind = schema.get("type")
    if isinstance(kind, list):
        kind = next((one for one in kind if one != "null"), "null")
    return kind or ("object" if "properties" in schema else "string")


def _scalar(kind: str, schema: Mapping[str, Any], topic: str, nth: int) -> Any:
    least = schema.get("minimum", 2)
    scalars = {
        "string": topic if nth == 0 else f"{topic} again",
        "integer": int(least) + nth,
        "number": least + 0.5 + nth,
        "boolean": nth == 0,
    }
    return scalars.get(kind)
