"""Two gateways on one Redis: what one has said, the other knows; one stops, the other serves on."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

import anyio
import pytest
from websockets.exceptions import InvalidStatus

from tests.deploy.town import GATEWAYS, town
from tests.support.client import connect
from tests.support.hang_guard import HANG
from tests.support.judge_response import TERMINALS

if TYPE_CHECKING:
    from pathlib import Path

    from tests.deploy.town import Town
    from tests.support.client import Client, Event

A, B = GATEWAYS
RESTART = (1012, "service restart")


def installed(edge: str) -> None:
    """Skip where there is no such proxy."""
    if edge and shutil.which(edge) is None:
        pytest.skip(f"no {edge} is installed")


async def ended(client: Client, lane: str | None = None) -> Event:
    """The response of the next terminal on this lane, which is given time to talk."""
    response: Event = (await client.until(*TERMINALS, lane=lane))[-1]["response"]
    return response


def said(response: Event) -> str:
    """All text of a response."""
    return "".join(
        part["text"]
        for item in response["output"]
        if item["type"] == "message"
        for part in item["content"]
    )


async def asked(client: Client, lane: str | None = None, /, **extra: Any) -> Event:
    """A create, to its end."""
    await client.create(lane, model="rehearse", store=True, **extra)
    response = await ended(client, lane)
    assert response["status"] == "completed", response
    return response


async def begun(client: Client, lane: str | None = None, /, words: int = 200) -> str:
    """A long answer that is being written; its id."""
    text = f"Tell me about tides in {words} words."
    await client.create(lane, model="rehearse", store=True, input=text)
    seen = await client.until("response.output_text.delta", lane=lane)
    response_id: str = seen[0]["response"]["id"]
    return response_id


async def test_a_response_of_one_is_continued_on_the_other(tmp_path: Path) -> None:
    async with town(tmp_path) as here, here.client(A) as on_a, here.client(B) as on_b:
        first = await asked(on_a, "a", input="My boat is called Halcyon.")
        seen = await here.sees(B, f"/v1/responses/{first['id']}", status="completed")
        assert seen["output"] == first["output"]
        second = await asked(on_b, "b", input="And now?", previous_response_id=first["id"])
        assert "Halcyon" in said(second), second
        # And back: the chain goes on where it began, and forks.
        await here.sees(A, f"/v1/responses/{second['id']}")
        for lane in ("a", "c"):
            third = await asked(on_a, lane, input="Go on.", previous_response_id=second["id"])
            assert third["previous_response_id"] == second["id"]
        status, _ = await here.get(B, "/v1/responses/resp_unknown")
        assert status == 404


async def test_a_steer_of_one_is_told_by_the_other(tmp_path: Path) -> None:
    async with town(tmp_path) as here, here.client(A) as on_a, here.client(B) as on_b:
        parent = await begun(on_a, "a")
        await on_a.steer(parent, "Rather about volcanoes, in 20 words.")
        accepted = (await on_a.until("response.steer.accepted", lane="a"))[-1]
        path = f"/v1/steers/{accepted['steer']['id']}"
        status, record = await here.get(B, path)  # it was written down before it was accepted
        assert (status, record["previous_response_id"]) == (200, parent)
        assert (await ended(on_a, "a"))["incomplete_details"] == {"reason": "steered"}
        successor = await ended(on_a, "a")
        assert successor["previous_response_id"] == parent
        record = await here.sees(B, path, state="committed")
        assert record["successor_id"] == successor["id"]
        _, listed = await here.get(B, f"/v1/responses/{parent}/steers")
        assert listed["data"] == [record]
        # Both of them, also the one that was cut short, can be continued there.
        for parent_id in (parent, successor["id"]):
            await here.sees(B, f"/v1/responses/{parent_id}")
            await asked(on_b, input="Go on.", previous_response_id=parent_id)


async def test_one_drains_and_the_other_serves_on(tmp_path: Path) -> None:
    async with (
        town(tmp_path) as here,
        here.client(A) as idle,
        here.client(A) as busy,
        here.client(B) as other,
    ):
        there = await begun(other, "b")
        running = await begun(busy, "a")
        here.stop(A)
        assert await idle.closed() == RESTART
        await refused(here)
        response = await ended(busy, "a")
        assert (response["id"], response["status"]) == (running, "completed")
        assert await busy.closed() == RESTART
        assert await here.ended(A) == 0
        assert "Traceback" not in here.log(A)
        assert (await ended(other, "b"))["id"] == there
        # What the one that is gone has written is there to go on from, and it comes back.
        await asked(other, "b", input="Go on.", previous_response_id=running)
        here.start(A)
        await here.listening(A)
        async with here.client(A) as again:
            await asked(again, input="Go on.", previous_response_id=there)


async def refused(here: Town) -> None:
    """It is draining: it takes no more, and its health says so."""
    with pytest.raises(InvalidStatus) as refusal:
        async with connect(here.url(A)):
            pass
    assert refusal.value.response.status_code == 503
    status, health = await here.get(A, "/health")
    assert (status, health["status"]) == (200, "draining")
    assert (await here.get(A, "/ready?exclude=store"))[0] == 503


@pytest.mark.parametrize("edge", ["haproxy", "nginx"])
async def test_the_edge_spreads_and_goes_round_who_drains(edge: str, tmp_path: Path) -> None:
    installed(edge)
    async with (
        town(tmp_path, edge=edge) as here,
        here.client("edge") as first,
        here.client("edge") as second,
    ):
        counts = [(await here.get(name, "/health"))[1]["connections"] for name in GATEWAYS]
        assert counts == [1, 1]
        clients = [first, second]
        for client in clients:
            await begun(client)
        here.stop(A)
        with anyio.fail_after(HANG):
            while (await here.get(A, "/ready"))[0] != 503:  # noqa: ASYNC110
                await anyio.sleep(0.01)
        # At once, before the edge has noticed it, and then for as long as it drains.
        for _ in range(20):
            async with here.client("edge"):
                pass
        done = [(await ended(client))["status"] for client in clients]
        assert done == ["completed", "completed"]
        assert await here.ended(A) == 0
        closed: list[tuple[int, str]] = []
        for client in clients:
            with anyio.move_on_after(2):
                closed.append(await client.closed())
        assert closed == [RESTART]


@pytest.mark.parametrize("edge", ["", "haproxy", "nginx"])
async def test_the_load_finds_nothing_wrong(edge: str, tmp_path: Path) -> None:
    installed(edge)
    async with town(tmp_path, edge=edge) as here:
        if not edge:
            here.ports["edge"] = here.ports[A]
        here.start("load", "--responses", "2", "--input", "In 20 words, please. {marker}")
        code = await here.ended("load", within=45)
        assert code == 0, here.log("load")
        assert "no violations" in here.log("load")
