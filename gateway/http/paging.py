"""Pure: what a list's query asks for -> a page, or the error to answer with (protocol.md 8)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from gateway.http.queries import one
from lanes.conversations.items import INCLUDABLE
from lanes.errors import ClientFault
from lanes.stores.conversations import Page

if TYPE_CHECKING:
    from collections.abc import Sequence

    from starlette.datastructures import QueryParams

#: Items of one page at most.
MAX_LIMIT: Final = 100


def page_of(query: QueryParams) -> Page:
    """Return the page that `limit`, `order` and `after` ask for. Raises ClientFault."""
    limit = one(query, "limit", "20")
    if not (limit.isascii() and limit.isdecimal() and 1 <= int(limit[:8]) <= MAX_LIMIT):
        raise _wrong("limit", f"a number from 1 to {MAX_LIMIT}")
    order = one(query, "order", "desc")
    if order not in ("asc", "desc"):
        raise _wrong("order", "'asc' or 'desc'")
    return Page(int(limit[:8]), one(query, "after", None), descending=order == "desc")


def included(query: QueryParams) -> frozenset[str]:
    """Return what `include` asks for. Raises ClientFault."""
    pairs = query.multi_items()
    names = frozenset(value for name, value in pairs if name.partition("[")[0] == "include")
    if not names <= INCLUDABLE:
        raise _wrong("include", f"one of {', '.join(sorted(INCLUDABLE))}")
    return names


def item_list(data: Sequence[Any], ids: Sequence[str], *, more: bool = False) -> dict[str, Any]:
    """Return the object of a list.

    Args:
        data: What it holds.
        ids: The ids of these.
        more: Whether there are further ones.
    """
    first, last = (ids[0], ids[-1]) if ids else (None, None)
    return {
        "object": "list",
        "data": data,
        "first_id": first,
        "last_id": last,
        "has_more": more,
    }


def _wrong(param: str, wanted: str) -> ClientFault:
    return ClientFault(f"'{param}' must be {wanted}.", code="invalid_value", param=param)
