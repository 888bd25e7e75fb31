"""A response that calls a tool of its client's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.support.events import call, completed, event, item_added, item_done
from tests.support.steered import Running, begin

if TYPE_CHECKING:
    from tests.support.gateway_stand import Stand

OUTPUT = {"type": "function_call_output", "call_id": "c1", "output": "sunny"}
STUB = {"type": "function_call_output", "call_id": "c1", "name": "w"}
CUSTOM: dict[str, Any] = {"type": "custom_tool_call", "id": "t1", "call_id": "c2", "name": "x"}


async def calling(on: Stand, lane: str | None = "a", **extra: Any) -> Running:
    """A response in the middle of a call's arguments."""
    parent = await begin(on, lane, item_added(call("w", "", status="in_progress")), **extra)
    await on.client.until("response.output_item.added", lane=lane)
    return parent


async def called_out(parent: Running) -> dict[str, Any]:
    """The call is finished, and so is the response."""
    place = {"item_id": "f1", "output_index": 0}
    chunks = [event("response.function_call_arguments.delta", **place, delta="{}")]
    await parent.exchange.send(*chunks, item_done(call("w")), completed("r1", [call("w")]))
    await parent.exchange.end()
    return await parent.ended()
