"""Responses in the background: created, looked at, followed and cancelled in one process."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import anyio
import pytest

from gateway.http import background
from tests.support.events import (
    closed,
    completed,
    created,
    delta,
    failed,
    in_progress,
    message,
    opened,
    reply,
)
from tests.support.exchange import hung_up
from tests.support.hang_guard import HANG
from tests.support.http_client import posted, requested
from tests.support.several_upstreams import several
from tests.support.wire_stand import WireStand
from tests.support.wire_stand import standing as lasting

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractAsyncContextManager

    from tests.support.exchange import Exchange

BACKGROUND: dict[str, Any] = {"background": True, "store": True}
SEALED_ELSEWHERE = {"type": "compaction", "encrypted_content": f"ml1.{'0' * 16}.{'A' * 40}"}


def standing(
    script: Callable[[Exchange], Any] | None = None, **settings: Any
) -> AbstractAsyncContextManager[WireStand]:
    """A gateway that does not wait for long for what a test leaves running."""
    return lasting(script, **{"drain_timeout": 0.2, **settings})


async def create(stand: WireStand, **fields: Any) -> dict[str, Any]:
    """Start a response; it has not begun when this returns."""
    async with posted(stand.url, {**BACKGROUND, **fields}) as answer:
        response: dict[str, Any] = await answer.json()
        assert (answer.status, response["status"]) == (200, "queued"), response
        assert (response["background"], response["output"]) == (True, [])
        return response


async def ask(
    stand: WireStand, method: str, path: str, headers: dict[str, str] | None = None
) -> tuple[int, dict[str, Any]]:
    async with requested(stand.url, method, f"/responses/{path}", headers=headers) as answer:
        return answer.status, await answer.json()


async def reached(stand: WireStand, name: str, *statuses: str) -> dict[str, Any]:
    """Ask until the response has one of these statuses."""
    with anyio.fail_after(HANG):
        while True:
            status, response = await ask(stand, "GET", name)
            assert status == 200, response
            if response["status"] in statuses:
                return response
            await anyio.sleep(0.005)


async def begin(exchange: Exchange) -> None:
    await exchange.send(created(), in_progress(), *opened(), delta("one "))


async def finish(exchange: Exchange) -> None:
    text = "one two"
    await exchange.send(delta("two"), *closed(text), completed(output=[message(text)]))
    await exchange.end()


async def test_a_response_without_a_client() -> None:
    async with standing() as stand:
        first = await create(stand)
        assert await ask(stand, "GET", first["id"]) == (200, first)
        exchange = await stand.fake.next()
        assert "background" not in exchange.body
        await begin(exchange)
        running = await reached(stand, first["id"], "in_progress")
        assert running == {**first, "status": "in_progress"}
        await finish(exchange)
        ended = await reached(stand, first["id"], "completed")
        assert ended["output"][0]["content"][0]["text"] == "one two"
        assert {k: ended[k] for k in ("id", "created_at", "background")} == {
            k: first[k] for k in ("id", "created_at", "background")
        }
        after = await create(stand, previous_response_id=first["id"])
        exchange = await stand.fake.next()
        assert [item["role"] for item in exchange.input] == ["user", "assistant", "user"]
        await finish(exchange)
        await reached(stand, after["id"], "completed")


@pytest.mark.parametrize("begun", [False, True], ids=["queued", "in_progress"])
async def test_cancelled(begun: bool) -> None:
    async with standing() as stand:
        first = await create(stand)
        exchange = await stand.fake.next()
        if begun:
            await begin(exchange)
            await reached(stand, first["id"], "in_progress")
        status, ended = await ask(stand, "POST", f"{first['id']}/cancel")
        assert (status, ended["status"]) == (200, "cancelled")
        assert ended["id"] == first["id"]
        await hung_up(exchange)
        # Asked again, it is the same; by then the store has it.
        for _ in range(2):
            assert await ask(stand, "POST", f"{first['id']}/cancel") == (200, ended)
            assert await ask(stand, "GET", first["id"]) == (200, ended)


async def test_what_is_over_is_not_cancelled() -> None:
    async with standing(lambda _: reply("ok")) as stand:
        first = await create(stand)
        await reached(stand, first["id"], "completed")
        async with posted(stand.url, {"store": True}) as answer:
            other = await answer.json()
        for name in (first["id"], other["id"]):
            status, said = await ask(stand, "POST", f"{name}/cancel")
            assert (status, said["error"]["code"]) == (409, "response_already_completed")
        assert (await ask(stand, "POST", "resp_none/cancel"))[0] == 404


async def test_an_error_of_the_backend_is_of_the_response() -> None:
    async def refuse(exchange: Exchange) -> None:
        await exchange.reply(429, {"error": {"message": "slow down"}})

    async with standing(refuse, retries=0) as stand:
        first = await create(stand)
        ended = await reached(stand, first["id"], "failed")
        assert ended["error"]["code"] == "rate_limit_exceeded"
        assert (await ask(stand, "POST", f"{first['id']}/cancel"))[0] == 409
        async with requested(stand.url, "GET", f"/responses/{first['id']}?stream=true") as answer:
            assert (await answer.events())[-1]["response"] == ended
        assert (await ask(stand, "DELETE", first["id"]))[0] == 200
        assert (await ask(stand, "GET", first["id"]))[0] == 404


async def test_streamed_and_followed_from_any_event() -> None:
    async with standing() as stand:
        async with posted(stand.url, {**BACKGROUND, "stream": True}) as first:
            seen = await first.until("response.queued")
            name = seen[0]["response"]["id"]
            exchange = await stand.fake.next()
            await begin(exchange)
            seen += await first.until("response.output_text.delta")
        path = f"/responses/{name}?stream=true&starting_after={len(seen) - 2}"
        async with requested(stand.url, "GET", path, judged=False) as second:
            assert await second.event() == seen[-1]
            await finish(exchange)
            rest = await second.events()
        async with requested(stand.url, "GET", f"/responses/{name}?stream=true") as third:
            events = await third.events()
        assert events[: len(seen)] == seen
        assert events[len(seen) - 1 :] == rest
        assert events[-1]["type"] == "response.completed"
        last = events[-1]["sequence_number"]
        for after, expected in ((last - 1, events[-1:]), (last, [])):
            path = f"/responses/{name}?stream=true&starting_after={after}"
            async with requested(stand.url, "GET", path, judged=False) as answer:
                assert await answer.events() == expected
        status, said = await ask(stand, "GET", f"{name}?stream=true&starting_after={last + 1}")
        assert (status, said["error"]["param"]) == (400, "starting_after")


async def test_the_events_of_any_stored_response() -> None:
    async with standing(lambda _: reply("hello ", "you")) as stand:
        async with posted(stand.url, {"store": True}) as answer:
            response = await answer.json()
        path = f"/responses/{response['id']}?stream=true"
        async with requested(stand.url, "GET", path) as answer:
            events = await answer.events()
        assert events[-1]["response"] == response
        async with requested(stand.url, "GET", f"{path}&starting_after=3", judged=False) as answer:
            assert await answer.events() == events[4:]
        status, said = await ask(
            stand, "GET", f"{response['id']}?stream=true&starting_after={len(events)}"
        )
        assert (status, said["error"]["param"]) == (400, "starting_after")


async def test_a_cancelled_stream_ends_with_the_object() -> None:
    async with standing() as stand, posted(stand.url, {**BACKGROUND, "stream": True}) as answer:
        name = (await answer.event() or {})["response"]["id"]
        await begin(await stand.fake.next())
        await answer.until("response.output_text.delta")
        _, ended = await ask(stand, "POST", f"{name}/cancel")
        last = (await answer.events())[-1]
        assert (last["type"], last["response"]) == ("response.incomplete", ended)
        assert ended["output"][0]["status"] == "incomplete"


async def test_deleted_while_it_runs() -> None:
    async with standing() as stand:
        first = await create(stand)
        exchange = await stand.fake.next()
        await begin(exchange)
        status, said = await ask(stand, "DELETE", first["id"])
        assert (status, said["deleted"]) == (200, True)
        await hung_up(exchange)
        for method in ("GET", "DELETE"):
            assert (await ask(stand, method, first["id"]))[0] == 404


async def test_deleted_before_its_end_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = anyio.Event()
    finish = background.BackgroundResponses._finish

    async def late(self: Any, run: Any, written: int) -> None:
        await asked.wait()
        await finish(self, run, written)

    monkeypatch.setattr(background.BackgroundResponses, "_finish", late)
    async with standing() as stand:
        first = await create(stand)
        exchange = await stand.fake.next()
        await begin(exchange)
        assert (await ask(stand, "DELETE", first["id"]))[0] == 200
        paths = (first["id"], f"{first['id']}?stream=true", f"{first['id']}/input_items")
        statuses = [(await ask(stand, "GET", path))[0] for path in paths]
        asked.set()
        assert statuses == [404, 404, 404]
        await hung_up(exchange)
        assert (await ask(stand, "GET", first["id"]))[0] == 404


async def test_of_another_key_it_is_not_there() -> None:
    async with standing(api_keys=("sk-one", "sk-two")) as stand:
        one, two = ({"authorization": f"Bearer sk-{name}"} for name in ("one", "two"))
        async with posted(stand.url, BACKGROUND, one) as answer:
            name = (await answer.json())["id"]
        exchange = await stand.fake.next()
        for method, path in (
            ("GET", name),
            ("GET", f"{name}?stream=true"),
            ("POST", f"{name}/cancel"),
            ("DELETE", name),
        ):
            assert (await ask(stand, method, path, two))[0] == 404
        assert (await ask(stand, "GET", name, one))[1]["status"] == "queued"
        await exchange.send(*reply("ok"))
        await exchange.end()


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"store": False}, "store"),
        ({"background": 1}, "background"),
        ({"input": [{"role": "user", "content": "x"}, SEALED_ELSEWHERE]}, "input[1]"),
        ({"input": [{"type": "compaction_trigger"}]}, "input"),
        ({"input": [{"type": "item_reference", "id": "msg_none"}]}, "input"),
    ],
)
async def test_a_create_that_is_none_is_not_queued(fields: dict[str, Any], param: str) -> None:
    async with standing(dialect="chat") as stand:
        for _ in range(2):
            async with posted(stand.url, {**BACKGROUND, **fields}) as answer:
                assert (answer.status, (await answer.json())["error"]["param"]) == (400, param)


async def test_a_model_that_nobody_takes_is_not_queued() -> None:
    tables = {name: {"dialect": "openai", "models": [name]} for name in ("m1", "m2")}
    async with several(tables, {"m2": lambda _: reply("ok")}) as on:
        for model, status in (("m3", 404), ("m2", 200)):
            async with posted(on.url, {**BACKGROUND, "model": model}) as answer:
                said = await answer.json()
                assert answer.status == status, said
                assert status == 200 or said["error"]["code"] == "model_not_found"


@pytest.mark.parametrize(
    ("query", "param"),
    [
        ("stream=maybe", "stream"),
        ("stream=true&starting_after=-1", "starting_after"),
        ("stream=true&starting_after=x", "starting_after"),
        ("starting_after=1", "starting_after"),
        ("include[]=everything", "include"),
    ],
)
async def test_a_query_that_is_none(query: str, param: str) -> None:
    async with standing() as stand:
        status, said = await ask(stand, "GET", f"resp_1?{query}")
        assert (status, said["error"]["param"]) == (400, param)


async def test_a_parent_that_is_not_there_is_an_error_at_once() -> None:
    async with standing() as stand:
        body = {**BACKGROUND, "previous_response_id": "resp_none"}
        async with posted(stand.url, body) as answer:
            error = (await answer.json())["error"]
            assert (answer.status, error["code"]) == (400, "previous_response_not_found")


async def test_so_many_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background, "MAX_RUNNING", 2)
    async with standing() as stand:
        names = [(await create(stand))["id"] for _ in range(2)]
        async with posted(stand.url, BACKGROUND) as answer:
            error = (await answer.json())["error"]
            assert (answer.status, error["code"]) == (429, "too_many_background_responses")
            assert answer.headers["retry-after"]
        await ask(stand, "POST", f"{names[0]}/cancel")
        with anyio.fail_after(HANG):
            status = 429
            while status == 429:
                async with posted(stand.url, BACKGROUND) as answer:
                    status = answer.status
        assert status == 200


async def test_a_gateway_that_stops_lets_it_finish() -> None:
    async with standing(drain_timeout=HANG) as stand:
        await create(stand)
        exchange = await stand.fake.next()
        await begin(exchange)
        stand.server.should_exit = True
        while not stand.server.gateway.census.draining:  # noqa: ASYNC110 - there is no event for it
            await anyio.sleep(0.001)
        async with posted(stand.url, BACKGROUND) as answer:
            assert answer.status == 503
        await finish(exchange)
    assert exchange.ended


async def test_a_stream_that_breaks_off_fails() -> None:
    async with standing(lambda _: [created(), *opened(), delta("one"), failed()]) as stand:
        first = await create(stand)
        ended = await reached(stand, first["id"], "failed")
        assert ended["output"][0]["content"][0]["text"] == "one"


async def test_sent_again_with_an_idempotency_key() -> None:
    headers = {"idempotency-key": "k1"}
    async with standing() as stand:
        async with posted(stand.url, BACKGROUND, headers) as answer:
            first = await answer.json()
        exchange = await stand.fake.next()
        await begin(exchange)
        await reached(stand, first["id"], "in_progress")
        async with posted(stand.url, BACKGROUND, headers) as answer:
            assert await answer.json() == first
        async with posted(stand.url, {**BACKGROUND, "input": "else"}, headers) as answer:
            assert answer.status == 422
        await finish(exchange)
        await reached(stand, first["id"], "completed")
        assert len(stand.fake.exchanges) == 1


async def test_what_was_refused_is_carried_out_when_it_is_sent_again() -> None:
    headers = {"idempotency-key": "k1"}
    async with standing(lambda _: reply("ok")) as stand:
        async with posted(stand.url, {"store": True}) as answer:
            parent = (await answer.json())["id"]
        body = {**BACKGROUND, "input": [{"type": "item_reference", "id": "msg_none"}]}
        for _ in range(2):
            async with posted(stand.url, body, headers) as answer:
                assert answer.status == 400
        body = {**BACKGROUND, "previous_response_id": parent, "stream": True}
        for _ in range(2):
            async with posted(stand.url, body, {"idempotency-key": "k2"}) as answer:
                assert (await answer.events())[-1]["type"] == "response.completed"
        assert len(stand.fake.exchanges) == 2
