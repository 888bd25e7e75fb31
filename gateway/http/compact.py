"""SHELL: `POST /v1/responses/compact`, a history made short to go on with (protocol.md 9)."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from gateway.client.frames import client_fault, create_of
from gateway.config.configured_upstreams import default_model
from gateway.http.answers import WholeAnswer
from gateway.http.bodies import read_object
from gateway.http.collector import Collector
from gateway.http.keyed import check_model
from gateway.http.whole_input import whole_input
from lanes.codec import decode, encode
from lanes.compaction.context import opened
from lanes.compaction.plan import plan
from lanes.cpu_thread import run_in_cpu_thread
from lanes.errors import Fault
from lanes.events import new_id
from lanes.history.archive import KeyArchive, translated
from lanes.history.entries import COMPACTION_TRIGGER, input_items
from lanes.stores.packing import THREAD_OVER
from lanes.stores.seals import is_seal
from lanes.stream.backend_errors import failure
from lanes.stream.token_usage import usage

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.requests import Request
    from starlette.types import ASGIApp

    from gateway.client.auth import Headers
    from gateway.http.answers import Wires
    from gateway.http.engine import Engine
    from gateway.http.running import RunningResponses
    from lanes.frames import Create

    Item = dict[str, Any]


class Compactions:
    """Answers each request by a create that ends with a compaction trigger, and is not stored.

    Args:
        engine: Makes the workers.
        running: The responses of this process that run for HTTP.
        wires: Find the clients' connections.
        relayed: Picks the headers that upstreams may see.
    """

    def __init__(
        self,
        engine: Engine,
        running: RunningResponses,
        wires: Wires,
        relayed: Callable[[Headers], dict[str, str]],
    ) -> None:
        self._engine = engine
        self._running = running
        self._wires = wires
        self._relayed = relayed
        self._default_model = default_model(engine.settings)

    async def answer(self, key_id: str, request: Request) -> ASGIApp:
        """Return what answers a request, or raise why it is refused."""
        self._running.check()
        settings = self._engine.settings
        fields, body = await read_object(request, settings.max_frame_bytes, settings.max_chain)
        create = create_of(_triggering(fields), len(body), self._default_model)
        check_model(request, create.body.get("model"))
        headers = self._relayed(request.scope["headers"])

        async def ended() -> bytes | Fault:
            collector = Collector()
            worker = self._engine.worker(key_id, headers, collector)
            with self._running.running(worker):
                await worker.carry(create)
            if collector.fault is not None:
                return collector.fault
            try:
                return await self._compacted(key_id, create, collector.response())
            except Fault as fault:
                return fault.bare()

        return WholeAnswer(self._wires, ended)

    async def _compacted(self, key_id: str, create: Create, body: bytes) -> bytes | Fault:
        """Return what a response comes to, or why it is none. Raises Fault.

        Args:
            key_id: Names the client's key.
            create: The create.
            body: The response object.
        """
        response = decode(body)
        if response["status"] != "completed":
            error = response["error"] or {"code": "server_error", "message": "It was cancelled."}
            return failure(error)
        kept = await self._kept(key_id, create, response["output"])
        made = partial(_compaction, response, kept)
        size = len(body) + sum(map(len, kept))
        return await run_in_cpu_thread(made) if size > THREAD_OVER else made()

    async def _kept(self, key_id: str, create: Create, output: list[Item]) -> list[bytes]:
        """Return the messages that go in front of the item: those that it keeps word for word.

        Args:
            key_id: Names the client's key.
            create: The create.
            output: The response's.
        """
        archive = self._engine.stores.archive
        seal = output[-1].get("encrypted_content") if output else None
        if is_seal(seal):
            with translated():
                content = await archive.seals.open(key_id, seal)
            before = opened(content).before
        else:
            _, inherited, own = await whole_input(KeyArchive(archive, key_id), create)
            planned = await run_in_cpu_thread(plan, [*inherited, *own], goes_on=False)
            before = planned.compacted("").before
        return [bytes(item) for item in before]


def _compaction(response: Item, kept: list[bytes]) -> bytes:
    """Return the object of a compaction.

    Args:
        response: The response that it is made of.
        kept: The messages that go in front of the response's output.
    """
    nothing = {"input_tokens": 0, "output_tokens": 0}
    return encode(
        {
            "id": response["id"],
            "object": "response.compaction",
            "created_at": response["created_at"],
            "output": [*(_message(decode(item)) for item in kept), *response["output"]],
            "usage": response["usage"] or usage(nothing),
        }
    )


def _triggering(fields: Item) -> Item:
    """Return the fields of a create that compacts. Raises ClientFault."""
    if fields.get("conversation") is not None:
        message = "'conversation' is not taken here; use a create with a compaction_trigger."
        raise client_fault(message, "invalid_value", "conversation")
    given = fields.get("input")
    trigger = {"type": COMPACTION_TRIGGER}
    items = [*input_items(given), trigger] if isinstance(given, str | list | None) else given
    if isinstance(given, list) and given and given[-1] == trigger:
        items = given
    ours = {"input": items, "store": False, "background": False, "generate": True}
    return {**fields, **ours}


def _message(item: Item) -> Item:
    """Return a message in the form that messages of an output have."""
    named = {**item, "id": item.get("id") or new_id("msg"), "type": item.get("type", "message")}
    content = item.get("content")
    if isinstance(content, str):
        named["content"] = [{"type": "input_text", "text": content}]
    return {"status": "completed", **named} if named["type"] == "message" else named
