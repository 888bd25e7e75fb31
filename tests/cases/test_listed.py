"""Upstreams whose tables name no models take what they list themselves (D23)."""

from __future__ import annotations

from typing import Any

from tests.support.events import reply
from tests.support.gateway_stand import answer
from tests.support.several_upstreams import listing, several


async def test_who_names_no_models_takes_what_it_lists() -> None:
    tables: dict[str, dict[str, Any]] = {"a": {}, "b": {}, "c": {"models": ["c*"]}}
    scripts = {
        "a": listing("m1", "both", others=lambda _: reply("a")),
        "b": listing("m2", "both", "c1", others=lambda _: reply("b")),
        "c": lambda _: reply("c"),
    }
    async with several(tables, scripts) as of:
        for model, by in (("m1", "a"), ("m2", "b"), ("both", "a"), ("c1", "c")):
            await of.client.create("a", model=model)
            response = await of.client.ended("a")
            assert response["output"][0]["content"][0]["text"] == by, model
        await of.client.create("a", model="none")
        message = (await of.client.error("a"))["error"]["message"]
        assert message.endswith("Known: m1, both, m2, c1, c*.")
        lists = [e for fake in of.fakes.values() for e in fake.exchanges if "models" in e.path]
        assert len(lists) == 2  # one each, and none of who says what it takes


async def test_who_cannot_be_asked_takes_what_nobody_lists() -> None:
    async def without(exchange: Any) -> None:
        if exchange.path.endswith("/models"):
            await exchange.reply(404, {"detail": "Not Found"})
        else:
            await answer(exchange, reply("b"))

    scripts = {"a": listing("m1", others=lambda _: reply("a")), "b": without}
    async with several({"a": {}, "b": {}}, scripts) as of:
        for model, by in (("m1", "a"), ("what", "b")):
            await of.client.create("a", model=model)
            response = await of.client.ended("a")
            assert response["output"][0]["content"][0]["text"] == by


async def test_the_only_one_without_models_takes_everything_unasked() -> None:
    async with several({"a": {"models": ["m"]}, "b": {}}) as of:
        exchange, _ = await of["b"].turn("a", model="whatever")
        assert exchange.body["model"] == "whatever"
