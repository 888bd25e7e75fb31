"""What is written of steers when the gateway is killed, in every state they can be in."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any
from urllib.request import urlopen

import anyio
import anyio.to_thread

from tests.support.calling import called_out, calling
from tests.support.client import connect
from tests.support.gateway_stand import Stand
from tests.support.hang_guard import HANG
from tests.support.serve_process import Process, process
from tests.support.steered import talking

if TYPE_CHECKING:
    from pathlib import Path

#: An owner is given up 15 s after its last sign of life, by one that has lived for 5.
GONE = ("dropped", "owner_gone", None)


async def told(own: Process, steer: str) -> tuple[str, str | None, str | None]:
    """What this gateway says became of a steer."""

    def ask() -> dict[str, Any]:
        with urlopen(f"{own.url}/steers/{steer}", timeout=HANG) as answer:
            found: dict[str, Any] = json.load(answer)
            return found

    record = await anyio.to_thread.run_sync(ask)
    return record["state"], record["reason"], record["successor_id"]


async def until(own: Process, steer: str, *states: str) -> tuple[str, str | None, str | None]:
    """Ask until it is in one of the states."""
    with anyio.fail_after(120):
        while (found := await told(own, steer))[0] not in states:  # noqa: ASYNC110
            await anyio.sleep(0.1)
    return found


async def test_every_record_tells_the_truth(tmp_path: Path) -> None:
    options = ("--state-dir", str(tmp_path / "state"), "--model", "m")
    async with (
        process(tmp_path, *options) as own,
        connect(own.url, judged=False) as client,
    ):
        on = Stand(own.fake, client, own.url, [])
        steers = {}
        for lane in ("bound", "committed"):
            parent = await talking(on, lane)
            steers[lane] = await parent.steer()
            await parent.ended("steered")
            if lane == "bound":
                await own.fake.next()  # the successor was asked for, and no more
        successor = await parent.follows()
        accepted = await calling(on, "accepted")
        steers["accepted"] = await accepted.steer()
        pending = await calling(on, "pending")
        steers["pending"] = await pending.steer()
        await called_out(pending)
        for lane, steer in steers.items():
            assert (await until(own, steer, lane))[0] == lane
        own.child.kill()
        own.child.wait()
    async with process(tmp_path, *options) as again:
        whole = ("committed", None, successor.id)
        assert await told(again, steers["committed"]) == whole
        for lane in ("accepted", "pending", "bound"):
            assert await until(again, steers[lane], "dropped") == GONE
        assert await told(again, steers["committed"]) == whole
