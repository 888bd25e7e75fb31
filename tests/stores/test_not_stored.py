"""What could not be stored is told to the client that asks for it, and counted."""

from __future__ import annotations

import http.client
import json
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import anyio
import pytest

from gateway.client.auth import OPEN
from gateway.config.settings import Settings
from lanes.history import archive
from lanes.stores.writer import ResponseWriter
from steering.clerk import Clerk
from steering.states import SubmissionState
from steering.stores.base import Verdict
from steering.stores.memory import MemorySteerStore
from tests.support.client import connect
from tests.support.events import reply
from tests.support.gateway import running
from tests.support.gateway_stand import Stand, answer
from tests.support.steer_stores import record, response
from tests.support.upstream import upstream

if TYPE_CHECKING:
    from tests.support.redis_engine import Engine


async def asked(url: str, method: str, path: str) -> tuple[int, Any]:
    """The status and the JSON of one plain HTTP request."""

    def ask() -> tuple[int, Any]:
        connection = http.client.HTTPConnection("127.0.0.1", urlsplit(url).port, timeout=60)
        try:
            connection.request(method, path)
            got = connection.getresponse()
            return got.status, json.loads(got.read())
        finally:
            connection.close()

    return await anyio.to_thread.run_sync(ask)


async def test_a_response_that_was_lost(victim: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive, "ResponseWriter", partial(ResponseWriter, attempts=1))
    redis_url = f"unix://{victim.path}"
    async with (
        upstream() as fake,
        running(Settings(upstream=fake.url, dialect="openai", redis_url=redis_url)) as url,
        connect(url) as client,
        connect(url) as other,
        victim.client() as admin,
    ):
        on = Stand(fake, client, url, [])
        await admin.config_set("maxmemory", "1")
        _, lost = await on.turn("a", reply("1"), input="one", store=True)
        status, told = await asked(url, "GET", f"/v1/responses/{lost['id']}")
        assert (status, told["error"]["code"]) == (503, "response_not_stored")
        assert told["error"]["message"] == (
            f"Response '{lost['id']}' was completed, but not stored: the store did not take it."
        )
        await other.create("b", previous_response_id=lost["id"])
        error = (await other.event())["error"]
        assert error["code"] == "previous_response_not_found"
        assert "it was not stored: the store did not take it" in error["message"]
        _, health = await asked(url, "GET", "/health")
        assert health["status"] == "ok"
        assert health["counters"]["responses_not_stored"] == 1
        assert health["counters"]["store_calls_failed"] >= 1
        await admin.config_set("maxmemory", "0")
        exchange = await on.asked("a", input="two", previous_response_id=lost["id"], store=True)
        await answer(exchange)  # this connection still has it
        kept = await client.ended("a")
        assert (await asked(url, "GET", f"/v1/responses/{kept['id']}"))[0] == 200
        assert (await asked(url, "DELETE", f"/v1/responses/{lost['id']}"))[0] == 200
        assert (await asked(url, "GET", f"/v1/responses/{lost['id']}"))[0] == 404


async def test_a_verdict_that_was_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    clerks: list[Clerk] = []
    make = Clerk.__init__

    def noted(self: Clerk, *args: Any) -> None:
        make(self, *args)
        clerks.append(self)

    monkeypatch.setattr(Clerk, "__init__", noted)
    monkeypatch.setattr("steering.clerk._BACKLOG_PER_KEY", 1)
    async with (
        upstream() as fake,
        running(Settings(upstream=fake.url, dialect="openai")) as url,
    ):
        (clerk,) = clerks
        target = response()
        first, second = record(target, key_id=OPEN), record(target, key_id=OPEN)
        for written in (first, second):
            await clerk.append(written)
        # Both in one turn of the loop, so that the first cannot be written before the second comes.
        for written in (first, second):
            clerk.settle(OPEN, Verdict(target, [written.id], SubmissionState.DROPPED, None, None))
        for path in (f"/v1/steers/{first.id}", f"/v1/responses/{target}/steers"):
            status, told = await asked(url, "GET", path)
            assert (status, told["error"]["code"]) == (503, "steer_not_stored")
            assert f"'{first.id}' is dropped, but that was not stored" in told["error"]["message"]
        status, told = await asked(url, "GET", f"/v1/steers/{second.id}")
        assert (status, told["state"]) == (200, "dropped")
        _, health = await asked(url, "GET", "/health")
        assert health["counters"]["steer_verdicts_not_stored"] == 1


async def test_a_record_whose_input_is_broken() -> None:
    store = MemorySteerStore()
    broken = record(response(), key_id=OPEN, input=b'{"cut o')
    await store.append(broken)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("gateway.persistence.stores.MemorySteerStore", lambda: store)
        async with (
            upstream() as fake,
            running(Settings(upstream=fake.url, dialect="openai")) as url,
        ):
            for path in (f"/v1/steers/{broken.id}", f"/v1/responses/{broken.target}/steers"):
                status, told = await asked(url, "GET", path)
                assert (status, told["error"]["code"]) == (503, "store_unavailable")
