"""Every form of bad input gets its error event at once, and harms nobody (B55, B57, B60)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from lanes.codec import decode
from tests.support.events import reply
from tests.support.wire_stand import last_text, shape, talking

if TYPE_CHECKING:
    from tests.support.client import Client
    from tests.support.wire_stand import WireStand

HEAD = '{"type":"response.create","stream_id":"a","model":"m","input":"x"'

#: What is no JSON at all, or none that could be passed on.
NOT_JSON: dict[str, str | bytes] = {
    "empty": "",
    "empty, binary": b"",
    "blank": " \r\n\t ",
    "a word": "hello",
    "cut": HEAD,
    "cut in a string": HEAD[:-1],
    "two in one frame": HEAD + "}" + HEAD + "}",
    "a comma too many": HEAD + ",}",
    "single quotes": HEAD.replace('"', "'") + "}",
    "a byte order mark": "\ufeff" + HEAD + "}",
    "a bare control character": HEAD + ',"k":"\n"}',
    "a comment": HEAD + "/* */}",
    "NaN": HEAD + ',"temperature":NaN}',
    "Infinity": HEAD + ',"temperature":Infinity}',
    "-Infinity": HEAD + ',"temperature":-Infinity}',
    "1e999": HEAD + ',"temperature":1e999}',
    "-1e999": HEAD + ',"temperature":-1e999}',
    "5,000 digits": HEAD + f',"seed":{"9" * 5000}}}',
    "a lone surrogate": HEAD + ',"k":"x\\ud83d"}',
    "a lone low surrogate": HEAD + ',"k":"\\ude00x"}',
    "a lone surrogate as a key": HEAD + ',"\\ud83d":1}',
    "100,000 arrays": "[" * 100_000,
    "100,000 arrays, closed": HEAD + ',"k":' + "[" * 100_000 + "]" * 100_000 + "}",
    "100,000 objects": '{"a":' * 100_000,
    "invalid UTF-8": b"\xff\xfe",
    "invalid UTF-8 in a string": HEAD.encode() + b',"k":"\xff"}',
    "a surrogate in UTF-8": HEAD.encode() + b',"k":"\xed\xa0\xbd"}',
    "overlong UTF-8": HEAD.encode() + b',"k":"\xc0\xaf"}',
    "cut UTF-8": HEAD.encode() + b',"k":"\xf0\x9f"}',
    "UTF-16": (HEAD + "}").encode("utf-16"),
    "zeros": bytes(1000),
}
NOT_AN_OBJECT = ["null", "true", "false", "0", "-1.5", '"response.create"', "[]", f"[{HEAD}}}]"]

TYPES: dict[str, tuple[Any, ...]] = {
    "missing_required_parameter": ({}, {"stream_id": "a"}, {"type": None}),
    "invalid_type": ({"type": 42}, {"type": ["response.create"]}, {"type": {}}, {"type": True}),
    "invalid_value": (
        {"type": ""},
        {"type": "response.cancelled"},
        {"type": "response.created"},
        {"type": "Response.create"},
        {"type": "x" * 10_000},
        {"type": "é\u0000\U0001f642"},
        {"type": "session.update", "stream_id": "a"},
    ),
}


async def refused(client: Client, frame: Any) -> tuple[Any, ...]:
    """Send one bad frame; its answer is the very next event."""
    await client.send(frame)
    return shape(await client.event())


async def harmless(stand: WireStand, client: Client, frames: dict[str, Any]) -> dict[str, Any]:
    """Send bad frames while a lane is busy; the busy lane and what is remembered stay whole."""
    parent = await (await stand.lane(client, "a")).ends()
    busy = await stand.lane(client, "a", previous_response_id=parent["id"])
    other = await stand.lane(client, "b")
    answers = {}
    for name, frame in frames.items():
        answers[name] = await refused(client, frame)
        await other.says(name)
    asked = len(stand.fake.exchanges)
    await busy.says("unharmed")
    head = await busy.ends()
    await other.ends()
    again = await stand.lane(client, "a", previous_response_id=head["id"])
    assert len(again.exchange.input) == 5
    await again.ends()
    assert len(stand.fake.exchanges) == asked + 1
    return answers


async def test_what_is_not_json() -> None:
    async with talking() as (stand, client):
        answers = await harmless(stand, client, NOT_JSON)
    assert answers == dict.fromkeys(NOT_JSON, ("invalid_json", 400, None, None))


async def test_what_is_not_an_object() -> None:
    frames = {text: text for text in NOT_AN_OBJECT}
    async with talking() as (stand, client):
        answers = await harmless(stand, client, frames)
    assert answers == dict.fromkeys(frames, ("invalid_request_error", 400, None, None))


@pytest.mark.parametrize("code", TYPES)
async def test_types_that_are_none(code: str) -> None:
    async with talking() as (_, client):
        for frame in TYPES[code]:
            assert await refused(client, frame) == (code, 400, "type", frame.get("stream_id"))
            event = client.transcript[-1]
            assert event["error"]["type"] == "invalid_request_error"
            assert "response.create, response.steer" in event["error"]["message"]
            assert len(event["error"]["message"]) < 500


def deepest() -> int:
    """How deep an array may be that can be read from here; it depends on the Python."""
    low, high = 1, 200_000
    while high - low > 1:
        middle = (low + high) // 2
        try:
            decode(b"[" * middle + b"]" * middle)
        except ValueError:
            high = middle
        else:
            low = middle
    return low


TOOL = '{"type":"function","name":"f","description":null,"strict":false,"parameters":{"k":%s}}'


@pytest.mark.parametrize(
    "place", ['"k":%s', f'"tools":[{TOOL}]', '"input":[{"k":%s}]'], ids=["top", "tool", "item"]
)
async def test_nesting_is_passed_on_or_refused_never_half(place: str) -> None:
    """Wherever the limit is: what was read can be written again."""
    taken = []
    async with talking(lambda _: reply("ok")) as (stand, client):
        limit = deepest()
        for depth in (10, 100, *range(limit - 70, limit + 2)):
            deep = place % ("[" * depth + "]" * depth)
            await client.send(f"{HEAD},{deep}}}")
            last = (await client.until("error", "response.completed"))[-1]
            if last["type"] == "error":
                assert shape(last) == ("invalid_json", 400, None, None), depth
            else:
                taken.append(depth)
                assert b"[" * depth + b"]" * depth in stand.fake.exchanges[-1].raw
    assert taken[:2] == [10, 100]
    assert limit + 1 not in taken


async def test_numbers_keep_their_digits() -> None:
    numbers = "[9223372036854775808,18446744073709551615,-9223372036854775808,0.1,1e2,0,1.5,1e308]"
    async with talking(lambda _: reply("ok")) as (stand, client):
        await client.send(HEAD + f',"k":{numbers}}}')
        await client.ended("a")
        assert stand.fake.exchanges[0].body["k"] == json.loads(numbers)
        assert b"9223372036854775808,18446744073709551615" in stand.fake.exchanges[0].raw


async def test_binary_frames_are_taken_as_text() -> None:
    async with talking(lambda _: reply("ok")) as (stand, client):
        await client.send((HEAD + ',"k":"渐🙂é"}').encode())
        await client.ended("a")
        assert stand.fake.exchanges[0].body["k"] == "渐🙂é"
        assert await refused(client, b"[1]") == ("invalid_request_error", 400, None, None)


async def test_duplicate_keys_what_is_checked_is_what_is_forwarded() -> None:
    async with talking(lambda _: reply("ok")) as (stand, client):
        await client.send(HEAD + ',"stream_id":"b","model":"n","input":"y","k":1,"k":2}')
        await client.ended("b")
        body = stand.fake.exchanges[0].body
        assert (body["model"], body["k"]) == ("n", 2)
        assert last_text(stand.fake.exchanges[0]) == "y"
        for key in (b'"model"', b'"input"', b'"k"'):
            assert stand.fake.exchanges[0].raw.count(key) == 1
        # The last one counts, for the check too.
        for frame, param in (
            (HEAD + ',"store":true,"store":"x"}', "store"),
            (HEAD + ',"model":3}', "model"),
            (HEAD + ',"input":[],"input":7}', "input"),
        ):
            assert await refused(client, frame) == ("invalid_type", 400, param, "a")
        assert await refused(client, HEAD + ',"stream_id":""}') == (
            "invalid_stream_id",
            400,
            "stream_id",
            None,
        )
        assert await refused(client, HEAD + ',"type":"x"}') == ("invalid_value", 400, "type", "a")
        assert len(stand.fake.exchanges) == 1
