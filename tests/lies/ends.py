"""How a lie ended, in one line."""

from __future__ import annotations

from typing import Any

Event = dict[str, Any]


def seen(end: Event) -> str:
    """`completed: message abc`, `failed server_error: …`, or `error 502 server_error`."""
    if end["type"] == "error":
        return f"error {end['status']} {end['error']['code']}"
    return told(end["response"])


def told(response: Event) -> str:
    why = [response["status"]]
    if response["status"] == "failed":
        why.append(response["error"]["code"])
    if response["status"] == "incomplete":
        why.append(str(response["incomplete_details"]["reason"]))
    items = ", ".join(map(_item, response["output"]))
    return " ".join(why) + (f": {items}" if items else "")


def _item(item: Event) -> str:
    parts = [*item.get("summary", ()), *item.get("content", ())]
    text = "".join(part.get("text", "") for part in parts)
    call = [item.get(key, "") for key in ("call_id", "name", "arguments")]
    return " ".join(filter(None, [item["type"], text, *call]))
