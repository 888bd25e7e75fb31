"""protocol.md 8: what is asked of conversations over HTTP, and what is wrong with it."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from lanes.stores.conversations import MAX_CONVERSATION_BYTES
from tests.support.conversations import ask, begin, texts
from tests.support.events import closed, created, delta, opened, reply
from tests.support.gateway_stand import answer, said, stand, user
from tests.support.http_client import posted
from tests.support.redis_engine import Engine

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.support.gateway_stand import Stand

Json = dict[str, Any]
NOBODYS = "conv_" + "0" * 32
MANY = {f"k{n}": "v" for n in range(17)}

#: Method, path, body, and the status, code and param of the answer.
WRONG: list[tuple[str, str, Any, tuple[int, str, str | None]]] = [
    ("POST", "", {"items": 5}, (400, "invalid_type", "items")),
    ("POST", "", {"items": "hi"}, (400, "invalid_type", "items")),
    ("POST", "", {"items": [5]}, (400, "invalid_type", "items[0]")),
    ("POST", "", {"items": [user("x"), {}]}, (400, "invalid_type", "items[1].type")),
    ("POST", "", {"items": [{"type": 5}]}, (400, "invalid_type", "items[0].type")),
    ("POST", "", {"items": [{"role": "user"}]}, (400, "invalid_type", "items[0].content")),
    (
        "POST",
        "",
        {"items": [{"type": "item_reference", "id": "m"}]},
        (400, "invalid_value", "items[0]"),
    ),
    ("POST", "", {"items": [{"id": "m"}]}, (400, "invalid_type", "items[0].type")),
    ("POST", "", {"items": [user("x")] * 21}, (400, "invalid_value", "items")),
    ("POST", "", {"metadata": 5}, (400, "invalid_type", "metadata")),
    ("POST", "", {"metadata": {"a": 5}}, (400, "invalid_type", "metadata")),
    ("POST", "", {"metadata": MANY}, (400, "invalid_value", "metadata")),
    ("POST", "/HERE", {}, (400, "missing_required_parameter", "metadata")),
    ("POST", "/HERE", {"metadata": []}, (400, "invalid_type", "metadata")),
    ("POST", "/HERE/items", {}, (400, "missing_required_parameter", "items")),
    ("POST", "/HERE/items", {"items": None}, (400, "invalid_type", "items")),
    ("POST", "/HERE/items?include=x", {"items": []}, (400, "invalid_value", "include")),
    ("GET", "/HERE/items?limit=0", None, (400, "invalid_value", "limit")),
    ("GET", "/HERE/items?limit=101", None, (400, "invalid_value", "limit")),
    ("GET", "/HERE/items?limit=x", None, (400, "invalid_value", "limit")),
    ("GET", "/HERE/items?limit=", None, (400, "invalid_value", "limit")),
    ("GET", f"/HERE/items?limit={'1' * 5000}", None, (400, "invalid_value", "limit")),
    ("GET", "/HERE/items?order=up", None, (400, "invalid_value", "order")),
    ("GET", "/HERE/items?after=msg_gone", None, (404, "item_not_found", "after")),
    ("GET", "/HERE/items?include[]=x", None, (400, "invalid_value", "include")),
    ("GET", "/HERE/items/msg_gone", None, (404, "item_not_found", None)),
    ("DELETE", "/HERE/items/msg_gone", None, (404, "item_not_found", None)),
    ("PUT", "/HERE", None, (405, "method_not_allowed", None)),
    ("DELETE", "", None, (405, "method_not_allowed", None)),
]


@pytest.mark.parametrize(("method", "path", "body", "said"), WRONG)
async def test_what_is_wrong_is_named(
    method: str, path: str, body: Any, said: tuple[int, str, str | None]
) -> None:
    async with stand() as on:
        name = await begin(on, user("kept"))
        status, refused = await ask(on, method, path.replace("HERE", name), body)
        assert (status, refused["error"]["code"], refused["error"]["param"]) == said
        assert refused["error"]["type"] == "invalid_request_error"
        assert await texts(on, name) == ["kept"]


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", "", None),
        ("POST", "", {"metadata": {}}),
        ("DELETE", "", None),
        ("GET", "/items", None),
        ("POST", "/items", {"items": [user("x")]}),
        ("GET", "/items/ITEM", None),
        ("DELETE", "/items/ITEM", None),
    ],
)
async def test_another_keys_conversation_is_like_none(
    method: str, path: str, body: Json | None
) -> None:
    async with stand(api_keys=["one", "two"], key="one") as on:
        one, two = ({"authorization": f"Bearer {key}"} for key in ("one", "two"))
        _, made = await ask(on, "POST", "", {"items": [user("mine")]}, one)
        name = made["id"]
        _, listed = await ask(on, "GET", f"/{name}/items", None, one)
        path = path.replace("ITEM", listed["data"][0]["id"])
        for asked, headers in ((name, two), (NOBODYS, one), ("conv_x", one), ("%2e%2e", one)):
            status, refused = await ask(on, method, f"/{asked}{path}", body, headers)
            assert status == 404
            if asked.startswith("conv_"):
                assert refused["error"]["code"] == "conversation_not_found"
                assert refused["error"]["message"].replace(asked, "ID") == (
                    "Conversation with id 'ID' not found."
                )
        status, _ = await ask(on, "GET", f"/{name}", None, {})
        assert status == 401
        assert (await ask(on, "GET", f"/{name}/items", None, one))[1] == listed
        await on.turn("a", conversation=name)


async def test_an_item_that_is_too_large() -> None:
    async with stand() as on:
        large = user("x" * (4 << 20))
        status, refused = await ask(on, "POST", "", {"items": [user("x"), large]})
        assert (status, refused["error"]["code"]) == (400, "value_too_large")
        assert refused["error"]["param"] == "items"
        part = user("x" * (MAX_CONVERSATION_BYTES * 2 // 9))
        name = await begin(on, part)
        for _ in range(3):
            assert (await ask(on, "POST", f"/{name}/items", {"items": [part]}))[0] == 200
        status, refused = await ask(on, "POST", f"/{name}/items", {"items": [part]})
        assert (status, refused["error"]["code"]) == (400, "conversation_too_large")
        refused = await on.refused("a", conversation=name, input=[part])
        assert refused["error"]["code"] == "conversation_too_large"
        assert refused["error"]["param"] == "input"
        await on.turn("a", conversation=name, input="small")


@pytest.mark.parametrize("count", [1, 20])
async def test_items_as_large_as_may_be(count: int) -> None:
    async with stand() as on:
        sizes = [(4 << 20) // count - 200] * count
        name = await begin(on, *(user("x" * size) for size in sizes))
        body = {"items": [user("y" * size) for size in sizes]}
        assert (await ask(on, "POST", f"/{name}/items", body))[0] == 200
        assert [len(text) for text in await texts(on, name)] == sizes * 2


async def test_many_items_are_too_many() -> None:
    async with stand(max_chain=3) as on:
        name = await begin(on, user("1"), user("2"))
        body = {"items": [user("3"), user("4")]}
        status, refused = await ask(on, "POST", f"/{name}/items", body)
        assert (status, refused["error"]["code"]) == (400, "conversation_too_large")
        assert await texts(on, name) == ["1", "2"]


async def test_ids_are_kept_unless_they_are_taken_or_no_ids() -> None:
    async with stand() as on:
        given = [
            {**user("1"), "id": "msg_1"},
            {**user("2"), "id": "msg_1"},
            {**user("3"), "id": "a/b"},
        ]
        name = await begin(on, *given)
        _, added = await ask(on, "POST", f"/{name}/items", {"items": given[:1]})
        _, listed = await ask(on, "GET", f"/{name}/items?order=asc")
        ids = [item["id"] for item in listed["data"]]
        assert ids[0] == "msg_1"
        assert len(set(ids)) == 4
        assert all(one.startswith("msg_") for one in ids)
        assert added["data"][0]["id"] == ids[3]
        assert await texts(on, name) == ["1", "2", "3", "1"]


async def test_a_cancelled_response_is_added_as_far_as_it_came() -> None:
    async with stand() as on:
        name = await begin(on)
        exchange = await on.asked("a", conversation=name, input="one")
        await exchange.send(created(), *opened(), delta("so far"))
        await on.client.until("response.output_text.delta", lane="a")
        await on.client.send({"type": "response.cancel", "stream_id": "a"})
        ended = await on.client.ended("a")
        assert ended["incomplete_details"] == {"reason": "cancelled"}
        assert await texts(on, name) == ["one", "so far"]


@asynccontextmanager
async def _kept(folder: Path) -> AsyncIterator[tuple[Stand, Engine]]:
    engine = Engine("valkey", folder)
    await engine.start()
    try:
        async with stand(redis_url=f"unix://{engine.path}") as on:
            yield on, engine
    finally:
        engine.kill()


async def test_gateways_of_one_store_share_it(tmp_path: Path) -> None:
    async with _kept(tmp_path) as (here, engine), stand(redis_url=f"unix://{engine.path}") as there:
        name = await begin(here)
        first = await here.asked("a", conversation=name, input="here")
        second = await there.asked("a", conversation=name, input="there")
        await answer(second, reply("second"))
        await there.client.ended("a")
        await answer(first, reply("first"))
        await here.client.ended("a")
        told = ["there", "second", "here", "first"]
        for on in (here, there):
            assert await texts(on, name) == told
            exchange, _ = await on.turn("b", reply("ok"), conversation=name, input="and?")
            assert said(exchange) == [*told, "and?"]
            told = [*told, "and?", "ok"]


async def test_what_is_large_is_added_whole() -> None:
    async with stand() as on:
        name = await begin(on)
        large = [user("x" * 300_000), user("short")]
        await on.turn("a", reply("y" * 200_000), conversation=name, input=large)
        told = ["x" * 300_000, "short", "y" * 200_000]
        assert await texts(on, name) == told
        _, listed = await ask(on, "GET", f"/{name}/items?order=asc")
        for item in listed["data"]:
            assert await ask(on, "GET", f"/{name}/items/{item['id']}") == (200, item)
        exchange, _ = await on.turn("b", conversation=name, input="and?")
        assert said(exchange) == [*told, "and?"]


async def test_absurd_items_are_listed_all_the_same() -> None:
    absurd: list[Json] = [
        {"type": "x", "a": {"b": None}},
        {"role": "user", "content": [{"type": ["a"]}, 7, None, {}]},
        {"type": None, "role": "user", "content": "x"},
        {"type": "web_search_call", "action": 7},
        {"type": "message", "content": {"a": 1}},
        {"type": "reasoning", "summary": None, "id": 7},
        {"role": "assistant", "content": [{"type": "output_text", "logprobs": 7}]},
        {"id": 7, "type": "é"},
    ]
    async with stand() as on:
        name = await begin(on)
        await on.turn("a", conversation=name, input=absurd)
        status, listed = await ask(on, "GET", f"/{name}/items?order=asc")
        assert status == 200
        assert len({item["id"] for item in listed["data"]}) == len(absurd) + 1
        for item in listed["data"]:
            assert isinstance(item["id"], str)
            assert (await ask(on, "GET", f"/{name}/items/{item['id']}")) == (200, item)


async def test_a_create_that_is_sent_again_adds_one_turn() -> None:
    async with stand() as on:
        name = await begin(on)
        create = {"input": "one", "conversation": name}
        async with anyio.create_task_group() as tasks:
            for _ in range(2):
                tasks.start_soon(_post, on, create)
            await answer(await on.fake.next(), reply("said"))
        await _post(on, create)
        assert await texts(on, name) == ["one", "said"]
        assert len(on.fake.exchanges) == 1


async def _post(on: Stand, create: Json) -> None:
    async with posted(on.url, create, {"idempotency-key": "k"}) as answered:
        assert answered.status == 200
        await answered.json()


async def test_a_response_that_the_store_does_not_take_fails(tmp_path: Path) -> None:
    async with _kept(tmp_path) as (on, engine):
        name = await begin(on, user("before"))
        exchange = await on.asked("a", conversation=name, input="one")
        await exchange.send(created(), *opened(), delta("said"), *closed("said"))
        await on.client.until("response.output_item.done", lane="a")
        engine.kill()
        await answer(exchange, reply("said")[-1:])
        ended = await on.client.ended("a")
        assert ended["status"] == "failed"
        assert ended["error"]["code"] == "server_error"
        assert ended["output"][0]["content"][0]["text"] == "said"
        await on.client.create("b", conversation=name)
        refused = await on.client.error("b")
        assert (refused["status"], refused["error"]["code"]) == (503, "store_unavailable")
        status, refused = await ask(on, "GET", f"/{name}")
        assert (status, refused["error"]["code"]) == (503, "store_unavailable")
        on.errors.clear()
