"""Steers with a name of their client's: sent again, each counts once."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from steering.clerk import Clerk
from steering.errors import StoreUnavailable
from tests.support.calling import OUTPUT
from tests.support.client import connect
from tests.support.events import called, closed, completed, message
from tests.support.exchange import hung_up
from tests.support.steered import began, begin, steered, talking, turns

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.support.client import Client, Event
    from tests.support.steered import Running

ANSWERS = ("response.steer.accepted", "response.steer.failed")


@asynccontextmanager
async def extended(url: str, path: str = "/responses?extensions=steering") -> AsyncIterator[Client]:
    async with connect(url, path=path) as client:
        assert client.judge is not None
        client.judge.steers.repeats = True
        yield client


async def sent(client: Client, parent: Running, event_id: Any, value: Any = "s1") -> Event:
    """A steer with a name; the first answer to it."""
    await client.steer(parent.id, value, event_id=event_id)
    return (await client.until(*ANSWERS))[-1]


async def test_a_resend_is_the_same_steer() -> None:
    async with steered() as on, extended(on.url) as client:
        parent = await talking(on, "a", client=client)
        first = await sent(client, parent, "e1")
        successor = await parent.follows()
        again = await sent(client, parent, "e1")
        assert again["steer"] == first["steer"]
        assert again["stream_id"] == "a"
        assert turns(successor.exchange)[2:] == [("user", "s1")]
        await successor.finish()
        assert (await sent(client, parent, "e1"))["steer"] == first["steer"]
        assert len(on.fake.exchanges) == 2


async def test_another_socket_is_told_what_became_of_it() -> None:
    async with steered() as on, extended(on.url) as client, extended(on.url) as other:
        parent = await begin(on, "a", *called("w"), completed(), client=client)
        await parent.ended()
        first = await sent(client, parent, "e1", [{"role": "user", "content": "s1"}])
        assert (await client.until("response.steer.pending"))[-1]["required_input"]
        value = [{"content": "s1", "role": "user"}]
        assert other.judge is not None
        other.judge = None  # it knows nothing of the response
        again = await sent(other, parent, "e1", value)
        assert again["steer"] == first["steer"]
        assert (again["sequence_number"], "stream_id" in again) == (0, False)
        pending = await other.event()
        assert pending["type"] == "response.steer.pending"
        assert [one["call_id"] for one in pending["required_input"]] == ["c1"]
        refused = await sent(other, parent, "e1", "s2")
        assert refused["error"]["code"] == "invalid_input"
        unknown = await sent(other, parent, "e2", value)
        assert unknown["error"]["code"] == "response_not_found"
        await client.create("a", previous_response_id=parent.id, input=[OUTPUT])
        successor = await began(on, "a", client=client)
        await successor.finish()
        await sent(other, parent, "e1", value)
        await other.steer(parent.id, value, event_id="e2")
        assert (await other.event())["type"] == "response.steer.failed"  # and no pending before


async def test_what_failed_fails_again() -> None:
    async with steered(retries=0) as on, extended(on.url) as client, extended(on.url) as other:
        other.judge = None
        parent = await talking(on, "a", client=client)
        first = await sent(client, parent, "e1")
        await (await on.fake.next()).reply(400, {"error": {"message": "no"}})
        [failure] = await parent.failed(first["steer"]["id"])
        for who in (client, other):
            assert (await sent(who, parent, "e1"))["steer"] == first["steer"]
            again = (await who.until("response.steer.failed"))[-1]
            assert again["steer"] == failure["steer"]
            assert again["error"]["code"] == "successor_creation_failed"


async def test_a_dropped_one_says_so() -> None:
    async with steered(steer_boundary="item") as on, extended(on.url) as other:
        other.judge = None
        async with extended(on.url) as client:
            parent = await talking(on, "a", client=client)
            first = await sent(client, parent, "e1")
        await hung_up(parent.exchange)
        await sent(other, parent, "e1")
        while (told := await other.event())["type"] != "response.steer.failed":
            await other.steer(parent.id, "s1", event_id="e1")  # its verdict is written behind
        assert told["steer"] == {**first["steer"], "input": "s1"}
        assert told["error"]["code"] == "response_not_active"


async def test_a_refused_one_leaves_no_name() -> None:
    async with steered() as on, extended(on.url) as client:
        parent = await talking(on, "a", client=client)
        await parent.send(*closed("abc"), completed(output=[message("abc")]))
        await parent.ended()
        for value in ("s1", "s2"):
            refused = await sent(client, parent, "e1", value)
            assert refused["error"]["code"] == "response_already_completed"


async def test_a_resend_before_the_first_is_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    gate, append = anyio.Event(), Clerk.append
    fails = [True]

    async def slow(clerk: Clerk, record: Any) -> None:
        await gate.wait()
        if fails and fails.pop():
            raise StoreUnavailable("away")
        await append(clerk, record)

    monkeypatch.setattr(Clerk, "append", slow)
    async with steered() as on, extended(on.url) as client:
        parent = await talking(on, "a", client=client)
        await client.steer(parent.id, "s1", event_id="e1")
        await client.steer(parent.id, "s1", event_id="e1")
        gate.set()
        first = (await client.until(*ANSWERS))[-1]
        assert first["error"]["code"] == "steering_unavailable"
        assert (await client.until(*ANSWERS))[-1]["type"] == "response.steer.accepted"
        successor = await parent.follows()
        assert turns(successor.exchange)[2:] == [("user", "s1")]
        await successor.finish()


@pytest.mark.parametrize("name", ["", "x" * 65, "a b", "é", 1, True, ["e"], {"e": 1}])
async def test_a_name_of_another_form(name: Any) -> None:
    async with steered() as on, extended(on.url) as client:
        parent = await talking(on, "a", client=client)
        refused = await sent(client, parent, name)
        assert refused["error"]["code"] == "invalid_input"
        assert (await sent(client, parent, None))["type"] == "response.steer.accepted"
        await (await parent.follows()).finish()


@pytest.mark.parametrize("query", ["", "?extensions=", "?extensions=steer", "?steering"])
async def test_without_the_extension_there_is_no_such_key(query: str) -> None:
    async with steered() as on, connect(on.url, path=f"/responses{query}") as client:
        assert client.socket.response is not None
        assert client.socket.response.headers["multilane-extensions"] == "response.cancel"
        parent = await talking(on, "a", client=client)
        for event_id in ("e1", None):
            assert (await sent(client, parent, event_id))["error"]["code"] == "invalid_input"


@pytest.mark.parametrize("query", ["extensions=a,steering", "x=1&extensions=steering"])
async def test_the_extension_is_told(query: str) -> None:
    async with steered() as on, connect(on.url, path=f"/responses?{query}") as client:
        assert client.socket.response is not None
        told = client.socket.response.headers["multilane-extensions"]
        assert told == "response.cancel, steering"
