"""SHELL: creates with an `Idempotency-Key`: sent again, they get the same response (D31).

Such a create runs to its end whether or not its client stays: the client has said that it may come
back for it. While it runs, this process has its events; once it is over, every process has its
response object.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import anyio

from gateway.http.answers import StreamedAnswer, WholeAnswer
from gateway.http.claiming import Claiming, other_request
from gateway.http.event_log import EventLog, LogFollower
from lanes.errors import Fault, own_fault
from lanes.stores.background import ended_with_its_process

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from starlette.types import ASGIApp

    from gateway.http.answers import Wires
    from gateway.http.claiming import IdempotentRequest
    from gateway.http.running import RunningResponses
    from lanes.frames import Create
    from lanes.stores.claims import Claim, ClaimStore
    from lanes.worker import Worker

#: Seconds until another process is asked again for the answer that it is working on.
_POLL = 0.2


class IdempotentCreates:
    """The creates with a key that run in this process, and the claims on those of all processes.

    Args:
        claims: The claims of all processes.
        running: Where they run.
        wires: Find the clients' connections.
    """

    def __init__(self, claims: ClaimStore, running: RunningResponses, wires: Wires) -> None:
        self._claiming = Claiming(claims, running)
        self._running = running
        self._wires = wires
        # By API key and name, as long as they run here.
        self._logs: dict[tuple[str, str], tuple[str, EventLog]] = {}

    async def answer(
        self,
        request: IdempotentRequest,
        create: Create,
        make: Callable[[EventLog], Worker],
        *,
        streams: bool,
    ) -> ASGIApp:
        """Return what answers a create: its own run, one that runs already, or one that is over.

        Args:
            request: Which creates are the same.
            create: The create.
            make: Makes its worker, if it has to be carried.
            streams: Whether the client wants events.
        """
        log = await self._log(request, create, make)
        if streams:
            return StreamedAnswer(LogFollower(log), self._wires)

        async def ended() -> bytes | Fault:
            await log.over.wait()
            return log.fault or log.response

        return WholeAnswer(self._wires, ended)

    async def once(
        self,
        request: IdempotentRequest,
        begin: Callable[[], Awaitable[bytes]],
        lost: Callable[[bytes], Awaitable[bool]],
    ) -> bytes:
        """Return what `begin` returned for the first of all creates that are the same.

        Args:
            request: Which creates are the same.
            begin: Starts a response in the background, and returns its object.
            lost: Tells whether such a response ended with its process, so that another may begin.
        """
        own = request.claim()
        while True:
            claim = await self._claiming.ask(request, own)
            if claim.owner == own.owner:
                break
            if claim.answer is None:
                await self._wait(request)
            elif await lost(claim.answer):
                await self._claiming.release(request, claim)
            else:
                return claim.answer
        fault = None
        async with self._claiming.renewing(request, own):
            try:
                answer = await begin()
            except Fault as refused:
                fault = refused
        if fault is not None:
            await self._claiming.release(request, own)
            raise fault
        await self._claiming.finish(request, replace(own, answer=answer))
        return answer

    async def _log(
        self, request: IdempotentRequest, create: Create, make: Callable[[EventLog], Worker]
    ) -> EventLog:
        own = request.claim()
        while True:
            if request.place in self._logs:
                digest, log = self._logs[request.place]
                if digest != request.digest:
                    raise other_request()
                return log
            claim = await self._claiming.ask(request, own)
            if claim.owner == own.owner:
                return self._start(request, own, create, make)
            if claim.answer is not None:
                return await EventLog.of(claim.answer)
            await self._wait(request)

    async def _wait(self, request: IdempotentRequest) -> None:
        """Wait for another process. Raises Fault if the client leaves or this process stops."""
        await anyio.sleep(_POLL)
        await request.check()
        self._running.check()

    def _start(
        self,
        request: IdempotentRequest,
        claim: Claim,
        create: Create,
        make: Callable[[EventLog], Worker],
    ) -> EventLog:
        log = EventLog()
        self._logs[request.place] = request.digest, log
        worker = make(log)
        log.on_full = partial(worker.stop, own_fault("The response has more events than are kept."))
        self._running.start(self._carry, request, claim, create, worker, log)
        return log

    async def _carry(
        self,
        request: IdempotentRequest,
        claim: Claim,
        create: Create,
        worker: Worker,
        log: EventLog,
    ) -> None:
        try:
            with self._running.running(worker):
                async with self._claiming.renewing(request, claim):
                    await worker.carry(create)
                log.end()
                # A fault is no answer, nor is an end that this process brought about.
                if log.fault is not None or ended_with_its_process(log.response):
                    await self._claiming.release(request, claim)
                else:
                    await self._claiming.finish(request, replace(claim, answer=log.response))
        finally:
            del self._logs[request.place]
