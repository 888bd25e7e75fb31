"""Pure: what a successor is asked for: its parent's settings, and the steers (protocol.md 5)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from steering.ledger import Submission

_OWN = frozenset({"input", "previous_response_id"})


def body(parent: Mapping[str, Any], parent_id: str) -> dict[str, Any]:
    """The body of the create that follows `parent` by itself: its settings, its lineage, no input.

    The steers are the input; they are bound to the create and come with it.
    """
    inherited = {key: value for key, value in parent.items() if key not in _OWN}
    return {**inherited, "previous_response_id": parent_id}


def prepend(bound: Iterable[Submission], items: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """The input of a create that carries steers: they come first, in order, then its own items."""
    return [*(message for one in bound for message in one.messages), *items]
