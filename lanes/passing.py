"""Events that pass as a backend sent them, but for what is its own and its ids (protocol.md 4)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lanes.items import PREFIXES, PRIVATE_KEYS

if TYPE_CHECKING:
    from lanes.roster import Roster

_TRANSPORT_KEYS = PRIVATE_KEYS | {"sequence_number", "stream_id", "event_id"}
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


def renamed(sent: dict[str, Any], response_id: str, roster: Roster) -> dict[str, Any]:
    """The event with our ids in its `response` and its `item`; an item nobody knows has none."""
    response, item = sent.get("response"), sent.get("item")
    if isinstance(response, dict) and "id" in response:
        sent = {**sent, "response": {**response, "id": response_id}}
    if isinstance(item, dict) and "id" in item:
        known = roster.named(item["id"])
        bare = {key: value for key, value in item.items() if key != "id"}
        sent = {**sent, "item": bare if known is None else {**item, "id": known.id}}
    return sent
