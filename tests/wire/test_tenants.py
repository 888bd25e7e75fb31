"""What a tenant stored belongs to its name: a rotated key loses nothing, nor does a named one."""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import pytest

from gateway.keys.keys_file import key_id
from tests.support.events import reply
from tests.support.http_client import requested
from tests.support.redis_engine import Engine
from tests.wire.test_keys import KeyedStand, bearer, keyed, named

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.support.exchange import Exchange

OLD, NEW, OTHER = "sk-old", "sk-new", "sk-other"


async def answer(exchange: Exchange) -> None:
    await exchange.send(*reply("ok"))
    await exchange.end()


async def asked(
    own: KeyedStand, secret: str, method: str, path: str, body: object = None
) -> tuple[int, Any]:
    """One request: its status and its JSON."""
    headers = {**bearer(secret), "content-type": "application/json"}
    data = None if body is None else json.dumps(body).encode()
    async with requested(own.stand.url, method, path, data, headers) as got:
        return got.status, await got.json()


async def stored(own: KeyedStand, secret: str, **fields: Any) -> str:
    """A response that is created and kept; its id."""
    body = {"model": "m", "input": "hi", "store": True, **fields}
    status, response = await asked(own, secret, "POST", "/responses", body)
    assert status == 200, response
    return str(response["id"])


async def test_another_key_of_the_tenant_reads_it_and_no_other_tenant(tmp_path: Path) -> None:
    first, second = named("acme", OLD), named("acme-2", NEW, tenant="acme")
    other = named("other", OTHER)
    async with keyed(tmp_path, first, second, other, script=answer) as own:
        response = await stored(own, OLD)
        own.write(second, other)
        own.reload()
        assert (await asked(own, OLD, "GET", f"/responses/{response}"))[0] == 401
        assert (await asked(own, OTHER, "GET", f"/responses/{response}"))[0] == 404
        assert (await asked(own, NEW, "GET", f"/responses/{response}"))[0] == 200
        after = await stored(own, NEW, previous_response_id=response)
        assert (await asked(own, NEW, "GET", f"/responses/{after}"))[0] == 200


@pytest.fixture(scope="module")
async def engine() -> AsyncIterator[Engine]:
    with TemporaryDirectory(prefix="ml", dir="/tmp") as folder:  # short, for the socket's sake
        engine = Engine("valkey", Path(folder))
        await engine.start()
        yield engine
        engine.kill()


@pytest.fixture(params=["memory", "engine"])
def homes(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    """A gateway with a key without a name, of which a tenant has taken over the records."""
    heir = named("acme", NEW, formerly=(key_id(OLD), key_id("sk-older")))
    other = named("other", OTHER)
    url = "memory"
    if request.param == "engine":
        url = f"unix://{request.getfixturevalue('engine').path}"
    keys = [OLD, "sk-older"]
    return keyed(tmp_path, heir, other, script=answer, api_keys=keys, redis_url=url)


async def test_responses_of_a_nameless_key_are_read_continued_and_deleted(homes: Any) -> None:
    async with homes as own:
        for secret in (OLD, "sk-older", NEW):
            first = await stored(own, secret)
            second = await stored(own, NEW, previous_response_id=first)
            third = await stored(own, NEW, previous_response_id=second)
            assert len(own.stand.fake.exchanges[-1].input) == 5
            for path in (f"/responses/{third}", f"/responses/{third}/input_items"):
                assert (await asked(own, NEW, "GET", path))[0] == 200
                assert (await asked(own, OTHER, "GET", path))[0] == 404
            async with own.client(NEW) as client:
                await client.create("a", previous_response_id=third)
                assert (await client.ended("a"))["status"] == "completed"
            assert (await asked(own, NEW, "DELETE", f"/responses/{first}"))[0] == 200
            assert (await asked(own, NEW, "GET", f"/responses/{first}"))[0] == 404
        mine = await stored(own, NEW)
        assert (await asked(own, OLD, "GET", f"/responses/{mine}"))[0] == 404


async def test_conversations_of_a_nameless_key_go_on(homes: Any) -> None:
    async with homes as own:
        item = {"type": "message", "role": "user", "content": "before"}
        _, made = await asked(own, OLD, "POST", "/conversations", {"items": [item]})
        place = f"/conversations/{made['id']}"
        response = await stored(own, NEW, conversation=made["id"])
        status, items = await asked(own, NEW, "GET", f"{place}/items?order=asc")
        assert (status, len(items["data"])) == (200, 3)
        first = f"{place}/items/{items['data'][0]['id']}"
        assert (await asked(own, NEW, "GET", first))[0] == 200
        await stored(own, NEW, previous_response_id=response)
        assert "before" in json.dumps(own.stand.fake.exchanges[-1].input)
        assert (await asked(own, NEW, "POST", place, {"metadata": {"a": "b"}}))[0] == 200
        assert (await asked(own, NEW, "DELETE", first))[0] == 200
        assert (await asked(own, OTHER, "DELETE", place))[0] == 404
        assert (await asked(own, NEW, "DELETE", place))[0] == 200
        assert (await asked(own, OLD, "GET", place))[0] == 404


async def test_responses_in_the_background_of_a_nameless_key(homes: Any) -> None:
    async with homes as own:
        own.stand.fake.script = None
        response = await stored(own, OLD, background=True)
        await own.stand.fake.next()
        place = f"/responses/{response}"
        status, body = await asked(own, NEW, "GET", place)
        assert (status, body["status"]) == (200, "queued")
        assert (await asked(own, OTHER, "POST", f"{place}/cancel"))[0] == 404
        status, body = await asked(own, NEW, "POST", f"{place}/cancel")
        assert (status, body["status"]) == (200, "cancelled")
        assert (await asked(own, NEW, "DELETE", place))[0] == 200
        assert (await asked(own, OLD, "GET", place))[0] == 404


async def test_steers_of_a_nameless_key(homes: Any) -> None:
    async with homes as own, own.client(OLD) as client:
        own.stand.fake.script = None
        lane = await own.stand.lane(client, "a")
        response = client.lane("a")[0]["response"]["id"]
        await client.steer(response, "other")
        accepted = await client.until("response.steer.accepted")
        steer = accepted[-1]["steer"]["id"]
        assert lane.name == "a"
        for path in (f"/responses/{response}/steers", f"/steers/{steer}"):
            status, body = await asked(own, NEW, "GET", path)
            assert status == 200
            assert steer in json.dumps(body)
        assert (await asked(own, OTHER, "GET", f"/steers/{steer}"))[0] == 404
