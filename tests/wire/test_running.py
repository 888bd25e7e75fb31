"""What goes on without its client, until the gateway ends."""

from __future__ import annotations

import anyio
import anyio.lowlevel

from gateway.http.running import RunningResponses


async def test_it_has_ended_once_that_is_closed() -> None:
    """Else it would ask the store while that closes, and leave a connection to it open."""
    begun, ended = anyio.Event(), anyio.Event()

    async def goes_on() -> None:
        try:
            begun.set()
            await anyio.sleep_forever()
        finally:
            with anyio.CancelScope(shield=True):  # as a call to the store that takes its time
                await anyio.lowlevel.checkpoint()
            ended.set()

    running = RunningResponses()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(running.run)
        await anyio.lowlevel.checkpoint()
        running.start(goes_on)
        await begun.wait()
        await running.aclose()
        assert ended.is_set()
        await running.aclose()


async def test_one_that_never_ran_is_closed() -> None:
    await RunningResponses().aclose()
