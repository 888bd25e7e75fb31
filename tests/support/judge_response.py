"""Follows one response from `response.created` to its one terminal event, and its steers after."""

from __future__ import annotations

import re
from typing import Any

from tests.support.judge_item import Event, ItemJudge, claim, ours

TERMINALS = {
    "response.completed": "completed",
    "response.incomplete": "incomplete",
    "response.failed": "failed",
}
_OPENING = ("response.created", "response.in_progress")
#: In the background; what fails in the queue was never in progress.
_QUEUED = ("response.created", "response.queued", "response.in_progress")
_SNAPSHOTS = {
    "response.created": "in_progress",
    "response.queued": "queued",
    "response.in_progress": "in_progress",
    **TERMINALS,
}

#: Every snapshot holds the whole response object (protocol.md 4).
KEYS = frozenset(
    re.findall(
        r"\w+",
        """
        id object created_at completed_at status error incomplete_details instructions
        max_output_tokens max_tool_calls model output parallel_tool_calls previous_response_id
        reasoning service_tier store background temperature top_p presence_penalty
        frequency_penalty top_logprobs text tool_choice tools truncation usage user metadata
        safety_identifier prompt_cache_key
        """,
    )
)
_CONSTANT = ("id", "object", "created_at", "model", "previous_response_id")


class ResponseJudge:
    """One response; `terminal` is its last snapshot once there was one."""

    def __init__(self, created: Event) -> None:
        self.lane = created.get("stream_id")
        self.first: dict[str, Any] = created["response"]
        self.terminal: dict[str, Any] | None = None
        self.items: list[dict[str, Any]] = []
        self._open: ItemJudge | None = None
        self._number = self._step = 0
        self._opening = _QUEUED if self.first.get("status") == "queued" else _OPENING
        claim(ours(self.first.get("id")), "a response's id is resp_ and 32 hex digits", created)

    @property
    def id(self) -> str:
        rid: str = self.first["id"]
        return rid

    def receive(self, event: Event) -> None:
        kind: str = event["type"]
        claim(
            event.get("sequence_number") == self._number,
            f"sequence_number should be {self._number}",
            event,
        )
        claim(event.get("stream_id") == self.lane, "on another lane than its response", event)
        self._number += 1
        if kind.startswith("response.steer."):
            return  # may come at any time, also after the terminal
        claim(self.terminal is None, "after the terminal event", event)
        opening = self._step < len(self._opening)
        fits = kind == self._opening[self._step] if opening else kind not in _QUEUED
        fits |= self._opening is _QUEUED and self._step == 2 and kind == "response.failed"
        claim(fits, "created and in_progress come first, once", event)
        self._step += 1
        if kind in _SNAPSHOTS:
            self._snapshot(event)
        else:
            self._item(event)

    def _item(self, event: Event) -> None:
        kind = event["type"]
        if kind == "response.output_item.added":
            claim(self._open is None, "the item before is still open", event)
            self._open = ItemJudge(event, len(self.items))
            ids = [item["id"] for item in self.items]
            claim(event["item"]["id"] not in ids, "an id is used twice", event)
        elif kind == "response.output_item.done":
            self._close(event)
        elif "item_id" in event:
            claim(self._open is not None, "no item is open", event)
            assert self._open is not None
            self._open.receive(event)

    def _close(self, event: Event) -> None:
        claim(self._open is not None, "no item is open", event)
        assert self._open is not None
        self._open.close(event)
        self.items.append(event["item"])
        self._open = None

    def _snapshot(self, event: Event) -> None:
        response = event["response"]
        status = _SNAPSHOTS[event["type"]]
        if self._opening is _QUEUED and self._step == 1:
            status = "queued"
        if response.get("background") and response.get("status") == "cancelled":
            claim(status == "incomplete", "cancelled is a kind of incomplete", event)
            status = "cancelled"
        missing = ", ".join(sorted(KEYS - response.keys()))
        claim(not missing, f"the response object lacks {missing}", event)
        claim(response["object"] == "response", "object should be 'response'", event)
        claim(response["status"] == status, f"status should be {status!r}", event)
        for field in _CONSTANT:
            claim(response[field] == self.first[field], f"{field} changed", event)
        if event["type"] in TERMINALS:
            self._end(event, response)
        else:
            claim(response["output"] == [], "output is empty until the end", event)
            claim(response["error"] is None, "no error before the end", event)
            claim(response["usage"] is None, "no usage before the end", event)
            claim(response["completed_at"] is None, "completed_at before the end", event)

    def _end(self, event: Event, response: dict[str, Any]) -> None:
        claim(self._open is None, "an item is still open", event)
        claim(response["output"] == self.items, "output is not the items that streamed", event)
        status = response["status"]
        claim((response["error"] is not None) == (status == "failed"), "error and status", event)
        claim(
            (response["incomplete_details"] is not None) == (status == "incomplete"),
            "incomplete_details and status",
            event,
        )
        claim(
            status != "completed" or isinstance(response["completed_at"], int | float),
            "a completed response says when",
            event,
        )
        self.terminal = response
