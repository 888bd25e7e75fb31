"""SHELL: one request on its way to a backend, and its answer on the way back."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import anyio

from gateway.http.errors import refusal
from gateway.http.passed_headers import returned_headers
from gateway.upstream.transport.faults import backend_fault
from lanes.errors import Fault, UpstreamFault

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from starlette.types import Receive, Scope, Send

    from gateway.http.answers import Wire, Wires
    from gateway.http.running import RunningResponses
    from gateway.upstream.transport.http.outgoing import OutgoingRequest, Upload
    from gateway.upstream.transport.http.reply import HttpReply
    from lanes.quota import Quota

#: Statuses of answers without a body.
_BODILESS: Final = (204, 304)


class PassedAnswer:
    """Sends a request on and its answer back, as they come; cancelled once the client has left.

    Args:
        request: The request, with what was read of its body.
        whole: Whether that is all of its body.
        send: Sends it to the backend.
        wires: Finds the client's connection.
        running: Counts it while it runs.
        quota: How much the client's tenant may do.
    """

    def __init__(
        self,
        request: OutgoingRequest,
        send: Callable[[OutgoingRequest], Awaitable[HttpReply]],
        wires: Wires,
        running: RunningResponses,
        quota: Quota,
        *,
        whole: bool,
    ) -> None:
        self._request = request
        self._whole = whole
        self._send = send
        self._wires = wires
        self._running = running
        self._quota = quota
        self._waiting = anyio.CancelScope()
        self._reply: HttpReply | None = None
        self._stopped: UpstreamFault | None = None

    def stop(self, fault: UpstreamFault) -> None:
        """End it now: the gateway does."""
        self._stopped = fault
        self._waiting.cancel()
        if self._reply is not None:
            self._reply.fail(fault)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Wait for the backend's answer, and relay it."""
        try:
            slot = await self._quota.enter() if self._quota.limited else None
        except Fault as fault:
            await self._refuse(fault.bare(), scope, receive, send)
            return
        try:
            await self._pass(scope, receive, send)
        finally:
            if slot is not None:
                slot.end(None, goes_on=False)

    async def _pass(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._running.running(self):
            async with anyio.create_task_group() as tasks:

                def watch(upload: Upload | None = None) -> None:
                    tasks.start_soon(_read_on, receive, tasks.cancel_scope, upload)

                if self._whole:
                    watch()
                    request = self._request
                else:
                    request = replace(self._request, upload=watch)
                await self._exchange(request, scope, receive, send)
                tasks.cancel_scope.cancel()

    async def _exchange(
        self, request: OutgoingRequest, scope: Scope, receive: Receive, send: Send
    ) -> None:
        try:
            with self._waiting:
                self._reply = await self._send(request)
        except UpstreamFault as fault:
            await self._refuse(fault, scope, receive, send)
            return
        reply = self._reply
        if reply is None:
            assert self._stopped is not None
            await self._refuse(self._stopped, scope, receive, send)
            return
        try:
            await self._answer(reply, scope, receive, send)
        finally:
            reply.close()
            self._reply = None

    async def _refuse(self, fault: Fault, scope: Scope, receive: Receive, send: Send) -> None:
        self._wires.finish(self._wires.of(scope))
        await refusal(fault)(scope, receive, send)

    async def _answer(self, reply: HttpReply, scope: Scope, receive: Receive, send: Send) -> None:
        if (300 <= reply.status < 400 and reply.status not in _BODILESS) or reply.status > 599:
            text = f"The backend answered {reply.status}; redirects are not followed."
            await self._refuse(backend_fault(text), scope, receive, send)
            return
        wire = self._wires.of(scope)
        headers = returned_headers(reply.headers)
        await send({"type": "http.response.start", "status": reply.status, "headers": headers})
        if scope["method"] != "HEAD" and reply.status not in _BODILESS:
            await self._relay(reply, wire)
        self._wires.finish(wire)
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _relay(self, reply: HttpReply, wire: Wire) -> None:
        def write(data: bytes) -> None:
            wire.write(b"%x\r\n%b\r\n" % (len(data), data))

        self._wires.bound(wire, reply.pause, reply.resume)
        reply.start(write)
        try:
            await reply.end()
        except UpstreamFault:
            # An end that looks right would hide that something is missing.
            self._wires.finish(wire)
            wire.cut()
            await anyio.sleep_forever()


async def _read_on(receive: Receive, scope: anyio.CancelScope, upload: Upload | None) -> None:
    """Hand on what the client still sends, and cancel the scope when it has left."""
    while (message := await receive())["type"] != "http.disconnect":
        if upload is not None:
            last = not message.get("more_body", False)
            await upload.send(message.get("body", b""), last=last)
    scope.cancel()
