"""Frames of 64 KiB and more: read aside and in order, as small ones are, or refused (D33)."""

from __future__ import annotations

import asyncio
import http.client
import json
import threading
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from gateway.client.frames import FrameRefusal, read
from gateway.client.large_frames import FrameLimits, read_large
from lanes.cpu_thread import run_in_cpu_thread
from lanes.frames import Cancel, Create
from lanes.history.entries import input_items
from lanes.history.lineage import Lineage, resolve_input
from steering.frames import Steer
from tests.support.client import connect
from tests.support.events import reply
from tests.support.exchange import hung_up
from tests.support.raw_client import frame, raw
from tests.support.wire_stand import disconnected, last_text, shape, standing, talking
from tests.wire.test_bad_fields import BAD, DEEP, VALUES
from tests.wire.test_bad_frames import NOT_AN_OBJECT, NOT_JSON

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


LARGE = "QUJD" * 32_000
MIB = 1 << 20
CREATE = '{"type":"response.create","model":"m","store":false'
LIMITS = FrameLimits(items=1000, steer_bytes=MIB)


def outcome(what: Create | Steer | Cancel | FrameRefusal) -> Any:
    """All that a frame was read as; of a create's input, what the upstream gets."""
    if isinstance(what, FrameRefusal):
        return what.fault.code, what.fault.param, what.stream_id
    if isinstance(what, Steer | Cancel):
        return what
    given = what.body.pop("input", None)
    return what, given if isinstance(given, str) else resolve_input(
        input_items(given), None, Lineage(), conversation=True
    )


def both(data: bytes) -> tuple[Any, Any]:
    return outcome(read_large(data, LIMITS, "default")), outcome(read(data, "default"))


@pytest.mark.parametrize("name", NOT_JSON)
def test_what_is_not_json_is_so_when_it_is_large(name: str) -> None:
    bad = NOT_JSON[name]
    data = bad if isinstance(bad, bytes) else bad.encode()
    large, small = both(data)
    assert large == small
    large, small = both(data.replace(b'"input":"x"', b'"input":[{"k":"%b"}]' % LARGE.encode()))
    assert large == small


@pytest.mark.parametrize("text", NOT_AN_OBJECT)
def test_what_is_not_an_object(text: str) -> None:
    large, small = both(text.encode())
    assert large == small


def frames() -> list[dict[str, Any]]:
    """Frames that are read, or refused for a field."""
    wrong = [{key: value} for key, values in BAD.items() for value in values]
    fields = [*wrong, *(extra for extra, _ in (*DEEP, *VALUES))]
    content = [
        {"type": "input_image", "image_url": LARGE},
        {"type": "input_text", "text": "é\n" * 9000},
    ]
    message = {"role": "user", "content": content}
    fields += [
        {},
        {"input": [message, {"type": "message", "role": "user", "content": "x"}]},
        {"input": LARGE, "instructions": LARGE, "metadata": {"k": "v"}},
        {"input": [], "tools": [{"type": "function", "name": LARGE}], LARGE: {LARGE: LARGE}},
        {"input": None, "stream_id": LARGE},
        {"stream_id": "a", "generate": False, "previous_response_id": LARGE},
        {"input": [{"type": "function_call", "id": LARGE[:9000], "call_id": LARGE[:8000]}]},
        {"type": LARGE},
        {"type": None, "stream_id": "a"},
        {"type": "response.steer", "input": LARGE},
        {"type": "response.steer", "input": [message], "previous_response_id": "resp_1"},
        {"type": "response.cancel", "stream_id": "a"},
        {"type": "response.cancel", "response_id": LARGE, "x": LARGE},
        {"type": "response.cancel", "response_id": [LARGE], "stream_id": "a"},
        {"type": "response.cancel", "stream_id": LARGE},
        {"type": "response.cancelled", "stream_id": "a"},
        {"model": LARGE, "store": LARGE},
    ]
    return [{"type": "response.create", "stream_id": "b", "model": "m", **one} for one in fields]


@pytest.mark.parametrize("fields", frames())
def test_a_large_frame_is_read_as_a_small_one_is(fields: dict[str, Any]) -> None:
    for data in (json.dumps(fields), json.dumps(fields, ensure_ascii=False, indent=1)):
        large, small = both(data.encode())
        assert large == small


TOO_MUCH: dict[str, tuple[str, str, str | None, str | None]] = {
    "arrays": (f'{CREATE},"input":[{"[]," * 3 * MIB}[]]}}', "too_many_values", None, None),
    "one item": (
        f'{CREATE},"stream_id":"a","input":[{{}},{{"k":[{"[]," * 30_000}1]}}]}}',
        *("too_many_values", "input[1]", "a"),
    ),
    "items": (
        f'{CREATE},"stream_id":"a","input":[{"{}," * 30_000}{{}}]}}',
        *("too_many_items", "input", "a"),
    ),
    "metadata": (
        f'{CREATE},"stream_id":"a","metadata":{json.dumps(dict.fromkeys(range(30_000)))}}}',
        *("too_many_values", "metadata", "a"),
    ),
    "tools": (f'{CREATE},"tools":[{"{}," * 30_000}{{}}]}}', "too_many_values", "tools", None),
    "numbers": (f'{CREATE},"input":[{"1234567," * 3 * MIB}1]}}', "too_many_values", None, None),
    "escapes": (
        f'{CREATE},"input":"{chr(92)}u0041{(chr(92) + "u0041") * 3 * MIB}"}}',
        *("too_many_values", None, None),
    ),
    "instructions": (
        f'{CREATE},"stream_id":"a","instructions":"{"x" * 5 * MIB}"}}',
        *("value_too_large", "instructions", "a"),
    ),
    "a steer": (
        f'{{"type":"response.steer","previous_response_id":"r","input":"{"x" * 5 * MIB}"}}',
        *("value_too_large", "input", None),
    ),
}


async def test_what_would_take_too_long_is_refused() -> None:
    async with talking() as (stand, client):
        busy = await stand.lane(client, "a")
        for name, (text, code, param, lane) in TOO_MUCH.items():
            await client.send(text)
            assert shape(await client.event()) == (code, 400, param, lane), name
        await busy.ends()
        assert len(stand.fake.exchanges) == 1


async def test_a_text_of_20_mb() -> None:
    text = "a word " * 3_000_000
    async with talking(lambda _: reply("ok")) as (stand, client):
        await client.create("a", input=text)
        await client.until("response.completed", lane="a")
        assert last_text(stand.fake.exchanges[0]) == text


async def test_as_many_items_as_a_chain_may_have() -> None:
    async with talking(lambda _: reply("ok"), max_chain=3000) as (stand, client):
        items = [{"role": "user", "content": "x" * 30}] * 3000
        await client.create("a", input=items)
        await client.ended("a")
        assert stand.fake.exchanges[0].input == items
        for one_too_many in (items[0], {}):
            await client.create("a", input=[one_too_many] * 3001)
            assert shape(await client.event()) == ("too_many_items", 400, "input", "a")


@asynccontextmanager
async def occupied() -> AsyncIterator[threading.Event]:
    """The thread that reads large frames has something else to do until the event is set."""
    free, begun = threading.Event(), threading.Event()

    def wait() -> None:
        begun.set()
        free.wait(30)

    waiting = asyncio.ensure_future(run_in_cpu_thread(wait))
    try:
        await asyncio.to_thread(begun.wait)
        yield free
    finally:
        free.set()
        await waiting


async def test_what_comes_behind_a_large_frame_waits_and_nobody_else_does() -> None:
    async with talking(lambda _: reply("ok")) as (stand, client), connect(stand.url) as other:
        async with occupied() as free:
            await client.create("a", input=LARGE)
            await client.create("a", input="second")
            await client.send("no JSON")
            await client.create("b", input=[{"role": "user", "content": LARGE + "b"}])
            await client.create("b", input="last")
            for _ in range(3):
                await other.create("a")
                await other.ended("a")
            assert client.transcript == []
            free.set()
        assert (await client.error())["error"]["code"] == "invalid_json"
        for _ in range(2):
            await client.ended("a")
            await client.ended("b")
        said = [last_text(exchange) for exchange in stand.fake.exchanges[3:]]
        assert said.index(LARGE) < said.index("second")
        assert said.index(LARGE + "b") < said.index("last")


async def test_a_client_that_leaves_meanwhile_ends_its_lanes_at_once() -> None:
    async with standing() as stand:
        async with connect(stand.url) as client, occupied() as free:
            lane = await stand.lane(client, "a")
            await client.create("b", input=LARGE)
            client.abort()
            await hung_up(lane.exchange)
            await disconnected(stand)
            free.set()
        assert len(stand.fake.exchanges) == 1


async def test_a_client_that_sends_on_and_on_is_not_read_from() -> None:
    async with standing(lambda _: reply("ok")) as stand, raw(stand.port) as client:
        head = '{"type":"response.create","model":"m","stream_id":"%d","input":"%s"}'
        async with occupied() as free:
            sending = asyncio.ensure_future(
                client.write(b"".join(frame(head % (n, "x" * MIB)) for n in range(30)))
            )
            connected = stand.server.server_state.connections
            while not any(getattr(one, "_held", False) for one in connected):  # noqa: ASYNC110
                await asyncio.sleep(0)
            assert not sending.done()
            free.set()
        ended = 0
        while ended < 30:
            got = await client.frame()
            assert got is not None
            ended += got.event["type"] == "response.completed"
        await sending


async def test_an_image_over_http() -> None:
    async with standing(lambda _: reply("ok")) as stand:
        item = {"role": "user", "content": [{"type": "input_image", "image_url": LARGE}]}
        body = json.dumps({"model": "m", "input": [item]}).encode()
        assert (await posted(stand.port, body))[0] == 200
        assert stand.fake.exchanges[0].input == [item]
        many = b'{"model":"m","input":[%b1]}' % (b"[]," * 200_000)
        status, answer = await posted(stand.port, many)
        assert (status, answer["error"]["code"]) == (400, "too_many_values")


async def posted(port: int, body: bytes) -> tuple[int, Any]:
    """The status and the JSON of a `POST /v1/responses`."""

    def ask() -> tuple[int, Any]:
        connection = http.client.HTTPConnection("127.0.0.1", port)
        try:
            headers = {"content-type": "application/json"}
            connection.request("POST", "/v1/responses", body, headers)
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read())
        finally:
            connection.close()

    return await asyncio.to_thread(ask)
