"""The lines about connections, responses and refused upgrades: their fields, and no others."""

from __future__ import annotations

import logging
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from websockets.exceptions import InvalidStatus

from gateway.logs import FIELDS
from tests.support.client import connect
from tests.support.events import closed, completed, created, delta, message, opened
from tests.support.http_client import posted
from tests.support.wire_stand import disconnected, standing
from tests.wire.test_client_secrets import page, refused, value
from tests.wire.test_keys import keyed, named

if TYPE_CHECKING:
    from tests.support.exchange import Exchange

DOCUMENT = Path(__file__).parents[2] / "docs" / "operations.md"
#: As the fake backend counts its tokens.
USAGE = {"input_tokens": 7, "output_tokens": 3, "total_tokens": 10}


class Lines:
    """What the log has of each kind."""

    def __init__(self, caplog: pytest.LogCaptureFixture) -> None:
        self._caplog = caplog

    def __call__(self, event: str) -> list[dict[str, Any]]:
        records = [one for one in self._caplog.records if one.name == "multilane.access"]
        return [getattr(one, FIELDS) for one in records if one.getMessage() == event]


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> Lines:
    caplog.set_level(logging.INFO, logger="multilane")
    return Lines(caplog)


async def answer(exchange: Exchange) -> None:
    done = completed(output=[message("hi")], usage=USAGE)
    await exchange.send(created(), *opened(), delta("hi"), *closed("hi"), done)
    await exchange.end()


def timed(line: dict[str, Any], *names: str) -> dict[str, Any]:
    """The line without its times, which are there."""
    assert all(isinstance(line[name], float) and line[name] >= 0 for name in names), line
    return {name: value for name, value in line.items() if name not in names}


async def test_the_story_of_a_connection(lines: Lines) -> None:
    key = {"authorization": "Bearer sk-1"}
    async with standing(answer, api_keys=("sk-1",)) as stand:
        async with connect(stand.url, headers=key) as client:
            await client.create("a", model="m")
            first = await client.ended("a")
            await client.create("b", model="m", previous_response_id=first["id"])
            second = await client.ended("b")
            await client.create(None, model="m", previous_response_id="resp_none")
            await client.error()
        await disconnected(stand)
    [begun] = lines("connection opened")
    assert begun.keys() == {"connection", "address", "key"}
    assert (begun["connection"], begun["address"]) == (1, "127.0.0.1")
    one, two, refused = lines("response")
    shared = {"connection": 1, "transport": "socket", "key": begun["key"], "model": "m"}
    done = {"upstream": "default", "status": "completed", "input_tokens": 7, "output_tokens": 3}
    assert timed(one, "ms", "first_event_ms") == {**shared, **done, "lane": "a", "id": first["id"]}
    chained = {"lane": "b", "id": second["id"], "previous": first["id"]}
    assert timed(two, "ms", "first_event_ms") == {**shared, **done, **chained}
    missing = {"previous": "resp_none", "status": "refused", "code": "previous_response_not_found"}
    assert refused == {**shared, **missing}
    [ended] = lines("connection closed")
    counts = {"lanes": 3, "responses": 3, "code": 1000, "reason": "client closed"}
    assert timed(ended, "seconds") == {**begun, **counts}


async def test_the_story_of_a_page_whose_key_is_revoked(lines: Lines, tmp_path: Path) -> None:
    async with keyed(tmp_path, named("acme", "sk-a"), max_active=1) as own:
        secret = await value(own.stand.url, "sk-a", models=["m"])
        assert (await refused(own.stand.url, f"{secret}x", None))[0] == 401
        async with page(own.stand.url, secret, None) as client:
            await own.stand.lane(client, "a")
            await client.create("b", model="m")
            await client.create("c", model="other")
            await client.error("c")
            own.write()
            own.reload()
            await client.closed()
        await disconnected(own.stand)
    [wrong] = lines("refused")
    assert (wrong["status"], wrong["code"]) == (401, "invalid_client_secret")
    [begun] = lines("connection opened")
    assert (begun["connection"], begun["key"]) == (1, "acme/client-secret")
    told = [(one["lane"], one["status"], one["code"]) for one in lines("response")]
    assert ("a", "failed", "server_error") in told
    assert all(one["key"] == begun["key"] for one in lines("response"))
    [ended] = lines("connection closed")
    assert (ended["code"], ended["reason"]) == (1008, "API key no longer valid")
    assert timed(ended, "seconds").items() >= begun.items()


async def test_a_response_is_told_alike_on_all_ways(lines: Lines) -> None:
    async with standing(answer) as stand:
        async with connect(stand.url) as client:
            await client.create("a", model="m")
            await client.ended("a")
        async with posted(stand.url, {}) as whole:
            await whole.json()
        async with posted(stand.url, {"stream": True}) as streamed:
            await streamed.events()
        async with posted(stand.url, {"background": True, "stream": True, "store": True}) as later:
            await later.events()
    told = {line["transport"]: line for line in lines("response")}
    assert [line["transport"] for line in lines("response")].count("http") == 2
    ways = ("socket", "http", "background")
    common = [
        {**told[way], "ms": 0, "first_event_ms": 0, "id": "", "transport": ""} for way in ways
    ]
    assert common[0].pop("connection") == 1
    assert common[0].pop("lane") == "a"
    assert common[0] == common[1] == common[2]
    assert "first_event_ms" not in told["background"]  # it begins before the backend is asked


async def test_a_steered_response_and_its_successor(lines: Lines) -> None:
    async with standing() as stand, connect(stand.url) as client:
        lane = await stand.lane(client, "a")
        await lane.says("long")
        first = client.lane("a")[0]["response"]["id"]
        await client.steer(first, "short")
        await client.until("response.steer.accepted", lane="a")
        await answer(await stand.fake.next())
        assert (await client.ended("a"))["status"] == "incomplete"
        second = await client.ended("a")
    steered, successor = lines("response")
    assert (steered["id"], steered["status"], steered["code"]) == (first, "steered", "steered")
    assert "steers" not in steered
    assert (successor["id"], successor["previous"]) == (second["id"], first)
    assert (successor["status"], successor["steers"]) == ("completed", 1)


async def test_a_backend_that_refuses(lines: Lines) -> None:
    async def script(exchange: Exchange) -> None:
        await exchange.reply(400, {"error": {"message": "you said hush", "code": "hush"}})

    async with standing(script) as stand, connect(stand.url) as client:
        await client.create("a")
        await client.error("a")
    [line] = lines("response")
    assert (line["status"], line["code"]) == ("refused", "server_error")


async def test_a_client_that_is_not_let_in(lines: Lines) -> None:
    async with standing(api_keys=("sk-1",)) as stand:
        for _ in range(3):
            with pytest.raises(InvalidStatus):
                async with connect(stand.url):
                    pass
        key = {"authorization": "Bearer sk-1"}
        with pytest.raises(InvalidStatus):
            async with connect(stand.url + "/other", headers=key):
                pass
        origin = {**key, "origin": "https://elsewhere.example"}
        with pytest.raises(InvalidStatus):
            async with connect(stand.url, headers=origin):
                pass
    told = [(line["status"], line["code"]) for line in lines("refused")]
    assert told == [(401, "missing_api_key"), (404, "not_found"), (403, "origin_not_allowed")]
    assert all(line["address"] == "127.0.0.1" for line in lines("refused"))
    assert lines("connection opened") == []


async def test_the_address_that_a_trusted_proxy_names(lines: Lines) -> None:
    named = {"x-forwarded-for": "203.0.113.7"}
    for trusted in ((), ("127.0.0.1",)):
        async with standing(trusted_proxy=trusted) as stand, connect(stand.url, headers=named):
            pass
    distrusted, believed = lines("connection opened")
    assert "forwarded" not in distrusted
    assert (believed["address"], believed["forwarded"]) == ("127.0.0.1", "203.0.113.7")


@pytest.mark.parametrize(
    ("how", "code", "reason"),
    [
        ("drop", 1006, "connection lost"),
        ("stop", 1012, "service restart"),
        ("garbage", 1002, "protocol error"),
        ("words", 1000, "client closed"),
    ],
)
async def test_why_a_connection_ended(how: str, code: int, reason: str, lines: Lines) -> None:
    async with standing() as stand, connect(stand.url) as client:
        if how == "drop":
            client.abort()
        elif how == "stop":
            stand.server.should_exit = True
            await client.closed()
        elif how == "garbage":
            client.socket.transport.write(b"\xf3\x80\0\0\0\0")
        else:
            await client.socket.close(1000, "my own words")
        await disconnected(stand)
    [line] = lines("connection closed")
    assert (line["code"], line["reason"]) == (code, reason)


@pytest.mark.parametrize(("level", "written"), [("off", False), ("debug", False), ("info", True)])
async def test_the_lines_can_be_turned_off(level: str, written: bool, lines: Lines) -> None:
    async with standing(answer, access_log=level) as stand, connect(stand.url) as client:
        await client.create("a")
        await client.ended("a")
    kinds = ("connection opened", "response", "connection closed")
    assert all(bool(lines(kind)) is written for kind in kinds)


async def test_every_field_is_documented(lines: Lines, caplog: pytest.LogCaptureFixture) -> None:
    told = set()
    for story in (
        test_the_story_of_a_connection,
        test_a_steered_response_and_its_successor,
        test_the_address_that_a_trusted_proxy_names,
        test_a_client_that_is_not_let_in,
    ):
        await story(lines)
        for event in ("connection opened", "connection closed", "response", "refused"):
            told |= {(event, name) for line in lines(event) for name in line}
        caplog.clear()
    section = DOCUMENT.read_text("utf-8").partition("\n## Logs\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| `(\w+)` \| ([^|]+) \|", section, re.MULTILINE)
    listed = {(event, name) for name, events in rows for event in events.strip().split(", ")}
    assert listed - {("refused", "left_out")} == told
