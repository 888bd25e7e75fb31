"""Compaction that cannot be, and items that cannot be opened (protocol.md 9)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.cases.test_compaction import TRIGGER, compacted
from tests.support.client import connect
from tests.support.conversations import ask, begin
from tests.support.gateway_stand import Stand, said, stand, user

if TYPE_CHECKING:
    from tests.support.client import Event

SAID = [user("one"), {"role": "assistant", "content": "1"}]


async def sealed(on: Stand) -> Event:
    """A compaction item."""
    response = await compacted(on, input=[*SAID, TRIGGER])
    item: Event = response["output"][0]
    return item


def changed(seal: str, how: str) -> str:
    """A seal that somebody touched."""
    mark, name, text = seal.split(".")
    turned = ("A" if text[30] != "A" else "B") + text[31:]
    return {
        "a letter": f"{mark}.{name}.{text[:30]}{turned}",
        "the end": seal[:-4],
        "the key": f"{mark}.{'0' * len(name)}.{text}",
        "no text": f"{mark}.{name}.",
        "no key": f"{mark}.",
        "other letters": f"{mark}.{name}.\u00e9\u20ac",
        "more": f"{seal}AAAA",
        "much more": seal + "A" * (9 << 20),
    }[how]


WAYS = ["a letter", "the end", "the key", "no text", "no key", "other letters", "more", "much more"]


@pytest.mark.parametrize("how", WAYS)
async def test_an_item_that_was_changed(how: str) -> None:
    async with stand() as on:
        _, parent = await on.turn("a")
        item = await sealed(on)
        item["encrypted_content"] = changed(item["encrypted_content"], how)
        error = await on.refused("b", input=[user("one"), item, user("two")])
        assert error["status"] == 400
        assert error["error"]["code"] == "invalid_compaction_item"
        assert error["error"]["param"] == "input[1]"
        assert await on.known(parent["id"])
        await on.usable("b")


async def test_an_item_that_was_changed_is_refused_in_a_warm_up_too() -> None:
    async with stand() as on:
        item = await sealed(on)
        item["encrypted_content"] = changed(item["encrypted_content"], "a letter")
        error = await on.refused(input=[item], generate=False)
        assert error["error"]["code"] == "invalid_compaction_item"
        assert error["error"]["param"] == "input[0]"
        await on.usable()


@pytest.mark.parametrize("how", WAYS[:-1])
async def test_an_item_that_was_changed_is_not_added_to_a_conversation(how: str) -> None:
    async with stand() as on:
        item = await sealed(on)
        name = await begin(on, user("kept"), item)
        broken = {**item, "encrypted_content": changed(item["encrypted_content"], how)}
        for path in ("", f"/{name}/items"):
            status, refused = await ask(on, "POST", path, {"items": [user("x"), broken]})
            assert (status, refused["error"]["code"]) == (400, "invalid_compaction_item")
            assert refused["error"]["param"] == "items[1]"
        exchange, _ = await on.turn(conversation=name, input="two")
        assert said(exchange)[-1] == "two"


async def test_an_item_of_another_gateway() -> None:
    async with stand() as other, stand() as on:
        error = await on.refused(input=[await sealed(other), user("two")])
        assert error["error"]["code"] == "invalid_compaction_item"


async def test_an_item_of_another_key() -> None:
    async with stand(key="one", api_keys=("one", "two")) as on:
        item = await sealed(on)
        async with connect(on.url, headers={"authorization": "Bearer two"}) as client:
            await client.create(input=[item, user("two")])
            error = await client.error()
        assert error["error"]["code"] == "invalid_compaction_item"
        assert error["error"]["param"] == "input[0]"
        _, response = await on.turn(input=[item, user("two")])
        assert response["status"] == "completed"


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"input": [TRIGGER, user("one")]}, "input[0]"),
    ({"input": [user("one"), TRIGGER, TRIGGER]}, "input[1]"),
    ({"input": [*SAID, TRIGGER], "generate": False}, "generate"),
    ({"input": [TRIGGER]}, "input"),
    ({"input": [{"role": "system", "content": "Be brief."}, TRIGGER]}, "input"),
    ({"context_management": "auto"}, "context_management"),
    ({"context_management": ["compaction"]}, "context_management[0]"),
    (
        {"context_management": [{"type": "compaction", "compact_threshold": "9"}]},
        "context_management[0].compact_threshold",
    ),
]


@pytest.mark.parametrize(("extra", "param"), REFUSED)
async def test_what_cannot_be_compacted(extra: dict[str, Any], param: str) -> None:
    async with stand() as on:
        error = await on.refused("a", **extra)
        assert error["status"] == 400
        assert error["error"]["param"] == param
        await on.usable("a")


async def test_more_than_an_item_can_keep() -> None:
    tools = [{"type": "function", "name": f"f{n}", "description": "x" * 4000} for n in range(1600)]
    added = {"type": "additional_tools", "role": "developer", "tools": tools}
    async with stand() as on:
        error = await on.refused("a", input=[*SAID, added, TRIGGER])
        assert error["error"]["code"] == "value_too_large"
        assert error["error"]["param"] == "input"
        await on.usable("a")


async def test_an_output_whose_call_went_with_the_history() -> None:
    called = {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"}
    output = {"type": "function_call_output", "call_id": "c1", "output": "4"}
    async with stand() as on:
        response = await compacted(on, input=[*SAID, called, output, TRIGGER])
        item = response["output"][0]
        error = await on.refused(input=[item, output])
        assert error["error"]["param"] == "input"
        waiting = await compacted(on, input=[*SAID, called, TRIGGER])
        exchange, _ = await on.turn(input=[waiting["output"][0], output])
        assert [one.get("call_id") for one in exchange.input][-2:] == ["c1", "c1"]
