"""Limits of tenants at every face: who is over them is told so, and harms nobody."""

from __future__ import annotations

import json
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import anyio
import pytest
from websockets.exceptions import InvalidStatus

from gateway.config.settings import Settings
from tests.support.client import connect
from tests.support.events import (
    closed,
    completed,
    created,
    delta,
    in_progress,
    message,
    opened,
    reply,
)
from tests.support.gateway import running
from tests.support.hang_guard import HANG
from tests.support.http_client import requested
from tests.support.redis_engine import Engine
from tests.support.upstream import upstream
from tests.support.wire_stand import shape
from tests.wire.test_http import refusal
from tests.wire.test_keys import bearer, keyed, named, written

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from gateway.keys.keys_file import NamedKey
    from tests.support.exchange import Exchange
    from tests.wire.test_keys import KeyedStand

JSON = {"content-type": "application/json"}
#: How a create comes over HTTP: the path, and what its body says.
FACES: dict[str, tuple[str, dict[str, Any]]] = {
    "whole": ("/responses", {}),
    "stream": ("/responses", {"stream": True}),
    "background": ("/responses", {"background": True, "store": True}),
    "compact": ("/responses/compact", {}),
    "passed": ("/embeddings", {}),
}


async def answers(exchange: Exchange) -> None:
    await exchange.send(*reply("ok"))
    await exchange.end()


def limited(name: str, secret: str, **limits: int | None) -> NamedKey:
    return named(name, secret, limits=tuple(limits.items()))


async def asked(
    url: str, secret: str, face: str = "whole", **headers: str
) -> tuple[int, Any, dict[str, str]]:
    """One create over HTTP: the status, what the body says, and the headers."""
    path, more = FACES[face]
    body = json.dumps({"model": "m", "input": "hi", **more}).encode()
    sent = {**bearer(secret), **JSON, **headers}
    async with requested(url, "POST", path, body, sent, judged=False) as answer:
        if answer.headers["content-type"].startswith("text/event-stream"):
            return answer.status, await answer.events(), dict(answer.headers)
        return answer.status, await answer.json(), dict(answer.headers)


async def until_admitted(ask: Callable[[], Any]) -> None:
    """What was given back is there for the next one, a moment after its holder saw its end."""
    with anyio.fail_after(HANG):
        while (await ask())[0] == 429:  # noqa: ASYNC110 - there is no event for it
            await anyio.sleep(0.01)


async def upgraded(own: KeyedStand, secret: str) -> tuple[int]:
    """The status of an upgrade."""
    try:
        async with own.client(secret):
            return (101,)
    except InvalidStatus as refused:
        return (refused.response.status_code,)


def over(status: int, body: Any, headers: dict[str, str], words: str) -> None:
    """The refusal of whoever is at a limit."""
    assert status == 429, body
    error = body["error"]
    assert (error["type"], error["code"]) == ("rate_limit_error", "rate_limit_exceeded")
    assert words in error["message"]
    assert f"try again in {headers['retry-after']}s" in error["message"]
    assert int(headers["retry-after"]) >= 1


async def test_connections(tmp_path: Path) -> None:
    acme, other = limited("acme", "sk-a", connections=1), named("other", "sk-b")
    second = named("acme-2", "sk-a2", tenant="acme")
    async with keyed(tmp_path, acme, second, other) as own:
        async with own.client("sk-a2") as client:
            for secret in ("sk-a", "sk-a2"):
                status, error, headers = await refusal(own.stand, bearer(secret))
                assert (status, error["code"]) == (429, "too_many_connections")
                assert error["message"] == (
                    "Too many connections: tenant 'acme' may have 1 open at a time."
                )
                assert headers["Retry-After"] == "5"
            async with own.client("sk-b"), own.client("sk-b"):
                await (await own.stand.lane(client, "a")).ends()
        await until_admitted(lambda: upgraded(own, "sk-a"))


@pytest.mark.parametrize("face", FACES)
async def test_creates_of_every_face_count_once_for_all_faces(tmp_path: Path, face: str) -> None:
    acme, other = limited("acme", "sk-a", creates=2), named("other", "sk-b")
    async with keyed(tmp_path, acme, other, script=answers) as own:
        url = own.stand.url
        async with own.client("sk-a") as client:
            await client.create("a")
            assert (await client.ended("a"))["status"] == "completed"
            assert (await asked(url, "sk-a", face))[0] == 200
            await client.create("a")
            error = await client.error("a")
        assert shape(error) == ("rate_limit_exceeded", 429, None, "a")
        told = error["error"]["headers"]
        assert told["x-ratelimit-limit-requests"] == "2"
        assert told["x-ratelimit-remaining-requests"] == "0"
        assert 28 <= int(told["retry-after"]) <= 30
        status, body, headers = await asked(url, "sk-a", face)
        over(status, body, headers, "tenant 'acme' is at its limit of 2 creates a minute")
        assert headers["x-ratelimit-limit-requests"] == "2"
        assert (await asked(url, "sk-b", face))[0] == 200


async def test_running(tmp_path: Path) -> None:
    acme, other = limited("acme", "sk-a", running=1), named("other", "sk-b")
    async with keyed(tmp_path, acme, other) as own, own.client("sk-a") as client:
        lane = await own.stand.lane(client, "a")
        await client.create("b")
        assert shape(await client.error("b")) == ("rate_limit_exceeded", 429, None, "b")
        for face in ("whole", "stream", "background", "compact"):
            over(*await asked(own.stand.url, "sk-a", face), words="runs 1 responses at a time")
        async with own.client("sk-b") as bystander:
            await (await own.stand.lane(bystander, "a")).ends()
        await lane.ends()
        own.stand.fake.script = answers
        await until_admitted(lambda: asked(own.stand.url, "sk-a"))
        await until_admitted(lambda: asked(own.stand.url, "sk-a", "passed"))
        await until_admitted(lambda: asked(own.stand.url, "sk-a", "background"))


async def test_a_successor_takes_the_place_of_the_steered_one_and_counts(tmp_path: Path) -> None:
    acme = limited("acme", "sk-a", running=1, creates=60)
    async with keyed(tmp_path, acme) as own, own.client("sk-a") as client:
        for _ in range(3):  # each is refused if the one before has left anything behind
            lane = await own.stand.lane(client, "a")
            await lane.says("one")
            response = [one for one in client.lane("a") if one["type"] == "response.created"][-1]
            await client.steer(response["response"]["id"], "other")
            await client.until("response.incomplete", lane="a")
            exchange = await own.stand.fake.next()
            await exchange.send(created("r2"), in_progress("r2"), *opened())
            await client.create("b")
            assert shape(await client.error("b"))[:2] == ("rate_limit_exceeded", 429)
            await exchange.send(delta("two"), *closed("two"), completed(output=[message("two")]))
            await exchange.end()
            await client.ended("a")
        quota = own.stand.server.gateway._limits.of("tenant-acme")
        assert quota._creates == 6


async def test_tokens_are_those_that_the_backend_counted(tmp_path: Path) -> None:
    acme = limited("acme", "sk-a", tokens=1)
    async with keyed(tmp_path, acme, script=answers) as own, own.client("sk-a") as client:
        await client.create("a")
        used = (await client.ended("a"))["usage"]["total_tokens"]
        assert used > 1
        await client.create("a")
        error = await client.error("a")
        assert shape(error)[:2] == ("rate_limit_exceeded", 429)
        assert "is at its limit of 1 tokens a minute" in error["error"]["message"]
        told = error["error"]["headers"]
        assert told["x-ratelimit-remaining-tokens"] == "0"
        assert 60 * (used - 1) - 5 <= int(told["retry-after"]) <= 60 * (used - 1)


async def test_a_response_that_was_cut_off_counts_about_what_it_said(tmp_path: Path) -> None:
    acme = limited("acme", "sk-a", tokens=1_000_000)
    async with keyed(tmp_path, acme) as own, own.client("sk-a") as client:
        lane = await own.stand.lane(client, "a", input="w" * 4000)
        await lane.says("word " * 800)
        response = [one for one in client.lane("a") if one["type"] == "response.created"][-1]
        await client.cancel(response_id=response["response"]["id"])
        await client.until("response.incomplete", lane="a")
        quota = own.stand.server.gateway._limits.of("tenant-acme")
        with anyio.fail_after(HANG):
            while not quota._tokens:  # noqa: ASYNC110
                await anyio.sleep(0.001)
        assert 2000 <= quota._tokens <= 2200


async def test_nothing_is_allowed_and_that_is_said(tmp_path: Path) -> None:
    for number, name in enumerate(("running", "creates", "tokens", "connections")):
        (tmp_path / name).mkdir()
        async with keyed(tmp_path / name, limited("acme", "sk-a", **{name: 0})) as own:
            if name == "connections":
                status, error, headers = await refusal(own.stand, bearer("sk-a"))
                assert (status, error["code"]) == (429, "too_many_connections")
                assert "tenant 'acme' may open none, as its limit is 0" in error["message"]
                assert headers["Retry-After"] == "60"
                continue
            status, body, headers = await asked(own.stand.url, "sk-a")
            over(status, body, headers, "its limit is 0")
            assert headers["retry-after"] == "60"
            assert number < 3


async def test_a_repeated_idempotency_key_counts_once(tmp_path: Path) -> None:
    async with keyed(tmp_path, limited("acme", "sk-a", creates=1), script=answers) as own:
        for _ in range(3):
            status, body, _ = await asked(own.stand.url, "sk-a", **{"idempotency-key": "k"})
            assert status == 200, body
        assert len(own.stand.fake.exchanges) == 1
        assert (await asked(own.stand.url, "sk-a", **{"idempotency-key": "k2"}))[0] == 429


async def test_limits_change_with_the_keys_file_also_for_what_is_open(tmp_path: Path) -> None:
    async with (
        keyed(tmp_path, named("acme", "sk-a"), script=answers, tenant_creates=9) as own,
        own.client("sk-a") as client,
    ):

        async def creates() -> str:
            await client.create("a")
            ends = "error", "response.completed"
            return str((await client.until(*ends, lane="a"))[-1]["type"])

        assert await creates() == "response.completed"
        own.write(limited("acme", "sk-a", creates=0))
        own.reload()
        assert await creates() == "error"
        own.write(limited("acme", "sk-a", creates=None))
        own.reload()
        assert {await creates() for _ in range(20)} == {"response.completed"}
        own.write(named("acme", "sk-a"))
        own.reload()
        assert [await creates() for _ in range(12)][-1] == "error"  # the default of all


async def test_who_is_far_over_its_limits_harms_nobody(tmp_path: Path) -> None:
    """The other one runs all along, while hundreds of creates are refused."""
    greedy, other = limited("greedy", "sk-a", running=1, creates=5), named("other", "sk-b")
    async with (
        keyed(tmp_path, greedy, other) as own,
        own.client("sk-a") as client,
        own.client("sk-b") as bystander,
    ):
        lane = await own.stand.lane(bystander, "a")
        own.stand.fake.script = answers
        for number in range(300):
            await client.create(f"l{number % 30}")
            if number % 100 == 0:
                await lane.says(f"{number} ")
        ends = [await client.until("error", "response.completed") for _ in range(300)]
        refused = sum(end[-1]["type"] == "error" for end in ends)
        assert 295 <= refused <= 299
        await lane.ends()
        assert (await asked(own.stand.url, "sk-b"))[0] == 200


@asynccontextmanager
async def engine() -> AsyncIterator[Engine]:
    with TemporaryDirectory(prefix="ml", dir="/tmp") as folder:  # short, for the socket's sake
        made = Engine("valkey", Path(folder))
        await made.start()
        yield made
        made.kill()


async def test_gateways_of_one_store_share_the_limits(tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    written(
        keys,
        limited("acme", "sk-a", connections=2, running=1, creates=2),
        named("other", "sk-b"),
    )
    async with engine() as store, upstream() as fake:
        settings = Settings(
            upstream=fake.url,
            dialect="openai",
            redis_url=f"unix://{store.path}",
            keys_file=str(keys),
        )
        async with running(settings) as here, running(settings) as there:
            fake.script = answers
            async with connect(there, headers=bearer("sk-b")) as client:
                await client.create("a")
                await client.ended("a")
            async with store.client() as direct:
                assert await direct.keys("*limits*") == []  # who has none asks for nothing
            async with (
                connect(here, headers=bearer("sk-a")) as one,
                connect(there, headers=bearer("sk-a")) as two,
            ):
                with pytest.raises(InvalidStatus, match="429"):
                    async with connect(here, headers=bearer("sk-a")):
                        pass
                fake.script = None
                await one.create("a")
                exchange = await fake.next()
                await two.create("b")
                assert shape(await two.error("b"))[:2] == ("rate_limit_exceeded", 429)
                fake.script = answers
                await answers(exchange)
                await one.ended("a")

                async def again() -> tuple[int]:
                    await two.create("b")
                    end = (await two.until("error", "response.completed", lane="b"))[-1]
                    return (end.get("status", 200),)

                await until_admitted(again)
                over(*await asked(here, "sk-a"), words="2 creates a minute")
                over(*await asked(there, "sk-a"), words="2 creates a minute")


@pytest.mark.parametrize("policy", ["open", "closed"])
async def test_the_store_is_away(tmp_path: Path, policy: str) -> None:
    keys = tmp_path / "keys"
    written(keys, limited("acme", "sk-a", creates=1, connections=9), named("other", "sk-b"))
    async with engine() as store, upstream(answers) as fake:
        settings = Settings(
            upstream=fake.url,
            dialect="openai",
            redis_url=f"unix://{store.path}",
            keys_file=str(keys),
            limits_without_store=policy,
        )
        async with running(settings) as url:
            async with connect(url, headers=bearer("sk-a")) as client:
                store.kill()
                for _ in range(3):
                    await client.create("a", store=False)
                    end = (await client.until("error", "response.completed", lane="a"))[-1]
                    if policy == "open":
                        assert end["type"] == "response.completed"
                    else:
                        assert shape(end)[:2] == ("store_unavailable", 503)
                        assert end["error"]["headers"] == {"retry-after": "5"}
            async with connect(url, headers=bearer("sk-b")) as client:
                await client.create("a", store=False)
                await client.ended("a")
            if policy == "closed":
                with pytest.raises(InvalidStatus, match="503"):
                    async with connect(url, headers=bearer("sk-a")):
                        pass
