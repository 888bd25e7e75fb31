"""Events that pass as the backend sent them, without its private keys and ids (protocol.md 4)."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from lanes.codec import encode
from lanes.stream.item_schema import PREFIXES, PRIVATE_KEYS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lanes.stream.item_index import ItemIndex
    from lanes.stream.parts import Emit

log = logging.getLogger("multilane.run")

_TRANSPORT_KEYS = PRIVATE_KEYS | {"sequence_number", "stream_id", "event_id"}
#: A backend's events that begin a response.
BEGINNINGS = frozenset({"response.created", "response.in_progress", "response.queued"})
#: A backend's events that end a response.
TERMINALS = frozenset(
    f"response.{end}" for end in ("completed", "incomplete", "failed", "cancelled")
)
#: A backend's events that mean nothing.
NOISE = frozenset({"response.keep_alive", "response.keepalive", "response.ping"})
#: Events that mean nothing without the open item they are about.
ITEM_EVENTS = tuple(
    f"response.{stem}" for stem in (*PREFIXES, "output_text", "content_part", "refusal")
)


def without_private_keys(event: dict[str, Any], response_id: str) -> dict[str, Any]:
    """Return the event without the backend's private keys and numbers, under our response id."""
    sent = {key: value for key, value in event.items() if key not in _TRANSPORT_KEYS}
    if "response_id" in sent:
        sent["response_id"] = response_id
    return sent


def tagged(emit: Emit, agent: object) -> Emit:
    """Return what says of each event that it is of this agent."""
    tail = b',"agent":' + encode(agent)
    return lambda *pieces: emit(*pieces, tail)


def split_response(
    event: dict[str, Any], response_id: str
) -> tuple[dict[str, Any], Mapping[str, Any]]:
    """Return what an event holds beside its response object, and that object, empty for none."""
    extra = without_private_keys(event, response_id)
    response = extra.pop("response", None)
    return extra, response if isinstance(response, dict) else {}


def with_client_ids(sent: dict[str, Any], response_id: str, index: ItemIndex) -> dict[str, Any]:
    """Return the event with our ids in its `response` and its `item`.

    Args:
        sent: The event.
        response_id: The response's id as the client knows it.
        index: The items that have an id; any other item loses the backend's.
    """
    response, item = sent.get("response"), sent.get("item")
    if isinstance(response, dict) and "id" in response:
        sent = {**sent, "response": {**response, "id": response_id}}
    if isinstance(item, dict) and "id" in item:
        ours = index.by_name(item["id"])
        bare = {key: value for key, value in item.items() if key != "id"}
        sent = {**sent, "item": bare if ours is None else {**item, "id": ours.id}}
    return sent


class UpstreamNumbers:
    """Watches a backend's own sequence numbers: they are not used, but going back is logged.

    Plain text deltas are not checked; the next other event shows it as well (D26).
    """

    def __init__(self) -> None:
        self._last: int | None = None
        self._logged = False

    def check(self, event: Mapping[str, Any]) -> None:
        """Log the first number that is lower than the one before it."""
        number = event.get("sequence_number")
        if self._logged or type(number) is not int:
            return
        if self._last is not None and number < self._last:
            log.warning("upstream sequence numbers go back: %d after %d", number, self._last)
            self._logged = True
        self._last = number
