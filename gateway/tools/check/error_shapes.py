"""The known shapes of an error's body. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lanes.codec import decode_lenient

if TYPE_CHECKING:
    from collections.abc import Mapping


def shape_of(headers: Mapping[str, str], body: bytes) -> str:
    """Describe the shape of an error's body in words."""
    if "html" in headers.get("content-type", "").lower():
        return "an HTML page"
    try:
        value = decode_lenient(body)
    except ValueError:
        return "plain text" if body.strip() else "an empty body"
    if not isinstance(value, dict):
        return "JSON that is no object"
    error = value.get("error")
    if isinstance(error, dict):
        return f"an error object ({', '.join(sorted(map(str, error)))})"
    if isinstance(error, str):
        return "an error that is a string"
    if "detail" in value:
        listed = isinstance(value["detail"], list)
        return "a list of details" if listed else "a detail"
    return "a message" if "message" in value else "JSON of another kind"
