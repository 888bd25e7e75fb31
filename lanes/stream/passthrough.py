"""Events that pass as a backend sent them, but for what is its own and its ids (protocol.md 4)."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from lanes.stream.items import PREFIXES, PRIVATE_KEYS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lanes.stream.item_index import ItemIndex

log = logging.getLogger("multilane.run")

_TRANSPORT_KEYS = PRIVATE_KEYS | {"sequence_number", "stream_id", "event_id"}
#: A backend's events that begin a response and that end one, and those that say nothing.
BEGINNINGS = frozenset({"response.created", "response.in_progress", "response.queued"})
TERMINALS = frozenset(
    f"response.{end}" for end in ("completed", "incomplete", "failed", "cancelled")
)
NOISE = frozenset({"response.keep_alive", "response.keepalive", "response.ping"})
#: Events that mean nothing without the open item they are about.
ITEM_EVENTS = tuple(
    f"response.{stem}" for stem in (*PREFIXES, "output_text", "content_part", "refusal")
)


def relayed(event: dict[str, Any], response_id: str) -> dict[str, Any]:
    """The event without what only the backend or our numbering has a say in."""
    sent = {key: value for key, value in event.items() if key not in _TRANSPORT_KEYS}
    if "response_id" in sent:
        sent["response_id"] = response_id
    return sent


def parted(event: dict[str, Any], response_id: str) -> tuple[dict[str, Any], Mapping[str, Any]]:
    """What such an event says beside its response object, and that object; empty for no object."""
    extra = relayed(event, response_id)
    response = extra.pop("response", None)
    return extra, response if isinstance(response, dict) else {}


def renamed(sent: dict[str, Any], response_id: str, roster: ItemIndex) -> dict[str, Any]:
    """The event with our ids in its `response` and its `item`; an item nobody knows has none."""
    response, item = sent.get("response"), sent.get("item")
    if isinstance(response, dict) and "id" in response:
        sent = {**sent, "response": {**response, "id": response_id}}
    if isinstance(item, dict) and "id" in item:
        known = roster.named(item["id"])
        bare = {key: value for key, value in item.items() if key != "id"}
        sent = {**sent, "item": bare if known is None else {**item, "id": known.id}}
    return sent


class UpstreamNumbers:
    """A backend's own numbers: they count for nothing, but if they go back it is worth a warning.

    Asked about every event but the deltas that are nothing but text: the next one tells.
    """

    def __init__(self) -> None:
        self._last: int | None = None
        self._told = False

    def check(self, event: Mapping[str, Any]) -> None:
        """Log the first number that is lower than the one before it."""
        number = event.get("sequence_number")
        if self._told or type(number) is not int:
            return
        if self._last is not None and number < self._last:
            log.warning("upstream sequence numbers go back: %d after %d", number, self._last)
            self._told = True
        self._last = number
