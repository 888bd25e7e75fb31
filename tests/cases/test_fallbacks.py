"""Who steps in for an upstream that is away, busy or failing, and when nobody does (D23)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.support.events import created, data, event, failed, in_progress, reply
from tests.support.exchange import Exchange, hung_up
from tests.support.gateway_stand import answer, said
from tests.support.several_upstreams import several

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from tests.support.several_upstreams import Several

AWAY = "http://127.0.0.1:9/v1"
#: `first` takes m and is stepped in for by two others, each with a name of its own for it.
CHAIN: dict[str, dict[str, Any]] = {
    "first": {"models": ["m"], "fallbacks": ["second", "third"]},
    "second": {"models": ["s"], "default": "s"},
    "third": {"aliases": {"m": "third-m"}, "models": ["t"], "default": "t"},
}


def chain(**first: Any) -> dict[str, dict[str, Any]]:
    return {**CHAIN, "first": {**CHAIN["first"], **first}}


def error_event(**error: Any) -> bytes:
    return event("error", error={"message": "own words", **error})


async def answered(of: Several, by: str, model: str) -> Exchange:
    """That upstream steps in, is asked for that model, and the client gets its answer."""
    exchange = await of.fakes[by].next()
    assert exchange.body["model"] == model
    await answer(exchange, reply(by))
    response = await of.client.ended("a")
    assert response["status"] == "completed"
    assert response["output"][0]["content"][0]["text"] == by
    assert response["model"] == "m"
    assert all(one["type"] != "error" for one in of.client.transcript)
    return exchange


async def test_when_it_cannot_be_reached() -> None:
    async with several(chain(url=AWAY)) as of:
        await of.client.create("a", model="m")
        await answered(of, "second", "s")
        assert of.asked() == {"second": 1, "third": 0}


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 504, 529])
async def test_when_it_answers_that_it_cannot_now(status: int) -> None:
    async with several(CHAIN) as of:
        exchange = await of["first"].asked("a", model="m", input="q")
        await exchange.reply(status, {"error": {"message": "no"}})
        stepped_in = await answered(of, "second", "s")
        assert said(stepped_in) == ["q"]


async def test_when_it_is_silent_before_its_head() -> None:
    async with several(chain(first_byte_timeout=0.8)) as of:
        exchange = await of["first"].asked("a", model="m")
        await answered(of, "second", "s")
        await hung_up(exchange)


async def test_when_it_breaks_off_before_its_head() -> None:
    async with several(CHAIN) as of:
        exchange = await of["first"].asked("a", model="m")
        exchange.reset()
        await answered(of, "second", "s")


@pytest.mark.parametrize("moment", [60.0, -1.0])
async def test_when_its_kept_connection_breaks(
    moment: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may have worked on the request, so it is not asked again; a fallback is asked once."""
    monkeypatch.setattr("gateway.upstream.transport.http.connection.MOMENT", moment)
    async with several(chain(retries=0)) as of:
        await answer(await of["first"].asked("a", model="m"), reply("one"))
        await of.client.ended("a")
        await of.client.create("a", model="m")
        (await of.fakes["first"].next()).reset()
        await answer(await of.fakes["second"].next(), reply("two"))
        assert (await of.client.ended("a"))["output"][0]["content"][0]["text"] == "two"
        assert of.asked() == {"first": 2, "second": 1, "third": 0}


async def test_after_its_own_retries() -> None:
    async with several(chain(retries=2)) as of:
        await of.client.create("a", model="m")
        for _ in range(3):
            await (await of.fakes["first"].next()).reply(503, b"busy")
        await answered(of, "second", "s")
        assert of.asked() == {"first": 3, "second": 1, "third": 0}


FIRST_EVENTS = {
    "error": error_event(code="server_error"),
    "error without a code": error_event(),
    "rate limit": error_event(code="rate_limit_exceeded", type="rate_limit_error"),
    "status": data({"error": {"message": "busy", "code": 503}}),
    "bare": data({"error": "overloaded"}),
    "failed": failed(),
    "unended": data({"error": {"message": "busy", "code": 503}})[:-2],
    "after pings": data("null") + data({"type": "ping"}) + error_event(code="server_error"),
}


@pytest.mark.parametrize("kind", FIRST_EVENTS)
async def test_when_its_first_event_is_an_error(kind: str) -> None:
    async with several(CHAIN) as of:
        exchange = await of["first"].asked("a", model="m")
        await exchange.send(b": hold on\n\n", FIRST_EVENTS[kind])
        if kind == "unended":
            await exchange.end()
        await answered(of, "second", "s")


async def test_when_an_error_comes_a_while_after_a_ping() -> None:
    async with several(CHAIN) as of:
        exchange = await of["first"].asked("a", model="m")
        await exchange.send(data({"type": "ping"}))
        await of["first"].usable("b")
        await exchange.send(error_event(code="server_error"))
        await answered(of, "second", "s")


@pytest.mark.parametrize("how", ["cut", "silent", "empty", "comments"])
async def test_when_nothing_comes_after_its_head(how: str) -> None:
    async with several(chain(first_byte_timeout=0.8)) as of:
        exchange = await of["first"].asked("a", model="m")
        await exchange.head()
        if how == "cut":
            exchange.cut()
        elif how != "silent":
            await exchange.send(b": hold on\n\n" if how == "comments" else b"")
            await exchange.end()
        await answered(of, "second", "s")


async def test_when_none_of_them_says_anything() -> None:
    async with several(CHAIN) as of:
        await of.client.create("a", model="m")
        for fake in of.fakes.values():
            await (await fake.next()).end()
        error = await of.client.error("a")
        assert (error["status"], error["error"]["code"]) == (502, "server_error")
        cut = "The upstream stream was cut off before the response was finished."
        assert error["error"]["message"] == cut
        assert of.asked() == {"first": 1, "second": 1, "third": 1}


@pytest.mark.parametrize(
    "first", [data({"error": {"message": "x", "code": 400}}), failed(code="invalid_prompt")]
)
async def test_not_when_its_first_event_is_about_the_request(first: bytes) -> None:
    async with several(CHAIN) as of:
        exchange = await of["first"].asked("a", model="m")
        await answer(exchange, [first])
        end = (await of.client.until("error", "response.failed", lane="a"))[-1]
        assert end["type"] == ("error" if first.startswith(b"data") else "response.failed")
        assert of.asked() == {"first": 1, "second": 0, "third": 0}


@pytest.mark.parametrize("first", [data("[DONE]"), data([1]), data("<html>")])
async def test_not_when_its_first_event_says_nothing(first: bytes) -> None:
    async with several(CHAIN) as of:
        exchange = await of["first"].asked("a", model="m")
        await answer(exchange, [first])
        assert (await of.client.error("a"))["status"] == 502
        assert of.asked() == {"first": 1, "second": 0, "third": 0}


@pytest.mark.parametrize("status", [400, 401, 403, 404, 409, 413, 422])
async def test_not_for_what_is_the_requests_own_fault(status: int) -> None:
    async with several(CHAIN) as of:
        exchange = await of["first"].asked("a", model="m")
        await exchange.reply(status, {"error": {"message": "no", "param": "x"}})
        error = await of.client.error("a")
        assert (error["status"], error["error"]["message"]) == (status, "no")
        assert of.asked() == {"first": 1, "second": 0, "third": 0}
        await of["first"].turn("a", model="m")


@pytest.mark.parametrize("ends", [Exchange.cut, Exchange.reset, None])
async def test_not_once_a_response_began(ends: Callable[[Exchange], None] | None) -> None:
    async with several(CHAIN) as of:
        exchange = await of["first"].asked("a", model="m")
        await exchange.send(created(), in_progress())
        await of.client.until("response.in_progress", lane="a")
        if ends is None:
            await exchange.send(error_event(code="server_error"))
        else:
            ends(exchange)
        assert (await of.client.ended("a"))["status"] == "failed"
        assert of.asked() == {"first": 1, "second": 0, "third": 0}


async def test_the_next_one_when_the_first_fallback_fails_too() -> None:
    async with several(CHAIN) as of:
        exchange = await of["first"].asked("a", model="m")
        await exchange.reply(503, b"busy")
        await (await of.fakes["second"].next()).reply(429, b"later")
        await answered(of, "third", "third-m")
        assert of.asked() == {"first": 1, "second": 1, "third": 1}


async def test_a_fallbacks_own_fallbacks_are_not_tried() -> None:
    tables: dict[str, dict[str, Any]] = {
        "first": {"models": ["m"], "fallbacks": ["second"]},
        "second": {"models": ["s"], "default": "s", "fallbacks": ["first", "third"]},
        "third": {"default": "t"},
    }
    async with several(tables) as of:
        await (await of["first"].asked("a", model="m")).reply(503, b"busy")
        await (await of.fakes["second"].next()).reply(503, b"busy too")
        error = await of.client.error("a")
        assert (error["status"], error["error"]["message"]) == (503, "busy")
        assert of.asked() == {"first": 1, "second": 1, "third": 0}


async def refuse(status: int, words: str) -> Callable[[Exchange], Awaitable[None]]:
    async def script(exchange: Exchange) -> None:
        await exchange.reply(status, {"error": {"message": words}}, {"retry-after": "30"})

    return script


@pytest.mark.parametrize(
    ("first", "second", "told"),
    [
        (429, 503, (429, "first")),  # its model was asked for, and its headers say when
        (503, 400, (503, "first")),
        (None, 429, (429, "second")),  # it said nothing, so the other's words have to do
        (None, 400, (400, "second")),
        (None, None, (502, "The backend could not be reached")),
    ],
)
async def test_who_tells_the_client_why_nobody_answered(
    first: int | None, second: int | None, told: tuple[int, str]
) -> None:
    tables: dict[str, dict[str, Any]] = {
        "first": {"models": ["m"], "fallbacks": ["second"]},
        "second": {"default": "s"},
    }
    scripts = {}
    for name, status in (("first", first), ("second", second)):
        if status is None:
            tables[name]["url"] = AWAY
        else:
            scripts[name] = await refuse(status, name)
    async with several(tables, scripts) as of:
        await of.client.create("a", model="m")
        error = await of.client.error("a")
        assert error["status"] == told[0]
        assert error["error"]["message"].startswith(told[1])
        assert ("headers" in error["error"]) == (told[0] != 502)
