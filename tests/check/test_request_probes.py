"""What `multilane check` finds out about requests: order, tools, keys, and what goes back."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest

from gateway.config.settings import Settings
from tests.check.odd import Chatty, Good, checked, row, rows, served
from tests.check.test_command import run
from tests.support.events import (
    call_reply,
    completed,
    created,
    in_progress,
    item_added,
    item_done,
    reply,
)
from tests.support.gateway import running

if TYPE_CHECKING:
    from tests.support.exchange import Exchange

NAMES = ("reasoning returned", "namespace tools", "alternation", "stream_options")


def strict(body: dict[str, Any]) -> tuple[int, Any] | None:
    """A template that wants the user and the assistant in turns."""
    items = body.get("messages", body.get("input"))
    roles = [item.get("role") for item in items] if isinstance(items, list) else []
    doubled = any(pair == ("user", "user") for pair in pairwise(roles))
    if doubled or "system" in roles[1:]:
        return 400, {"error": {"message": "roles must alternate user/assistant/user/assistant"}}
    return None


def no_options(body: dict[str, Any]) -> tuple[int, Any] | None:
    wrong = {"loc": ["body", "stream_options"], "type": "extra_forbidden", "msg": "not permitted"}
    return (422, {"detail": [wrong]}) if "stream_options" in body else None


class Refusing(Chatty):
    """A server of Chat Completions that refuses as `refuse` says."""

    async def __call__(self, exchange: Exchange) -> None:
        refused = None
        if exchange.path.endswith("/chat/completions"):
            refused = self.refuse(exchange.body)
        if refused is None:
            await super().__call__(exchange)
        else:
            await exchange.reply(*refused)


@pytest.mark.parametrize("kind", [Good, Refusing])
async def test_alternation(kind: type[Good]) -> None:
    places = () if kind is Refusing else ("/responses",)
    report = await checked(kind(owner="nobody", refuse=strict, places=places))
    found = row(report, "alternation")
    assert str(found.verdict) == "no"
    assert found.detail.endswith("; the gateway puts them in order")
    assert report.works


@pytest.mark.parametrize("kind", [Good, Refusing])
async def test_stream_options(kind: type[Good]) -> None:
    places = () if kind is Refusing else ("/responses",)
    report = await checked(kind(owner="nobody", refuse=no_options, places=places))
    found = row(report, "stream_options")
    assert (str(found.verdict), found.detail) == ("no", "refused; the gateway leaves it out")
    assert report.works


async def test_a_key_for_reasoning_that_is_refused() -> None:
    def refuse(body: dict[str, Any]) -> tuple[int, Any] | None:
        told = {"error": {"message": "property 'reasoning' is unsupported"}}
        return (400, told) if "reasoning" in body else None

    found = row(await checked(Good(refuse=refuse)), "reasoning")
    assert (str(found.verdict), found.detail) == ("no", "refused (reasoning)")


async def test_namespaces_that_are_lost() -> None:
    async def wrong(exchange: Exchange) -> bool:
        if "tools" not in exchange.body or exchange.input[-1].get("type", "message") != "message":
            return False
        await exchange.send(*call_reply("get_weather", '{"city": "Paris"}'))
        await exchange.end()
        return True

    found = row(await checked(Good(answer=wrong)), "namespace tools")
    assert str(found.verdict) == "no"
    found = row(await checked(Good()), "namespace tools")
    assert (str(found.verdict), found.detail) == ("yes", "they are sent by flat names, and called")


def thinking(text: str) -> Any:
    """Reasons about sums, in the clear."""
    part = {"type": "reasoning_text", "text": text}
    item = {"type": "reasoning", "id": "rs_1", "summary": [], "content": [part]}

    async def answer(exchange: Exchange) -> bool:
        if "What is 2 + 3" not in str(exchange.input[-1]):
            return False
        head = [created(), in_progress(), item_added({**item, "content": []}), item_done(item)]
        rest = [event for event in reply("five") if b"created" not in event]
        await exchange.send(*head, *rest[1:-1], completed())
        await exchange.end()
        return True

    return answer


@pytest.mark.parametrize(("dialect", "verdict"), [("vllm", "yes"), ("huggingface", "partly")])
async def test_reasoning_that_goes_back(dialect: str, verdict: str) -> None:
    backend = Good(answer=thinking("I have to add them."))
    report = await checked(backend, dialect=dialect)
    assert rows(report)["reasoning"] == "yes"
    assert rows(report)["reasoning returned"] == verdict
    (asked,) = [body for body in backend.asked if "3 + 4" in str(body)]
    assert ("I have to add" in str(asked)) == (verdict == "yes")


async def test_over_a_websocket(rehearsal: str) -> None:
    """Another gateway is such a backend."""
    async with running(Settings(upstream=rehearsal, dialect="openai")) as url:
        result = await run(url, "--transport", "websocket")
    assert result.exit_code == 0, result.output
    assert "openai (it is reached by WebSocket)" in result.stdout
    for name in NAMES:
        assert f"│ {name} " in result.stdout
    assert "lanes and steering work" in result.stdout


async def test_a_dialect_without_a_websocket_is_refused() -> None:
    async with served(Good()) as url:
        result = await run(url, "--transport", "websocket", "--dialect", "vllm")
    assert result.exit_code == 2
    assert "--transport: backends of dialect vllm do not speak over WebSocket" in result.stderr
