"""GET /v1/models: what can be asked for, merged and kept (protocol.md 2, D23)."""

from __future__ import annotations

import http.client
import json
import logging
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import anyio

from tests.support.gateway_stand import answer
from tests.support.hang_guard import HANG
from tests.support.several_upstreams import listing, several
from tests.support.wire_stand import standing

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pytest

    from tests.support.exchange import Exchange
    from tests.support.several_upstreams import Several

KEY = "sk-right"
AWAY = "http://127.0.0.1:9/v1"


async def asked(
    url: str, name: str = "", headers: Mapping[str, str] | None = None
) -> tuple[int, Any]:
    """GET /v1/models, or one of them: the status and the JSON."""

    def ask() -> tuple[int, Any]:
        parts = urlsplit(url)
        connection = http.client.HTTPConnection("127.0.0.1", parts.port or 0, timeout=HANG)
        try:
            place = f"{parts.path}/models" + (f"/{name}" if name else "")
            connection.request("GET", place, headers=dict(headers or {}))
            got = connection.getresponse()
            assert got.headers["Content-Type"] == "application/json"
            return got.status, json.loads(got.read())
        finally:
            connection.close()

    with anyio.fail_after(HANG):
        return await anyio.to_thread.run_sync(ask)


async def owners(of: Several, **options: Any) -> dict[str, str]:
    """Each model and its owner, in order."""
    status, body = await asked(of.url, **options)
    assert status == 200
    assert body.keys() == {"object", "data"}
    assert body["object"] == "list"
    for model in body["data"]:
        assert model.keys() == {"id", "object", "created", "owned_by"}
        assert model["object"] == "model"
        assert type(model["created"]) is int
    return {model["id"]: model["owned_by"] for model in body["data"]}


async def test_they_are_merged_in_order_without_doubles_each_with_who_takes_it() -> None:
    tables: dict[str, dict[str, Any]] = {
        "cloud": {"models": ["gpt-*", "o3"], "aliases": {"best": "gpt-5"}},
        "local": {"aliases": {"fast": "qwen"}, "models": ["qwen", "gpt-oss"]},
        "rest": {"default": "house"},
    }
    scripts = {
        "cloud": listing("gpt-5", "gpt-4", "whisper", "gpt-oss"),
        "local": listing("never asked"),
        "rest": listing("gpt-6", "qwen", "house", "org/big"),
    }
    async with several(tables, scripts) as of:
        assert await owners(of) == {
            "best": "cloud",
            "o3": "cloud",
            "gpt-5": "cloud",
            "gpt-4": "cloud",
            "fast": "local",
            "qwen": "local",
            "gpt-oss": "local",
            "house": "rest",
            "org/big": "rest",
        }
        assert of.asked() == {"cloud": 1, "local": 0, "rest": 1}
        await owners(of)
        assert of.asked() == {"cloud": 1, "local": 0, "rest": 1}
        assert (await asked(of.url, "best"))[1]["created"] == 7
        assert (await asked(of.url, "o3"))[1]["created"] == 0


async def test_one_by_its_name() -> None:
    async with several({"a": {}}, {"a": listing("org/big:free")}) as of:
        wanted = {"id": "org/big:free", "object": "model", "created": 7, "owned_by": "a"}
        for name in ("org/big:free", "org%2Fbig%3Afree"):
            assert await asked(of.url, name) == (200, wanted)
        status, body = await asked(of.url, "none")
        assert status == 404
        assert body["error"] == {
            "type": "invalid_request_error",
            "code": "model_not_found",
            "message": "The model 'none' is not known here; GET /v1/models lists those that are.",
            "param": "model",
        }


async def test_who_is_away_delays_nothing_and_is_noted_once(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.upstream.model_list.TIMEOUT", 0.2)

    async def silent(exchange: Exchange) -> None:
        await exchange.hang()

    async def refusing(exchange: Exchange) -> None:
        await exchange.reply(401, {"error": {"message": "hush"}})

    tables: dict[str, dict[str, Any]] = {
        "silent": {"models": ["s", "s-*"]},
        "away": {"models": ["a", "a-*"], "url": f"{AWAY}?k=hush"},
        "refusing": {"models": ["r", "r-*"]},
        "there": {"models": ["t-*"]},
    }
    scripts = {"silent": silent, "refusing": refusing, "there": listing("t-1")}
    async with several(tables, scripts) as of:
        for _ in range(2):
            with anyio.fail_after(HANG):
                assert await owners(of) == {
                    "s": "silent",
                    "a": "away",
                    "r": "refusing",
                    "t-1": "there",
                }
        assert of.asked() == {"silent": 1, "refusing": 1, "there": 1}
    lines = sorted(r.getMessage() for r in caplog.records if r.levelno == logging.WARNING)
    assert [line.partition(": ")[0] for line in lines] == ["away", "refusing", "silent"]
    place = of.fakes["refusing"].url
    assert lines[1] == (
        f"refusing: Its models cannot be listed: it answers 401 (GET {place}/models)"
    )
    assert "hush" not in caplog.text


async def test_a_list_that_grew_old_is_kept_when_its_upstream_is_away(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("gateway.upstream.model_list.FRESH_SECONDS", 0.0)
    monkeypatch.setattr("gateway.upstream.model_list.RETRY_SECONDS", 0.0)
    async with several({"a": {}}) as of:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(owners, of)
            await listing("m1")(await of.fakes["a"].next())
        assert await owners(of) == {"m1": "a"}  # and a new one is asked for in passing
        exchange = await of.fakes["a"].next()
        assert await owners(of) == {"m1": "a"}
        assert of.asked() == {"a": 2}  # one at a time
        exchange.reset()
        assert await owners(of) == {"m1": "a"}
        await listing("m2")(await of.fakes["a"].next())
        with anyio.fail_after(HANG):
            while await owners(of) != {"m2": "a"}:
                await listing("m2")(await of.fakes["a"].next())


async def test_only_who_has_a_key_may_ask() -> None:
    async with several({"a": {"models": ["m"]}}, api_keys=(KEY,), headers=BEARER) as of:
        for headers in ({}, {"authorization": "Bearer sk-wrong"}):
            status, body = await asked(of.url, headers=headers)
            assert status == 401
            assert "api_key" in body["error"]["code"]
        assert await owners(of, headers=BEARER) == {"m": "a"}


BEARER = {"authorization": f"Bearer {KEY}"}


async def test_each_upstream_is_asked_as_it_wants(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AZURE_KEY", "sk-azure")
    table = {"dialect": "azure", "key_env": "AZURE_KEY", "headers": {"x-team": "t"}}
    async with several({"a": table}, {"a": listing("m")}) as of:
        url = f"{of.fakes['a'].url}?api-version=1"
        async with several({"b": {**table, "url": url}}) as through:
            assert await owners(through, headers=BEARER) == {"m": "b"}
        [exchange] = of.fakes["a"].exchanges
        assert exchange.path == "/v1/models?api-version=1"
        assert exchange.headers["api-key"] == "sk-azure"
        assert exchange.headers["x-team"] == "t"
        assert exchange.headers["accept"] == "application/json"
        assert "authorization" not in exchange.headers


async def test_each_client_sees_the_list_of_its_own_key() -> None:
    async def script(exchange: Exchange) -> None:
        name = exchange.headers.get("authorization", "nobody")
        await listing(name.removeprefix("Bearer "))(exchange)

    async with several({"a": {}}, {"a": script}, forward_authorization=True) as of:
        for key in ("sk-1", "sk-2", "sk-1"):
            headers = {"authorization": f"Bearer {key}"}
            assert await owners(of, headers=headers) == {key: "a"}
        assert await owners(of) == {"nobody": "a"}
        assert of.asked() == {"a": 3}


async def test_the_flags_upstream() -> None:
    async with standing(listing("m1", "m2")) as stand:
        _, body = await asked(stand.url)
        assert [(model["id"], model["owned_by"]) for model in body["data"]] == [
            ("m1", "default"),
            ("m2", "default"),
        ]


async def test_a_list_asked_for_by_a_create_disturbs_no_lane() -> None:
    """Two upstreams without models, one silent: what the other lists is served all the same."""
    async with several({"a": {}, "b": {}}) as of:
        await of.client.create("x", model="m")
        lists = {name: await of.fakes[name].next() for name in ("a", "b")}
        await of.client.create("y", generate=False)
        assert (await of.client.ended("y"))["status"] == "completed"
        await listing("other")(lists["a"])
        await listing("m")(lists["b"])
        await answer(await of.fakes["b"].next())
        assert (await of.client.ended("x"))["status"] == "completed"
