"""C57, C58, C59, C60: calls under one id. The client gets others, the backend gets back its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.cases.refusing import Strict
from tests.cases.test_chat import F
from tests.dialects.chatting import body, call, chunk, counted, text
from tests.support import events
from tests.support.gateway_stand import Stand, answer, stand, user

if TYPE_CHECKING:
    from collections.abc import Iterable

Item = dict[str, Any]

TOOLS = [F]


def arguments(value: int) -> str:
    """The arguments of a call."""
    return f'{{"a":{value}}}'


REPEATED = {
    "in pieces": [
        call(0, "f", '{"a":', "c1"),
        call(0, None, "1}"),
        call(1, "f", '{"a":', "c1"),
        call(1, None, "2}"),
    ],
    "whole": [call(0, "f", '{"a":1}', "c1"), call(1, "f", '{"a":2}', "c1")],
    "without an index": [call(None, "f", '{"a":1}', "c1"), call(None, "f", '{"a":2}', "c1")],
    "in one chunk": [
        chunk(
            tool_calls=[
                {
                    "index": at,
                    "id": "c1",
                    "function": {"name": "f", "arguments": arguments(at + 1)},
                }
                for at in range(2)
            ]
        )
    ],
}


def outputs(items: Iterable[Item]) -> list[Item]:
    """The outputs of all calls, the latest first: their order must not matter."""
    return [
        {"type": "function_call_output", "call_id": item["call_id"], "output": item["arguments"]}
        for item in items
        if item["type"] == "function_call"
    ][::-1]


def told(messages: list[Item]) -> list[tuple[str, str]]:
    """The ids of calls and of outputs, with what belongs to them."""
    calls = (one for message in messages for one in message.get("tool_calls", ()))
    made = [(one["id"], one["function"]["arguments"]) for one in calls]
    given = [(one["tool_call_id"], one["content"]) for one in messages if one["role"] == "tool"]
    assert made == given
    return made


async def called(on: Stand, chunks: list[Item], **extra: Any) -> Item:
    reply = [body([*chunks, chunk("tool_calls"), counted()])]
    _, response = await on.turn("a", reply, tools=TOOLS, **extra)
    ids = [item["call_id"] for item in response["output"]]
    assert len({*ids}) == len(ids)
    return response


@pytest.mark.parametrize("form", REPEATED)
@pytest.mark.parametrize("kept", [True, False], ids=["by the gateway", "by the client"])
async def test_a_chat_backend_gets_its_own_id_for_both(form: str, kept: bool) -> None:
    async with stand(dialect="chat") as on:
        first = await called(on, REPEATED[form], input=[user("go")])
        assert first["output"][0]["call_id"] == "c1"
        answered = outputs(first["output"])
        if kept:
            history = {"previous_response_id": first["id"], "input": answered}
        else:
            history = {"input": [user("go"), *first["output"], *answered]}
        exchange = await on.asked("a", tools=TOOLS, **history)
        assert told(exchange.body["messages"]) == [("c1", '{"a":1}'), ("c1", '{"a":2}')]
        await answer(exchange, [body([*text("ok"), chunk("stop"), counted()])])
        await on.client.ended("a")


async def test_a_client_that_keeps_no_mark_is_understood() -> None:
    async with stand(dialect="chat") as on:
        first = await called(on, REPEATED["whole"], input=[user("go")])
        bare = [{k: v for k, v in item.items() if k != "made_by"} for item in first["output"]]
        exchange = await on.asked("a", input=[user("go"), *bare, *outputs(bare)], tools=TOOLS)
        ids = [one for one, _ in told(exchange.body["messages"])]
        assert ids == [item["call_id"] for item in bare]
        await answer(exchange, [body([*text("ok"), chunk("stop"), counted()])])
        await on.client.ended("a")


async def test_ids_that_begin_anew_with_each_answer() -> None:
    """As Kimi's do: `f:0` is the first call of each answer."""
    async with stand(dialect="chat") as on:
        first = await called(on, [call(0, "f", '{"a":1}', "f:0")], input=[user("go")])
        second = await called(
            on,
            [call(0, "f", '{"a":2}', "f:0")],
            previous_response_id=first["id"],
            input=outputs(first["output"]),
        )
        ids = [response["output"][0]["call_id"] for response in (first, second)]
        assert ids[0] == "f:0" != ids[1]
        exchange = await on.asked(
            "a", previous_response_id=second["id"], input=outputs(second["output"]), tools=TOOLS
        )
        assert told(exchange.body["messages"]) == [("f:0", '{"a":1}'), ("f:0", '{"a":2}')]
        await answer(exchange, [body([*text("ok"), chunk("stop"), counted()])])
        await on.client.ended("a")


async def test_an_id_that_comes_after_the_call_was_announced_goes_back() -> None:
    late = [call(0, "f", '{"a":'), call(0, None, "1}", "late")]
    async with stand(dialect="chat") as on:
        first = await called(on, late, input=[user("go")])
        assert first["output"][0]["call_id"] != "late"
        exchange = await on.asked(
            "a", previous_response_id=first["id"], input=outputs(first["output"]), tools=TOOLS
        )
        assert told(exchange.body["messages"]) == [("late", '{"a":1}')]
        await answer(exchange, [body([*text("ok"), chunk("stop"), counted()])])
        await on.client.ended("a")


REFUSALS = [
    "Duplicate value for 'tool_call_id' of 'c1' in messages[2]",
    "invalid params, tool call result does not follow tool call (2013)",
    "tool_call id c1 is duplicated",
]


@pytest.mark.parametrize("words", REFUSALS)
async def test_a_backend_that_refuses_its_own_ids_gets_others(words: str) -> None:
    def rule(request: Item) -> tuple[int, Any] | None:
        ids = [one for one, _ in told(request["messages"])]
        return (400, {"error": {"message": words}}) if len({*ids}) < len(ids) else None

    calls = [
        {"type": "function_call", "call_id": one, "name": "f", "arguments": arguments(at)}
        for at, one in enumerate(("c1", "x"))
    ]
    mark = {"upstream": "default", "dialect": "chat", "call_id": "c1"}
    history = [user("go"), calls[0], {**calls[1], "made_by": mark}, *outputs(calls)]
    backend = Strict(rule)
    async with stand(backend, dialect="chat", retries=0) as on:
        for _ in range(2):
            await on.client.create("a", input=history, tools=TOOLS)
            assert (await on.client.ended("a"))["status"] == "completed"
        assert backend.refused == 1
        assert told(backend.taken[-1]["messages"]) == [("c1", '{"a":0}'), ("c1_2", '{"a":1}')]


@pytest.mark.parametrize("dialect", ["moonshot", "minimax"])
async def test_those_that_are_known_to_refuse_them_never_get_them(dialect: str) -> None:
    async with stand(dialect=dialect) as on:
        first = await called(on, REPEATED["whole"], input=[user("go")])
        exchange = await on.asked(
            "a", previous_response_id=first["id"], input=outputs(first["output"]), tools=TOOLS
        )
        assert told(exchange.body["messages"]) == [("c1", '{"a":1}'), ("c1_2", '{"a":2}')]
        await answer(exchange, [body([*text("ok"), chunk("stop"), counted()])])
        await on.client.ended("a")


def _items() -> list[Item]:
    return [
        events.call("f", arguments(at), "c1", item=f"f{at}", status="completed") for at in (1, 2)
    ]


def _in_turn(items: list[Item]) -> list[bytes]:
    sent = []
    for at, item in enumerate(items):
        begun = {**item, "arguments": "", "status": "in_progress"}
        sent += [events.item_added(begun, at), events.item_done(item, at)]
    return sent


def _at_once(items: list[Item]) -> list[bytes]:
    begun = [{**item, "arguments": "", "status": "in_progress"} for item in items]
    added = [events.item_added(item, at) for at, item in enumerate(begun)]
    return [*added, *(events.item_done(item, at) for at, item in enumerate(items))]


def _ends_alone(items: list[Item]) -> list[bytes]:
    return [events.item_done(item, at) for at, item in enumerate(items)]


@pytest.mark.parametrize("order", [_in_turn, _at_once, _ends_alone])
async def test_a_responses_backend_likewise(order: Any) -> None:
    items = _items()
    reply = [events.created(), *order(items), events.completed(output=items)]
    async with stand(dialect="openai") as on:
        _, first = await on.turn("a", reply, input=[user("go")], tools=TOOLS)
        output = first["output"]
        assert [item["arguments"] for item in output] == ['{"a":1}', '{"a":2}']
        assert output[0]["call_id"] == "c1" != output[1]["call_id"]
        for history in (
            {"previous_response_id": first["id"], "input": outputs(output)},
            {"input": [user("go"), *output, *outputs(output)]},
        ):
            exchange = await on.asked("a", tools=TOOLS, **history)
            sent = [item for item in exchange.input if "call_id" in item]
            assert [item["call_id"] for item in sent] == ["c1"] * 4
            assert not any("made_by" in item for item in sent)
            await answer(exchange)
            await on.client.ended("a")
