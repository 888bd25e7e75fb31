"""protocol.md 2: what the client sent goes upstream unchanged, by key and by value."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.gateway_stand import answer, stand

VALUES = '0 1 -1 1.0 0.1 1e-9 9223372036854775808 18446744073709551616 true false null "" [] {}'
DEEP = {"a": [{"b": [None, 0, False, "", [], {}, {"c": [[["\u00e9\u6e10\U0001f642"]]]}]}], "": 1}


async def _sent(frame: str) -> bytes:
    """The request body that a create's JSON text becomes."""
    async with stand() as on:
        on.client.judge = None  # it echoes what is asked, and some of that is nonsense
        await on.client.send(frame)
        exchange = await on.fake.next()
        await answer(exchange)
        await on.client.ended(None)
        return bytes(exchange.raw)


def _frame(**extra: Any) -> str:
    return json.dumps({"type": "response.create", "model": "m", "input": "hi", **extra})


async def test_every_kind_of_value_passes_with_its_digits() -> None:
    fields = ",".join(f'"x{n}":{value}' for n, value in enumerate(VALUES.split()))
    raw = (await _sent(_frame()[:-1] + "," + fields + "}")).decode()
    got = json.loads(raw, parse_float=str, parse_int=str)
    for n, value in enumerate(VALUES.split()):
        wanted = json.loads(value, parse_float=str, parse_int=str)
        if value == "1e-9":
            assert float(got[f"x{n}"]) == 1e-9
        else:
            assert got[f"x{n}"] == wanted


@pytest.mark.parametrize("value", [0, False, "", None, [], {}, DEEP])
async def test_unknown_keys_pass_untouched(value: Any) -> None:
    body = json.loads(await _sent(_frame(x_new=value)))
    assert body["x_new"] == value
    assert type(body["x_new"]) is type(value)


@pytest.mark.parametrize(
    "fields",
    [
        {"temperature": 0, "max_output_tokens": 0, "user": "", "reasoning": {}, "include": []},
        {"temperature": 99.5, "max_output_tokens": -1, "user": "x" * 999, "include": ["x_new"]},
        {"reasoning": {"effort": "x_new", "x_new": DEEP}, "text": {"x_new": 1}, "top_p": -1.0},
        {"text": {"format": {"type": "x_new"}}, "tool_choice": "x_new", "service_tier": "x_new"},
        dict.fromkeys(["temperature", "max_output_tokens", "user", "reasoning", "text", "include"]),
    ],
)
async def test_any_value_of_the_right_type_is_the_backends_to_judge(fields: Any) -> None:
    body = json.loads(await _sent(_frame(store=True, **fields)))
    assert {key: body[key] for key in fields} == fields


async def test_keys_that_look_like_ours_pass_where_they_are_not_the_envelope() -> None:
    nested = {"type": "x", "stream_id": "y", "generate": 1, "stream": 2, "store": 3, "event_id": 4}
    body = json.loads(await _sent(_frame(metadata={"stream_id": "m", "type": "t"}, x=nested)))
    assert body["x"] == nested
    assert body["metadata"] == {"stream_id": "m", "type": "t"}


async def test_the_envelope_never_does() -> None:
    body = json.loads(await _sent(_frame(generate=True, event_id="e", stream=False)))
    assert body.keys() == {"model", "input", "stream", "store"}
    assert (body["stream"], body["store"]) == (True, False)


async def test_absent_stays_absent() -> None:
    body = json.loads(await _sent(_frame()))
    assert body.keys() == {"model", "input", "stream", "store"}


@pytest.mark.parametrize("given", ["hi", "", [], [{"role": "user", "content": "hi"}], "absent"])
async def test_a_first_input_goes_as_it_came(given: Any) -> None:
    frame: dict[str, Any] = {"type": "response.create", "model": "m", "prompt": {"id": "p"}}
    if given != "absent":
        frame["input"] = given
    body = json.loads(await _sent(json.dumps(frame)))
    assert body.get("input", "absent") == given


@pytest.mark.parametrize(
    ("model", "sent"), [(None, "own"), ("absent", "own"), ("theirs", "theirs")]
)
async def test_a_default_model_serves_who_names_none(model: str | None, sent: str) -> None:
    async with stand(model="own") as on:
        frame: dict[str, Any] = {"type": "response.create", "input": "hi", "model": model}
        if model == "absent":
            del frame["model"]
        await on.client.send(frame)
        exchange = await on.fake.next()
        assert exchange.body["model"] == sent
        await answer(exchange)
        assert (await on.client.ended())["model"] == sent
