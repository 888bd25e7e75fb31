"""Characters that a backend cuts in two: halves of surrogate pairs in different deltas.

JSON writes a character beyond U+FFFF as two escapes, and backends that cut a text between UTF-16
units send one in each delta. Strict JSON refuses such a half. Here it stays where the other half
may still come, and U+FFFD stands for any other (protocol.md 4). Text without halves never gets
here.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from lanes.codec import decode_lenient, encode, parse_leniently

if TYPE_CHECKING:
    from collections.abc import Sequence

_ESCAPED = re.compile(rb"\\u[dD][89a-fA-F]")
_NOWHERE: frozenset[str] = frozenset()


class HalvedEvent(dict[str, Any]):
    """An event whose texts may begin or end with a half; the token path takes plain dicts alone."""


def decode_halves(
    data: bytes, keys: frozenset[str], within: frozenset[str] = _NOWHERE
) -> dict[str, Any] | None:
    """Return an object with the halves at the ends of its texts, else repaired; None: it has none.

    Args:
        data: The JSON, which strict decoding refused.
        keys: The keys of the texts.
        within: The keys of the objects and lists that hold such texts.

    Raises:
        ValueError: It cannot be repaired.
    """
    if _ESCAPED.search(data) is None:
        return None
    repaired = decode_lenient(data)
    if not isinstance(repaired, dict):
        return None
    _put_back(repaired, parse_leniently(data), keys, within)
    return HalvedEvent(repaired)


def _put_back(repaired: Any, given: Any, keys: frozenset[str], within: frozenset[str]) -> None:
    """Put the halves of the given value back into the repaired one, in place."""
    if isinstance(repaired, list) and isinstance(given, list):
        for inner, original in zip(repaired, given, strict=False):
            _put_back(inner, original, keys, within)
    elif isinstance(repaired, dict) and isinstance(given, dict):
        for key, value in repaired.items():
            original = given.get(key)
            if key in keys and isinstance(value, str) and isinstance(original, str):
                repaired[key] = edged(original)
            elif key in within:
                _put_back(value, original, keys, within)


def mended(text: str) -> str:
    """Return the text with its pairs joined and U+FFFD for any other half."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def edged(text: str) -> str:
    """Return the text mended, but for a half at its beginning or end whose other half may come."""
    first = text[:1] if "\udc00" <= text[:1] <= "\udfff" else ""
    last = text[-1:] if "\ud800" <= text[-1:] <= "\udbff" else ""
    return first + mended(text[len(first) : len(text) - len(last)]) + last


def joined(half: str, text: str) -> tuple[str, str]:
    """Return what can be sent of a text after a `half`, and the half that the text ends with."""
    text = half + text
    if "\ud800" <= text[-1:] <= "\udbff":
        return mended(text[:-1]), text[-1]
    return mended(text), ""


def whole(pieces: Sequence[str]) -> str:
    """Return the text of these pieces, mended."""
    text = "".join(pieces)
    return text if text.isascii() else mended(text)


def encode_halves(value: Any) -> bytes:
    """Return the JSON of a value whose texts may hold halves, each as its escape."""
    try:
        return encode(value)
    except UnicodeEncodeError:
        return json.dumps(value, separators=(",", ":")).encode()
