"""Requests about conversations, and a conversation to begin with."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from tests.support.alive import MARK
from tests.support.http_client import requested

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.support.gateway_stand import Stand

Json = dict[str, Any]


async def ask(
    on: Stand,
    method: str,
    path: str,
    body: Json | None = None,
    headers: Mapping[str, str] | None = None,
) -> tuple[int, Any]:
    """Ask for a path below /v1/conversations."""
    data = None if body is None else json.dumps(body).encode()
    lines = {"content-type": "application/json", **(headers or {})}
    async with requested(on.url, method, f"/conversations{path}", data, lines) as answered:
        return answered.status, await answered.json()


async def begin(on: Stand, *items: Json) -> str:
    """Create a conversation with these items; return its id."""
    status, made = await ask(on, "POST", "", {"items": list(items)})
    assert status == 200, made
    conversation: str = made["id"]
    return conversation


async def texts(on: Stand, conversation: str) -> list[str]:
    """Return all texts in a conversation, in order."""
    _, listed = await ask(on, "GET", f"/{conversation}/items?order=asc&limit=100")
    return [part["text"] for item in listed["data"] for part in item["content"]]


async def bound_to_a_conversation(on: Stand) -> None:
    """Marked creates of one conversation, of which the last is still waiting for its answer."""
    name = await begin(on)
    await on.turn("a", user=MARK, conversation=name)
    await on.client.create("b", user=MARK, conversation=name, generate=False)
    await on.client.ended("b")
    await on.asked("a", user=MARK, conversation=name)
