"""The faces agree on what each kind of backend sends, on every kind of end, and on who steps in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests import tapes
from tests.support.dialect_reading import dialect_of
from tests.support.events import (
    call_reply,
    closed,
    created,
    data,
    delta,
    event,
    failed,
    in_progress,
    incomplete,
    opened,
    reply,
)
from tests.support.faces import Faces, faces, plain
from tests.support.http_client import posted, requested
from tests.support.several_upstreams import several
from tests.support.tape_mutations import MUTATIONS

if TYPE_CHECKING:
    from tests.support.exchange import Exchange

CREATE: dict[str, Any] = {"model": "m", "input": "hi"}
FORMS: dict[str, dict[str, Any]] = {
    "plain": {},
    "stored": {"store": True, "previous_response_id": "{parent}"},
    "bound": {"conversation": "{new}"},
    "unstored": {"store": False, "include": ["reasoning.encrypted_content"]},
}
LOOK = {"type": "function", "name": "look", "parameters": {"type": "object"}}


async def _everywhere(both: Faces, *forms: str, **fields: Any) -> None:
    for form in forms or FORMS:
        create = {**CREATE, **FORMS[form], **fields}
        await both.agree_later(create, await both.agree(create))


@pytest.mark.parametrize("name", [*tapes.names(), *MUTATIONS])
async def test_what_a_backend_of_each_dialect_sends(name: str) -> None:
    chunks = [tapes.tape(name)] if name.endswith(".sse") else MUTATIONS[name]()
    async with faces(dialect=dialect_of(name).name) as both:
        both.answers(*chunks)
        await _everywhere(both, "plain", "unstored", tools=[LOOK])


ANSWERS: dict[str, list[bytes]] = {
    "a call": call_reply("look", '{"a": 1}'),
    "incomplete": [created(), *opened(), delta("so far"), incomplete()],
    "filtered": [created(), *opened(), delta("so far"), incomplete(reason="content_filter")],
    "failed": [created(), *opened(), delta("so far"), failed()],
    "failed at once": [failed()],
    "broken off": [created(), in_progress(), *opened(), delta("so far")],
    "nothing": [],
    "unreadable": [created(), b"data: {\n\n"],
    "an error inside": [created(), *opened(), event("error", error={"message": "no", "code": "x"})],
    "an error first": [event("error", error={"message": "no", "code": "rate_limit_exceeded"})],
    "another error": [created(), data({"error": {"message": "no", "status": 429}})],
    "two messages": [created(), *opened(), delta("a"), *closed("a"), *opened("m2", 1)],
    "too much": [created(), *opened(), *(delta("x" * 5000) for _ in range(5))],
    "an end twice": [*reply("ok"), *reply("again")],
}


@pytest.mark.parametrize("kind", ANSWERS)
async def test_each_kind_of_end(kind: str) -> None:
    async with faces(max_output_bytes=20_000) as both:
        both.answers(*ANSWERS[kind])
        await _everywhere(both)


@pytest.mark.parametrize("status", [302, 400, 401, 403, 404, 409, 413, 422, 429, 500, 503, 529])
async def test_each_refusal_with_its_headers(status: int) -> None:
    headers = {"retry-after": "7", "x-request-id": "r1", "x-ratelimit-remaining-tokens": "0"}
    error = {"message": "no", "code": "c", "type": "t", "param": "p"}

    async def refuse(exchange: Exchange) -> None:
        await exchange.reply(status, {"error": error}, headers)

    async with faces() as both:
        both.play = refuse
        events = await both.agree(CREATE)
        assert events[0]["type"] == "error"
        if status == 429:
            assert events[0]["error"]["headers"].items() >= headers.items()
        await _everywhere(both)


TABLES: dict[str, dict[str, Any]] = {
    "one": {"dialect": "openai", "models": ["m"], "fallbacks": ["two"]},
    "two": {"dialect": "openai", "models": ["s"], "default": "s"},
}


async def _busy(exchange: Exchange) -> None:
    await exchange.reply(503, {"error": {"message": exchange.body["model"]}})


async def _fails(exchange: Exchange) -> None:
    await exchange.send(event("error", error={"message": "own words", "status": 500}))
    await exchange.end()


async def _answers(exchange: Exchange) -> None:
    await exchange.send(*reply("from the second"))
    await exchange.end()


@pytest.mark.parametrize("first", [_busy, _fails])
@pytest.mark.parametrize("second", [_busy, _fails, _answers])
async def test_who_steps_in(first: Any, second: Any) -> None:
    async with several(TABLES, {"one": first, "two": second}) as of:
        of.client.judge = None
        both = Faces(of["one"])
        events = await both.agree(CREATE)
        assert events[-1]["type"] == ("response.completed" if second is _answers else "error")
        await _everywhere(both, "plain", "bound", "unstored")


async def test_what_was_cancelled() -> None:
    """Only a response in the background can be over HTTP, and its object says so."""

    async def begin(exchange: Exchange) -> None:
        await exchange.send(created(), in_progress(), *opened(), delta("so far"))

    async with faces() as both:
        both.play = begin
        client = both.on.client
        await client.send({"type": "response.create", "stream_id": "a", **CREATE})
        over_socket = await client.until("response.output_text.delta", lane="a")
        await client.send({"type": "response.cancel", "stream_id": "a"})
        over_socket += await client.until("response.incomplete", lane="a")
        body = {**CREATE, "store": True, "background": True, "stream": True}
        async with posted(both.on.url, body) as answer:
            events = await answer.until("response.output_text.delta")
            name = events[0]["response"]["id"]
            async with requested(both.on.url, "POST", f"/responses/{name}/cancel") as cancelled:
                said = await cancelled.json()
            events = await answer.events()
        assert events[-1]["response"] == said
        assert (said["status"], said["incomplete_details"]) == ("cancelled", None)
        as_over_socket = {"status": "incomplete", "incomplete_details": {"reason": "cancelled"}}
        events[-1]["response"] |= as_over_socket
        for seen in over_socket:
            del seen["stream_id"]
        for seen in events:
            seen.get("response", {}).pop("background", None)
        del events[1]  # response.queued
        assert [seen["type"] for seen in events] == [seen["type"] for seen in over_socket]
        last, other = events[-1]["response"], over_socket[-1]["response"]
        del other["background"]
        assert plain([last]) == plain([other])
