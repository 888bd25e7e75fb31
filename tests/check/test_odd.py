"""`multilane check` on backends that do not do all there is, each in its own way."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from gateway.config.upstream_settings import UpstreamSettings
from gateway.tools.check.examination import examine
from gateway.tools.check.findings import ESSENTIAL
from lanes.errors import UpstreamFault
from tests.check.odd import Good, checked, row, rows, said
from tests.support.events import closed, completed, created, data, delta, message, opened, reply

if TYPE_CHECKING:
    from tests.support.exchange import Exchange
    from tests.support.upstream import ScriptedUpstream


async def test_a_good_backend() -> None:
    report = await checked(Good())
    assert rows(report) == {
        "dialect": "yes",
        "models": "yes",
        "text": "yes",
        "events": "yes",
        "usage": "yes",
        "reasoning": "no",
        "reasoning returned": "unknown",
        "tools": "yes",
        "parallel calls": "unknown",
        "tool outputs": "yes",
        "namespace tools": "yes",
        "images": "yes",
        "alternation": "yes",
        "stream_options": "yes",
        "errors": "yes",
        "previous_response_id": "yes",
        "token limit": "yes",
        "at once": "yes",
        "cancel on close": "unknown",
        "replay": "yes",
        "steering": "yes",
    }
    assert report.works
    assert (report.dialect, report.model) == ("vllm", "m1")
    assert row(report, "tools").detail == 'get_weather({"city": "Paris"})'
    # The fakes number their first two events only, and their response objects are short.
    assert set(report.repairs) == {"no_numbers", "thin_snapshots"}


async def test_every_request_is_bounded() -> None:
    backend = Good()
    await checked(backend)
    assert 10 < len(backend.asked) < 25
    streams = [body for body in backend.asked if body.get("stream") and body["input"] != 42]
    assert all(0 < body["max_output_tokens"] <= 512 for body in streams)
    assert all(body["store"] is False for body in streams)


async def test_a_model_that_is_named_is_the_one_that_is_asked() -> None:
    backend = Good()
    report = await checked(backend, default="mine")
    assert report.model == "mine"
    assert {body["model"] for body in backend.asked if body} == {"mine"}


async def test_the_steer_is_made_of_what_was_said() -> None:
    backend = Good()
    await checked(backend)
    asked_with = [body for body in backend.asked if isinstance(body.get("input"), list)]
    [steered] = [body for body in asked_with if "Stop." in said(body)]
    asked, partial, word = steered["input"]
    assert "long story" in str(asked["content"])
    assert partial["role"] == "assistant"
    assert partial["content"][0]["text"] == "word0 word1 word2 "
    assert word["role"] == "user"


def no_images(body: dict[str, Any]) -> tuple[int, Any] | None:
    return (400, {"error": {"message": "no images"}}) if "input_image" in str(body) else None


def no_tools(body: dict[str, Any]) -> tuple[int, Any] | None:
    return (422, {"detail": "tools: not supported"}) if "tools" in body else None


def no_answers(body: dict[str, Any]) -> tuple[int, Any] | None:
    """Refuses the outputs of calls."""
    return (400, {"error": "no tool"}) if "function_call_output" in str(body) else None


def no_reasoning(body: dict[str, Any]) -> tuple[int, Any] | None:
    return (400, {"error": {"message": "no reasoning here"}}) if "reasoning" in body else None


@pytest.mark.parametrize(
    ("refuse", "name", "detail"),
    [
        (no_images, "images", "400: no images"),
        (no_tools, "tools", "422: tools: not supported"),
        (no_answers, "tool outputs", "400: no tool"),
        (no_reasoning, "reasoning", "refused (400: no reasoning here)"),
    ],
)
async def test_what_is_not_essential_may_be_refused(refuse: Any, name: str, detail: str) -> None:
    report = await checked(Good(refuse=refuse))
    found = row(report, name)
    assert (str(found.verdict), found.detail) == ("no", detail)
    assert report.works, "one failing probe stops no other, and lanes do without"


def no_history(body: dict[str, Any]) -> tuple[int, Any] | None:
    """Takes one user message, and nothing that an assistant said."""
    return (400, {"error": {"message": "no history"}}) if "assistant" in str(body) else None


def no_partial(body: dict[str, Any]) -> tuple[int, Any] | None:
    return (400, {"error": {"message": "half"}}) if "Stop." in str(body) else None


@pytest.mark.parametrize(
    ("refuse", "wanting"), [(no_history, {"replay", "steering"}), (no_partial, {"steering"})]
)
async def test_what_is_essential_must_work(refuse: Any, wanting: set[str]) -> None:
    report = await checked(Good(refuse=refuse))
    assert not report.works
    assert {name for name, how in rows(report).items() if how == "no"} & set(ESSENTIAL) == wanting


async def test_without_a_text_little_is_tried() -> None:
    backend = Good(refuse=lambda body: (500, {"error": "broken"}) if body.get("stream") else None)
    report = await checked(backend)
    assert not report.works
    assert row(report, "text").detail == "500: broken"
    assert row(report, "steering").detail == "not tried, as no text came"
    assert rows(report)["errors"] == "yes"
    assert len(backend.asked) == 4, "recognised, text, errors, previous_response_id"


async def test_a_text_in_one_piece_cannot_be_cut() -> None:
    async def answer(exchange: Exchange) -> bool:
        await exchange.send(*reply("all at once"))
        await exchange.end()
        return True

    report = await checked(Good(answer=answer))
    assert rows(report)["text"] == "partly"
    assert rows(report)["steering"] == "partly"
    assert rows(report)["at once"] == "unknown"
    assert report.works


@pytest.mark.parametrize("stubborn", [False, True])
async def test_one_answer_at_a_time(stubborn: bool) -> None:
    report = await checked(Good(turns=True, stubborn=stubborn))
    assert rows(report)["at once"] == "no"
    assert rows(report)["cancel on close"] == ("no" if stubborn else "yes")
    assert report.works


async def test_a_limit_that_is_not_told() -> None:
    async def answer(exchange: Exchange) -> bool:
        if exchange.body["max_output_tokens"] != 16 or "long story" not in said(exchange.body):
            return False
        usage = {"input_tokens": 1, "output_tokens": 16, "total_tokens": 17}
        end = completed(output=[message("cut")], usage=usage)
        await exchange.send(created(), *opened(), delta("cut"), *closed("cut"), end)
        await exchange.end()
        return True

    for owner, told in (
        ("llamacpp", "it says completed; the gateway makes it incomplete"),
        ("vllm", "it says completed, with 16 tokens at a limit of 16"),
    ):
        found = row(await checked(Good(owner=owner, answer=answer)), "token limit")
        assert (str(found.verdict), found.detail) == ("no", told)


async def test_events_that_are_left_out() -> None:
    async def answer(exchange: Exchange) -> bool:
        if "tools" in exchange.body or "long story" in said(exchange.body):
            return False
        words = [delta(word) for word in ("a ", "b ")]
        end = completed(output=[message("a b ")], usage=None)
        await exchange.send(created(), *words, end, data("[DONE]"))
        await exchange.end()
        return True

    report = await checked(Good(answer=answer))
    assert row(report, "events").detail == (
        "without in_progress, output_item.added, content_part.added,"
        " output_text.done, content_part.done, output_item.done"
    )
    assert rows(report)["usage"] == "no"
    assert {"no_in_progress", "unannounced_items", "no_part_added", "no_usage"} <= set(
        report.repairs
    )


@pytest.mark.parametrize(
    ("body", "verdict", "how"),
    [
        ({"id": "resp_a", "object": "response", "output": []}, "no", "silently ignored"),
        ({"error": {"message": "previous_response_id: no"}}, "no", "refused"),
        ({"error": {"message": "stream: must be true"}}, "unknown", "not told"),
    ],
)
async def test_previous_response_id(body: dict[str, Any], verdict: str, how: str) -> None:
    class Own(Good):
        async def __call__(self, exchange: Exchange) -> None:
            if exchange.raw and exchange.body.get("previous_response_id"):
                await exchange.reply(200 if "id" in body else 400, body)
            else:
                await super().__call__(exchange)

    found = row(await checked(Own()), "previous_response_id")
    assert (str(found.verdict), found.detail) == (verdict, f"{how}; the gateway sends the history")


async def test_a_backend_that_hangs_is_left() -> None:
    async def answer(exchange: Exchange) -> bool:
        if "tools" not in exchange.body:
            return False
        await exchange.send(created())
        await exchange.hang()
        return True

    report = await checked(Good(answer=answer), timeout=0.7)
    assert row(report, "tools").detail == "504: There was no end within 0.7 seconds."
    assert report.works


async def test_a_refused_key_is_a_finding() -> None:
    class Closed(Good):
        async def __call__(self, exchange: Exchange) -> None:
            await exchange.reply(401, {"error": {"message": "no such key"}})

    report = await checked(Closed())
    assert (report.dialect, report.works) == (None, False)
    assert [(one.name, str(one.verdict)) for one in report.findings] == [("dialect", "no")]
    assert report.findings[0].detail == "not found out (401: no such key)"


async def test_nobody_there(free: ScriptedUpstream) -> None:
    settings = UpstreamSettings(name="checked", url=free.url)
    with pytest.raises(UpstreamFault) as raised:
        await examine(settings, 5, lambda _: None)
    assert raised.value.message.startswith("The backend could not be reached: ")
