"""Items as their client reads them: the same, large or small, and made aside if large (D33)."""

from __future__ import annotations

import json

from gateway.http.conversations import listed
from lanes.codec import encode
from lanes.stores.conversations import ConversationItem
from tests.support.cpu_share import worked_aside

TEXTS = ["short", "word " * 400_000, "\n" * 3_000_000, "QUJD\\" * 200_000, "é" * 500_000]


async def test_large_items_are_made_aside() -> None:
    items = [
        ConversationItem(f"msg_{number}", encode({"role": "user", "content": text}))
        for number, text in enumerate(TEXTS)
    ]
    await listed([items[1]], ())  # starts the thread
    with worked_aside():
        answer = await listed(items, (), more=True)
    found = json.loads(bytes(answer.body))
    assert [item["content"][0]["text"] for item in found["data"]] == TEXTS
    assert [item["id"] for item in found["data"]] == [item.id for item in items]
    del found["data"]
    ends = {"first_id": "msg_0", "last_id": "msg_4"}
    assert found == {"object": "list", **ends, "has_more": True}


async def test_there_may_be_none() -> None:
    found = json.loads(bytes((await listed([], ())).body))
    assert found == {
        "object": "list",
        "data": [],
        "first_id": None,
        "last_id": None,
        "has_more": False,
    }
