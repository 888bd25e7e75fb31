"""Answers that make no sense are trouble of the store for whoever asked, and never a crash."""

from __future__ import annotations

import random
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from gateway.persistence import redis_client
from lanes.history.archive import Archive, ArchiveUnavailable
from lanes.stores.base import MAX_CHAIN, StoredResponse
from lanes.stores.conversations import (
    Addition,
    Conversation,
    ConversationItem,
    ConversationKey,
    ItemNotFound,
    Page,
)
from lanes.stores.redis import RedisResponseStore
from lanes.stores.redis_conversations import RedisConversationStore
from steering.errors import StoreUnavailable
from steering.redis.guard import RedisGuard
from steering.redis.lease import Lease
from steering.states import SubmissionState
from steering.stores.base import Verdict
from steering.stores.redis import RedisSteerStore
from tests.stores.test_not_stored import asked
from tests.support.gateway_stand import stand
from tests.support.scripted_redis import bulk, scripted_redis
from tests.support.steer_stores import RedisPlace, record
from tests.support.steer_stores import response as response_id
from tests.support.stored_chains import KEY, grow, response

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

#: Answers of each kind that the protocol has, and some that it has not.
ANSWERS = {
    "simple": b"+OK\r\n",
    "queued": b"+QUEUED\r\n",
    "bytes": b"+\xff\xfe\r\n",
    "error": b"-ERR no\r\n",
    "error of bytes": b"-\xff\xfe\xc3\r\n",
    "error without a word": b"-\r\n",
    "moved nowhere": b"-MOVED\r\n",
    "moved": b"-MOVED x y\r\n",
    "asked": b"-ASK 7\r\n",
    "wrong type": b"-WRONGTYPE Operation against a key holding the wrong kind of value\r\n",
    "loading": b"-LOADING\r\n",
    "number": b":7\r\n",
    "negative": b":-2\r\n",
    "huge number": b":9223372036854775807\r\n",
    "no number": b":x\r\n",
    "nothing": b"$-1\r\n",
    "no list": b"*-1\r\n",
    "empty": bulk(b""),
    "word": bulk(b"ok"),
    "text": bulk(b"hello"),
    "no text": bulk(b"\xff\xfe\x00"),
    "empty list": b"*0\r\n",
    "numbers": b"*2\r\n:1\r\n:2\r\n",
    "texts": b"*2\r\n" + bulk(b"ok") + bulk(b"x"),
    "appended": b"*2\r\n" + bulk(b"ok") + bulk(b"soon"),
    "five": b"*5\r\n" + bulk(b"\n") * 5,
    "five bytes": b"*5\r\n" + bulk(b"\xff") * 5,
    "five lists": b"*5\r\n" + b"*0\r\n" * 5,
    "errors inside": b"*2\r\n-ERR a\r\n-ERR b\r\n",
    "nested": b"*1\r\n" * 6 + b":1\r\n",
    "map": b"%1\r\n+a\r\n+b\r\n",
    "double": b",1.5\r\n",
    "truth": b"#t\r\n",
    "another protocol": b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n",
    "noise": b"\x00\x01\x02\r\n",
}
TARGET = response_id()
STEER = record(TARGET)
TALK = ConversationKey(KEY, "conv_" + "a" * 32)
SAID = ConversationItem("a", b"{}")


@asynccontextmanager
async def calls(url: str) -> AsyncIterator[dict[str, Callable[[], Awaitable[Any]]]]:
    """Every call of every store, on the engine at this URL."""
    client = redis_client.connect(url)
    guard = RedisGuard(client, deadline=0.3, pause=0)
    lease = Lease(client, "me", guard=guard)
    lease._held_since, lease._held_until = -100.0, 1e12
    steers = RedisSteerStore(client, lease, guard=guard)
    responses = RedisResponseStore(client, guard=guard)
    archive = Archive(responses, MAX_CHAIN)
    talks = RedisConversationStore(client, guard=guard)
    try:
        yield {
            "begin": lambda: talks.create(KEY, Conversation(TALK.id, 1, {}), [SAID]),
            "talk": lambda: talks.get(TALK),
            "change": lambda: talks.update(TALK, {}),
            "end": lambda: talks.delete(TALK),
            "add": lambda: talks.append(TALK, Addition([SAID], "f" * 16)),
            "items": lambda: talks.items(TALK),
            "page": lambda: talks.page(TALK, Page(after="a")),
            "item": lambda: talks.item(TALK, "a"),
            "remove": lambda: talks.remove(TALK, "a"),
            "save": lambda: responses.save(response("a")),
            "save a child": lambda: responses.save(response("b", "a")),
            "load": lambda: responses.load(KEY, "a", MAX_CHAIN),
            "get": lambda: responses.get(KEY, "a"),
            "delete": lambda: responses.delete(KEY, "a"),
            "archive.get": lambda: archive.get(KEY, "a"),
            "archive.find": lambda: archive.find(KEY, "a"),
            "append": lambda: steers.append(STEER),
            "settle": lambda: steers.settle(Verdict(TARGET, [STEER.id], SubmissionState.FAILED)),
            "of_response": lambda: steers.of_response("key", TARGET),
            "get a steer": lambda: steers.get("key", STEER.id),
            "renew": lease.renew,
            "release": lease.release,
            "gone": lambda: lease.gone({"they"}),
        }
    finally:
        await redis_client.close(client)


async def ask(call: Callable[[], Awaitable[Any]]) -> Any:
    """Return what a call returns; `unavailable` if the store's trouble is said as it should be."""
    try:
        return await call()
    except ItemNotFound:
        return None
    except StoreUnavailable:
        return "unavailable"
    except ArchiveUnavailable as fault:
        return "unavailable" if (fault.status, fault.code) == (503, "store_unavailable") else fault


@pytest.mark.parametrize("kind", ANSWERS)
async def test_one_answer_to_everything(kind: str) -> None:
    async with scripted_redis(lambda words: ANSWERS[kind]) as url, calls(url) as every:
        for name, call in every.items():
            got = await ask(call)
            if name in ("save", "save a child", "append", "settle", "begin", "add"):
                assert got == "unavailable" or kind == "word", name
            elif name in ("load", "archive.get", "archive.find", "get a steer", "talk", "item"):
                assert got in ("unavailable", None), name


@pytest.mark.parametrize("seed", range(20))
async def test_any_answers(seed: int) -> None:
    draw = random.Random(seed)

    def answer(words: list[bytes]) -> bytes:
        return draw.choice(list(ANSWERS.values()))

    async with scripted_redis(answer) as url, calls(url) as every:
        for call in every.values():
            await ask(call)


@pytest.mark.parametrize("name", ["fixed", "state", "at", "reason", "successor"])
@pytest.mark.parametrize("value", [b"", b"\xff\xfe", b"[]\n{}", b'["a",1]\n1', b"nan and more"])
async def test_a_record_that_is_none(kept: RedisPlace, name: str, value: bytes) -> None:
    store = await kept.store()
    written = record(response_id())
    await store.append(written)
    tag = written.target.removeprefix("resp_")[:16]
    key = f"{kept.prefix}:{{{tag}}}:steer:{written.id}"
    assert await kept.client.exists(key)
    await kept.client.hset(key, name, value)
    for call in (
        lambda: store.get("key", written.id),
        lambda: store.of_response("key", written.target),
    ):
        got = await ask(call)
        if name in ("fixed", "state", "at"):
            assert got == "unavailable"


@pytest.mark.parametrize("junk", [b"", b"\x00", b"\x00[]", b"\x00{", b"\x00\xff", b"\x01", b"new"])
async def test_an_object_that_is_none(kept: RedisPlace, junk: bytes) -> None:
    store = RedisResponseStore(kept.client, prefix=kept.prefix)
    await grow(store, "a")
    key = f"{kept.prefix}:response:{KEY}:a"
    await kept.client.hset(key, "body", junk)
    archive = Archive(store, MAX_CHAIN)
    assert await ask(lambda: archive.get(KEY, "a")) == "unavailable"


@pytest.mark.parametrize("kind", ["string", "list", "hash", "set", "number"])
async def test_keys_of_another_kind(kept: RedisPlace, kind: str) -> None:
    """Somebody else wrote under our names."""
    writes: dict[str, Callable[[str], Awaitable[Any]]] = {
        "string": lambda key: kept.client.set(key, "x"),
        "list": lambda key: kept.client.rpush(key, "x", "y"),
        "hash": lambda key: kept.client.hset(key, "at", "x"),
        "set": lambda key: kept.client.sadd(key, "x"),
        "number": lambda key: kept.client.incr(key),
    }
    store = RedisResponseStore(kept.client, prefix=kept.prefix)
    await grow(store, "a", "b")
    again = RedisResponseStore(kept.client, prefix=kept.prefix)
    for key in (f"{kept.prefix}:branch:{KEY}:a", f"{kept.prefix}:response:{KEY}:b"):
        await kept.client.delete(key)
        await writes[kind](key)
        for one in (store, again):
            late: StoredResponse = response("c", "b")
            for call in (
                lambda one=one: one.load(KEY, "b", MAX_CHAIN),
                lambda one=one: one.get(KEY, "b"),
                lambda one=one, late=late: one.save(late),
                lambda one=one: one.delete(KEY, "b"),
            ):
                await ask(call)


@pytest.mark.parametrize("kind", ["number", "moved", "five", "no text", "errors inside"])
async def test_a_gateway_says_503_and_serves_what_needs_no_store(kind: str) -> None:
    async with (
        scripted_redis(lambda words: ANSWERS[kind]) as redis_url,
        stand(redis_url=redis_url) as on,
    ):
        for path in (
            f"/v1/responses/{TARGET}",
            f"/v1/responses/{TARGET}/steers",
            f"/v1/steers/{STEER.id}",
        ):
            status, told = await asked(on.url, "GET", path)
            assert (status, told["error"]["code"]) == (503, "store_unavailable"), path
        error = await on.refused("a", previous_response_id=TARGET)
        assert (error["status"], error["error"]["code"]) == (503, "store_unavailable")
        _, ended = await on.turn("a", input="one", store=False)
        assert ended["status"] == "completed"
        status, health = await asked(on.url, "GET", "/health")
        assert (status, health["status"]) == (200, "ok")
        assert health["store"]["state"] in ("away", "degraded")
        assert health["counters"]["store_calls_failed"] > 0
