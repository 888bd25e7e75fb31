"""Items of a history read in steps that are all short: their long strings stay out (D33). Pure."""

from __future__ import annotations

from typing import Any, Final

from lanes.codec import decode, encode
from lanes.long_strings import LongStrings

Item = dict[str, Any]

#: What an item may be called by.
_NAMES: Final = ("id", "call_id", "approval_request_id")
#: Bytes of an item from which on it is cut: a smaller one is decoded in a moment.
_LARGE: Final = 256 * 1024


class ShortItems:
    """Items of one history. In a large one marks stand for long strings; its names are whole."""

    def __init__(self) -> None:
        self._strings = LongStrings()

    def read(self, data: bytes) -> Item:
        """Return an item."""
        if len(data) <= _LARGE:
            return decode(data)  # type: ignore[no-any-return]
        item: Item = decode(self._strings.cut(data))
        restore_names(item, self._strings)
        return item

    def write(self, item: Item) -> bytes:
        """Return the JSON of an item, or of what was made of one, with all of its strings."""
        return self._strings.restore(encode(item))

    def size(self, value: object) -> int:
        """Return how many bytes the JSON of a value has."""
        return self._strings.restored_size(encode(value))

    def excerpt(self, text: str, most: int) -> str:
        """Return a text of an item (see `LongStrings.excerpt`)."""
        return self._strings.excerpt(text, most)


def restore_names(item: Item, strings: LongStrings) -> None:
    """Put the names of an item in the place of their marks, from the strings that were cut out."""
    for key in _NAMES:
        if isinstance(name := item.get(key), str):
            item[key] = strings.restore(name.encode()).decode()
