"""Follows one output item from `response.output_item.added` to `response.output_item.done`."""

from __future__ import annotations

import json
import re
from typing import Any

Event = dict[str, Any]

_ID = re.compile(r"[a-z]+_[0-9a-f]{32}")

#: Text that streams inside a part: the list the part is in, and the field its text is under.
_PART_TEXT = {
    "response.output_text": ("content", "output_text", "text"),
    "response.refusal": ("content", "refusal", "refusal"),
    "response.reasoning_text": ("content", "reasoning_text", "text"),
    "response.reasoning_summary_text": ("summary", "summary_text", "text"),
}
_PARTS = {
    "response.content_part": "content",
    "response.reasoning_summary_part": "summary",
}
#: Text that streams in the item itself, by the field it is under.
_ITEM_TEXT = {
    "response.function_call_arguments": "arguments",
    "response.custom_tool_call_input": "input",
    "response.mcp_call_arguments": "arguments",
    "response.code_interpreter_call_code": "code",
}
#: What an item is before anything of it has streamed.
_BLANK: dict[str, dict[str, Any]] = {
    "message": {"content": [], "status": "in_progress"},
    "function_call": {"arguments": "", "status": "in_progress"},
    "custom_tool_call": {"input": ""},
    "reasoning": {"summary": []},
}


def claim(holds: bool, why: str, event: Event) -> None:
    """`assert` that shows the offending event; pytest rewrites no asserts outside of tests."""
    if not holds:
        raise AssertionError(f"{why}\n{json.dumps(event, ensure_ascii=False)}")


def ours(value: Any) -> bool:
    """Whether this is an id of the gateway's own making."""
    return isinstance(value, str) and _ID.fullmatch(value) is not None


class _Part:
    def __init__(self, added: Event) -> None:
        self.type = added["part"]["type"]
        self.text = ""
        self.texted = False
        self.done: dict[str, Any] | None = None


class ItemJudge:
    """One open item; `done` is the whole of it once it was closed."""

    def __init__(self, added: Event, index: int) -> None:
        item = added["item"]
        claim(added["output_index"] == index, f"output_index should be {index}", added)
        claim(ours(item.get("id")), "an item's id is a prefix and 32 hex digits", added)
        for field, blank in _BLANK.get(item["type"], {}).items():
            claim(item.get(field) == blank, f"{field} should be {blank!r} at first", added)
        if item["type"] == "reasoning":
            claim(not item.get("encrypted_content"), "encrypted_content only when done", added)
        self.index = index
        self.added = item
        self.done: dict[str, Any] | None = None
        self._parts: dict[str, list[_Part]] = {"content": [], "summary": []}
        self._text = ""
        self._text_done = False

    def receive(self, event: Event) -> None:
        """Any event that names an item and is not about the item as a whole."""
        claim(event["item_id"] == self.added["id"], "names another item than the open one", event)
        claim(event["output_index"] == self.index, "names another index than the item's", event)
        topic, _, step = event["type"].rpartition(".")
        if topic in _PARTS and step in ("added", "done"):
            self._part(event, _PARTS[topic], step)
        elif step not in ("delta", "done"):
            return  # of no known type
        elif topic in _PART_TEXT:
            self._part_text(event, topic, step)
        elif topic in _ITEM_TEXT:
            self._item_text(event, _ITEM_TEXT[topic], step)

    def _part(self, event: Event, place: str, step: str) -> None:
        parts = self._parts[place]
        index = event["content_index" if place == "content" else "summary_index"]
        part = event["part"]
        text = part.get("refusal" if part["type"] == "refusal" else "text")
        if step == "added":
            claim(index == len(parts), f"{place} index should be {len(parts)}", event)
            claim(all(p.done for p in parts), "the part before is still open", event)
            claim(text == "", "a part opens empty", event)
            parts.append(_Part(event))
            return
        claim(index == len(parts) - 1, "closes a part that is not the open one", event)
        claim(parts[-1].done is None, "this part was closed already", event)
        claim(parts[-1].texted, "its text was not closed first", event)
        claim(part["type"] == parts[-1].type, "the part changed its type", event)
        claim(text == parts[-1].text, "the part's text is not what its deltas were", event)
        parts[-1].done = part

    def _part_text(self, event: Event, topic: str, step: str) -> None:
        place, kind, field = _PART_TEXT[topic]
        parts = self._parts[place]
        index = event["content_index" if place == "content" else "summary_index"]
        claim(bool(parts) and not parts[-1].done, "no part is open", event)
        claim(index == len(parts) - 1, "names another part than the open one", event)
        claim(parts[-1].type == kind, f"the open part is {parts[-1].type}", event)
        if step == "delta":
            claim(not parts[-1].texted, "this text was closed already", event)
            claim(event["delta"] != "", "an empty delta", event)
            parts[-1].text += event["delta"]
        elif step == "done":
            claim(not parts[-1].texted, "this text was closed already", event)
            claim(event[field] == parts[-1].text, "text is not what its deltas were", event)
            parts[-1].texted = True

    def _item_text(self, event: Event, field: str, step: str) -> None:
        claim(not self._text_done, f"{field} were closed already", event)
        if step == "delta":
            claim(event["delta"] != "", "an empty delta", event)
            self._text += event["delta"]
            return
        claim(event[field] == self._text, f"{field} are not what their deltas were", event)
        if event["type"].startswith("response.function_call_"):
            claim(event.get("name") == self.added["name"], "the call changed its name", event)
        self._text_done = True

    def close(self, event: Event) -> None:
        """`response.output_item.done`."""
        item = event["item"]
        claim(event["output_index"] == self.index, "closes another index than the open one", event)
        for field in ("id", "type", "call_id", "name", "role"):
            claim(item.get(field) == self.added.get(field), f"the item changed its {field}", event)
        for place, parts in self._parts.items():
            claim(all(p.done for p in parts), "a part is still open", event)
            if parts or item["type"] in ("message", "reasoning"):
                texts = [_text(p) for p in item.get(place) or []]
                claim(texts == [_text(p.done) for p in parts], f"{place} is not its parts", event)
        self._close_text(event, item)
        self.done = item

    def _close_text(self, event: Event, item: dict[str, Any]) -> None:
        field = {"function_call": "arguments", "custom_tool_call": "input"}.get(item["type"])
        if field is not None:
            claim(item[field] == self._text, f"{field} are not what their deltas were", event)
            cut = item.get("status") == "incomplete"
            claim(self._text_done or cut, f"{field} were not closed first", event)
        claim(item.get("status") != "in_progress", "a closed item is not in progress", event)


def _text(part: dict[str, Any] | None) -> tuple[str, str]:
    assert part is not None
    return part["type"], part["refusal"] if part["type"] == "refusal" else part["text"]
