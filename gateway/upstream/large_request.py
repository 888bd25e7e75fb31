"""A request with a large input, made in steps that are all short (D33). Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from lanes.history.makers import PACKED
from lanes.long_strings import LONG, LongStrings

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gateway.upstream.dialect import Dialect
    from lanes.history.makers import Maker


#: Items of the input, and bytes of it and of settings that are strings: more of either is large.
MANY_ITEMS: Final = 1000
MANY_BYTES: Final = 256 * 1024


def large_request(
    dialect: Dialect, body: Mapping[str, Any], items: Sequence[bytes], maker: Maker | None = None
) -> bytes:
    """Return what `dialect.request` does, without moving the input's long strings through it.

    Args:
        dialect: The backend's.
        body: The client's request.
        items: The whole effective input, each item as JSON.
        maker: The backend as a maker of items.
    """
    strings = LongStrings()
    return strings.restore(dialect.request(body, cut_items(items, strings), maker))


def cut_items(items: Sequence[bytes], strings: LongStrings) -> list[bytes]:
    """Return items whose long strings go into `strings`; what is packed has to be read."""
    return [
        strings.cut(item) if len(item) > LONG and PACKED not in item else item for item in items
    ]
