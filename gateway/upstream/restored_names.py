"""The calls of an answer under the names that the client knows (see `flat_tools`). Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lanes.codec import check_depth, decode_lenient, encode

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gateway.upstream.converter import Converter
    from gateway.upstream.flat_tools import Qualified
    from lanes.ports import Event

#: What every event with a name in it holds. Deltas do not: within a text, quotes are escaped.
_MARK = b'"name"'
_CALLS = ("function_call", "custom_tool_call")


class RestoredNames:
    """Implements gateway.upstream.converter.Converter: calls get back their name and namespace.

    Args:
        names: The namespace and the name for each flat name.
        inner: Reads the backend's events first, where they are not those of the Responses API.
    """

    def __init__(self, names: Mapping[str, Qualified], inner: Converter | None) -> None:
        self._names = names
        self._inner = inner

    @property
    def ending(self) -> bool:
        """Whether the answer is over, as far as it says (see `Converter.ending`)."""
        return self._inner is not None and self._inner.ending

    def feed(self, events: list[Event]) -> list[Event]:
        """Convert the events of one read."""
        return self._restored(events if self._inner is None else self._inner.feed(events))

    def finish(self) -> list[Event]:
        """Return the events still owed at the end of the body."""
        return [] if self._inner is None else self._restored(self._inner.finish())

    def _restored(self, events: list[Event]) -> list[Event]:
        return [(kind, self._event(data) if _MARK in data else data) for kind, data in events]

    def _event(self, data: bytes) -> bytes:
        """Return an event with the names of all calls in it restored, or as it is."""
        try:
            event = decode_lenient(data)
            check_depth(event, data)
        except ValueError:
            return data  # the run says what is wrong with it
        if not isinstance(event, dict):
            return data
        response = event.get("response")
        output = response.get("output") if isinstance(response, dict) else None
        items = [event.get("item"), *(output if isinstance(output, list) else ())]
        restored = [self._restore(item) for item in items if isinstance(item, dict)]
        known = self._known(event.get("name"))
        if known is not None:
            event["name"] = known[1]
            restored.append(True)
        return encode(event) if any(restored) else data

    def _restore(self, item: dict[str, Any]) -> bool:
        """Restore the names of an item in place; return whether they were flat."""
        known = self._known(item.get("name"))
        if known is None or item.get("type") not in _CALLS or item.get("namespace") is not None:
            return False
        item["namespace"], item["name"] = known
        return True

    def _known(self, name: object) -> Qualified | None:
        return self._names.get(name) if isinstance(name, str) else None
