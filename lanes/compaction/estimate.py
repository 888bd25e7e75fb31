"""How long a context is, where no backend has counted it. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from lanes.codec import encode
from lanes.long_strings import string_end

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

#: Bytes of JSON for a token, more or less, in any language and in code.
_BYTES_PER_TOKEN: Final = 4
#: Tokens of an image or a file that is sent as base64.
_TOKENS_OF_MEDIA: Final = 1000
#: Bytes within which such a string says what it is.
_MEDIA_HEAD: Final = 256
#: Settings that the model reads.
_READ: Final = ("instructions", "tools", "text")


def estimated_tokens(items: Iterable[bytes], body: Mapping[str, Any]) -> int:
    """Return about how many tokens items have, and the settings that the model reads."""
    settings = {key: body[key] for key in _READ if body.get(key)}
    return sum(map(_tokens, items)) + len(encode(settings)) // _BYTES_PER_TOKEN


def _tokens(item: bytes) -> int:
    if b";base64," not in item:
        return len(item) // _BYTES_PER_TOKEN
    media = sum(_media_sizes(item))
    return (len(item) - media) // _BYTES_PER_TOKEN + _TOKENS_OF_MEDIA


def _media_sizes(item: bytes) -> Iterable[int]:
    """Yield the length of each string that is a file in base64; it is not decoded (D33)."""
    at = 0
    while (start := item.find(b'"', at)) >= 0:
        if (end := string_end(item, start + 1)) < 0:
            return
        if item.find(b";base64,", start, min(start + _MEDIA_HEAD, end)) >= 0:
            yield end - start - 1
        at = end + 1
