"""Several upstreams, each of which is asked what it is."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import anyio

from tests.support.client import connect
from tests.support.events import reply
from tests.support.hang_guard import HANG
from tests.support.several_upstreams import several

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest

    from tests.support.exchange import Exchange


def owned(owner: str) -> Callable[[Exchange], Any]:
    """A script that says who owns its models, and answers creates."""

    async def script(exchange: Exchange) -> None:
        if exchange.path.startswith("/v1/models"):
            await exchange.reply(200, {"data": [{"id": f"{owner}-1", "owned_by": owner}]})
        elif exchange.body.get("stream"):
            await exchange.send(*reply("ok"))
            await exchange.end()
        else:
            await exchange.reply(400, {"error": {"message": "'input' is required"}})

    return script


async def told(caplog: pytest.LogCaptureFixture, count: int) -> list[str]:
    """Wait for so many lines that name a dialect."""
    with anyio.fail_after(HANG):
        while True:
            lines = [one.getMessage() for one in caplog.records if ": dialect " in one.getMessage()]
            if len(lines) >= count:
                return sorted(lines)
            await anyio.sleep(0.005)


async def test_each_is_asked_at_the_start(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="multilane")
    tables: dict[str, dict[str, Any]] = {
        "one": {"models": ["a", "x*"]},
        "two": {"default": "b"},
        "three": {"models": ["c"]},
    }
    scripts = {"one": owned("vllm"), "two": owned("nobody"), "three": owned("llamacpp")}
    unknown = "it has /responses, which tells nothing of previous_response_id"
    async with several(tables, scripts, dialect="auto") as of:
        assert await told(caplog, 3) == [
            "upstream one: dialect vllm (its models are owned by vllm)",
            "upstream three: dialect llamacpp (its models are owned by llamacpp)",
            f"upstream two: dialect generic ({unknown})",
        ]
        assert of.fakes["two"].exchanges[1].body["model"] == "b", "its own, not just any"
        await of.client.create("a", model="a", input="hi")
        assert (await of.client.ended("a"))["status"] == "completed"


async def test_the_gateways_model_is_asked_of_whose_it_is(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, logger="multilane")
    tables: dict[str, dict[str, Any]] = {
        "one": {"models": ["a"], "aliases": {"fast": "quick"}},
        "two": {"models": ["b"]},
    }
    scripts = {"one": owned("nobody"), "two": owned("nobody")}
    async with several(tables, scripts, dialect="auto", model="fast") as of:
        await told(caplog, 2)
        asked = {name: fake.exchanges[1].body["model"] for name, fake in of.fakes.items()}
        assert asked == {"one": "quick", "two": "b"}


async def test_one_that_is_away_is_stepped_in_for(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="multilane")
    tables: dict[str, dict[str, Any]] = {
        "one": {"url": "http://127.0.0.1:9/v1", "models": ["m"], "fallbacks": ["two"]},
        "two": {"models": ["n"], "default": "n"},
    }
    async with several(tables, {"two": owned("vllm")}, dialect="auto") as of:
        await of.client.create("a", model="m", input="hi")
        assert (await of.client.ended("a"))["status"] == "completed"
        assert len(await told(caplog, 1)) == 1


async def test_with_forwarded_keys_only_those_with_a_key_are_asked_ahead(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.INFO, logger="multilane")
    monkeypatch.setenv("ONE_KEY", "own")
    tables: dict[str, dict[str, Any]] = {
        "one": {"models": ["a"], "key_env": "ONE_KEY"},
        "two": {"models": ["b"]},
    }
    scripts = {"one": owned("vllm"), "two": owned("vllm")}
    async with several(tables, scripts, dialect="auto", forward_authorization=True) as of:
        await told(caplog, 1)
        assert of.asked() == {"one": 2, "two": 0}
        async with connect(of.url, headers={"authorization": "Bearer client"}) as client:
            await client.create("a", model="b", input="hi")
            assert (await client.ended("a"))["status"] == "completed"
        keys = {
            name: {one.headers.get("authorization") for one in fake.exchanges}
            for name, fake in of.fakes.items()
        }
        assert keys == {"one": {"Bearer own"}, "two": {"Bearer client"}}
