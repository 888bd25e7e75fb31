"""Who steps in for an upstream that is away, busy or failing, and when nobody does (D23)."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from tests.cases.several import listing, several
from tests.cases.stand import answer, hung_up, said
from tests.cases.steered import began, talking
from tests.fakes.events import created, data, event, failed, in_progress, opened, reply
from tests.fakes.exchange import Exchange

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from tests.cases.several import Several

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
    async with several(chain(first_byte_timeout=0.1)) as of:
        exchange = await of["first"].asked("a", model="m")
        await answered(of, "second", "s")
        await hung_up(exchange)


async def test_when_it_breaks_off_before_its_head() -> None:
    async with several(CHAIN) as of:
        exchange = await of["first"].asked("a", model="m")
        exchange.reset()
        await answered(of, "second", "s")


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
}


@pytest.mark.parametrize("kind", FIRST_EVENTS)
async def test_when_its_first_event_is_an_error(kind: str) -> None:
    async with several(CHAIN) as of:
        exchange = await of["first"].asked("a", model="m")
        await exchange.send(b": hold on\n\n", FIRST_EVENTS[kind])
        if kind == "unended":
            await exchange.end()
        await answered(of, "second", "s")


@pytest.mark.parametrize("how", ["cut", "silent"])
async def test_when_nothing_comes_after_its_head(how: str) -> None:
    async with several(chain(first_byte_timeout=0.1)) as of:
        exchange = await of["first"].asked("a", model="m")
        await exchange.head()
        if how == "cut":
            exchange.cut()
        await answered(of, "second", "s")


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
    tables = {
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


async def test_the_answer_is_read_as_its_own_backend_sends_it() -> None:
    tables = {
        "first": {"models": ["m"], "fallbacks": ["second"]},
        "second": {"models": ["s"], "default": "s", "dialect": "llamacpp", "steerable": False},
    }
    async with several(tables) as of:
        await (await of["first"].asked("a", model="m", temperature=None)).reply(503, b"busy")
        running = await began(of["second"], "a", *opened())
        assert "temperature" not in running.exchange.body
        assert (await running.refused())["code"] == "steering_not_supported"
        running.exchange.cut()


async def test_a_conversation_is_one_backends_own() -> None:
    async with several(CHAIN) as of:
        exchange = await of["first"].asked("a", model="m", conversation="conv_1")
        await exchange.reply(503, b"busy")
        assert (await of.client.error("a"))["status"] == 503
        assert of.asked() == {"first": 1, "second": 0, "third": 0}


async def test_what_a_fallback_is_asked_for() -> None:
    tables: dict[str, dict[str, Any]] = {
        "first": {"models": ["m"], "aliases": {"fast": "m"}, "url": AWAY},
        "pattern": {"models": ["f*"], "default": "d"},
        "meant": {"models": ["m*"], "default": "d"},
        "nothing": {"models": ["x"]},
        "lists": {"default": "d"},
        "plain": {},
    }
    scripts = {"lists": listing("m", others=lambda _: reply("lists"))}
    for name, model in (("pattern", "fast"), ("meant", "m"), ("lists", "d"), ("plain", "m")):
        first = {**tables["first"], "fallbacks": ["nothing", name]}
        async with several({**tables, "first": first}, scripts) as of:
            await of.client.create("a", model="fast")
            if name == "lists":
                response = await of.client.ended("a")
                assert response["model"] == "fast"
                [asked] = [e for e in of.fakes[name].exchanges if "models" not in e.path]
                assert asked.body["model"] == model
                await of.client.create("a", model="fast")  # by now its list has come
                await of.client.ended("a")
                assert of.fakes[name].exchanges[-1].body["model"] == "m"
            else:
                exchange = await of.fakes[name].next()
                while exchange.path.endswith("models"):
                    await exchange.reply(404, b"")
                    exchange = await of.fakes[name].next()
                assert exchange.body["model"] == model
                await answer(exchange)
                await of.client.ended("a")
            assert "nothing" not in {n for n, asked in of.asked().items() if asked}


async def test_the_log_says_once_who_steps_in(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, logger="multilane")
    async with several(CHAIN) as of:
        for _ in range(3):
            await (await of["first"].asked("a", model="m")).reply(503, b"hush")
            await answered(of, "second", "s")
    lines = [one.getMessage() for one in caplog.records if "in place of" in one.getMessage()]
    assert lines == ["second answers in place of first, which answers 503"]
    assert "hush" not in caplog.text


async def test_a_client_that_leaves_takes_the_fallback_with_it() -> None:
    async with several(CHAIN) as of:
        await (await of["first"].asked("a", model="m")).reply(503, b"busy")
        second = await of.fakes["second"].next()
        of.client.abort()
        await hung_up(second)


async def test_a_client_that_leaves_while_the_first_event_is_awaited() -> None:
    async with several(CHAIN) as of:
        exchange = await of["first"].asked("a", model="m")
        await exchange.send(b": hold on\n\n")
        of.client.abort()
        await hung_up(exchange)
        assert of.asked() == {"first": 1, "second": 0, "third": 0}


@pytest.mark.parametrize("size", [1, 7, 4096])
async def test_looking_at_the_first_event_loses_none(size: int) -> None:
    async with several(CHAIN) as of:
        exchange = await of["first"].asked("a", model="m")
        whole = b"".join(reply(*"abcdefgh"))
        for at in range(0, len(whole), size):
            await exchange.send(whole[at : at + size])
        await exchange.end()
        response = await of.client.ended("a")
        assert response["output"][0]["content"][0]["text"] == "abcdefgh"
        assert [e["type"] for e in of.client.lane("a")][:2] == [
            "response.created",
            "response.in_progress",
        ]


async def test_a_steer_is_heard_where_a_fallback_answers() -> None:
    async with several(chain(url=AWAY)) as of:
        parent = await talking(of["second"], "a", model="m")
        await parent.steer("shorter")
        successor = await parent.follows()
        assert successor.exchange.body["model"] == "s"
        await successor.finish()


async def test_the_turn_of_the_first_is_free_while_another_answers() -> None:
    async with several(chain(concurrency=1)) as of:
        await (await of["first"].asked("a", model="m")).reply(503, b"busy")
        second = await of.fakes["second"].next()
        with anyio.fail_after(2):
            first = await of["first"].asked("b", model="m")
        await answer(first)
        await of.client.ended("b")
        await answer(second)
        await of.client.ended("a")
