"""Hosted tools at work are never cut, whatever the boundary."""

from __future__ import annotations

import pytest

from tests.machines.test_run_tools import TOOLS, opened, working
from tests.support.events import data, item_done
from tests.support.exchange import hung_up
from tests.support.steered import begin, steered, turns


@pytest.mark.parametrize("boundary", ["text", "item"])
@pytest.mark.parametrize("kind", TOOLS)
async def test_a_tool_at_work_is_finished_first(kind: str, boundary: str) -> None:
    async with steered(steer_boundary=boundary) as on:
        parent = await begin(on, "a", data(opened(kind)))
        await on.client.until("response.output_item.added", lane="a")
        await parent.steer()
        for step in working(kind):
            await parent.send(data(step), until=step["type"])
        assert not parent.exchange.closed.is_set()
        await parent.send(item_done(opened(kind, status="completed")["item"]))
        [item] = (await parent.ended("steered"))["output"]
        assert (item["type"], item["status"]) == (kind, "completed")
        await hung_up(parent.exchange)
        successor = await parent.follows()
        assert turns(successor.exchange)[1:] == [(kind, ""), ("user", "steer")]
        await successor.finish()
