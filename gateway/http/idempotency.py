"""SHELL: creates with an `Idempotency-Key`: sent again, they get the same response (D31).

Such a create runs to its end whether or not its client stays: the client has said that it may come
back for it. While it runs, this process has its events; once it is over, every process has its
response object.
"""

from __future__ import annotations

import hashlib
import secrets
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import anyio

from gateway.client.contained import contained
from gateway.http.answers import StreamedAnswer, WholeAnswer
from gateway.http.event_log import EventLog, LogFollower
from lanes.errors import ClientFault, Fault, own_fault
from lanes.history.archive import translated
from lanes.stores.claims import CLAIM_TTL, Claim
from steering.errors import StoreUnavailable

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from starlette.types import ASGIApp

    from gateway.http.answers import Wires
    from gateway.http.running import RunningResponses
    from lanes.frames import Create
    from lanes.stores.claims import ClaimStore
    from lanes.worker import Worker

#: The header.
IDEMPOTENCY_KEY = "idempotency-key"
_MAX_KEY = 255
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
        self._claims = claims
        self._running = running
        self._wires = wires
        # By API key and name; one leaves once its answer is kept.
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
        self, request: IdempotentRequest, begin: Callable[[], Awaitable[bytes]]
    ) -> bytes:
        """Return what `begin` returned for the first of all creates that are the same.

        Args:
            request: Which creates are the same.
            begin: Starts a response in the background, and returns its object.
        """
        own = Claim(secrets.token_hex(8), request.digest)
        while True:
            with translated():
                claim = await self._claims.claim(*request.place, own)
            if claim.digest != request.digest:
                raise _other_request()
            if claim.answer is not None:
                return claim.answer
            if claim.owner == own.owner:
                break
            await anyio.sleep(_POLL)
        try:
            answer = await begin()
        except Fault:
            with suppress(StoreUnavailable):  # then the claim ends by itself
                await self._claims.release(*request.place, own.owner)
            raise
        with suppress(StoreUnavailable):
            await self._claims.finish(*request.place, replace(own, answer=answer))
        return answer

    async def _log(
        self, request: IdempotentRequest, create: Create, make: Callable[[EventLog], Worker]
    ) -> EventLog:
        own = Claim(secrets.token_hex(8), request.digest)
        while True:
            digest, log = self._logs.get(request.place, (request.digest, None))
            if log is None:
                with translated():
                    claim = await self._claims.claim(*request.place, own)
                digest = claim.digest
                if claim.owner == own.owner:
                    return self._start(request, own, create, make)
                log = None if claim.answer is None else EventLog.of(claim.answer)
            if digest != request.digest:
                raise _other_request()
            if log is not None:
                return log
            await anyio.sleep(_POLL)

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
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(contained, self._renew, request, claim.owner)
                    await worker.carry(create)
                    tasks.cancel_scope.cancel()
                log.end()
                await self._keep(request, claim, log)
        finally:
            del self._logs[request.place]

    async def _renew(self, request: IdempotentRequest, owner: str) -> None:
        while True:
            await anyio.sleep(CLAIM_TTL / 3)
            try:
                await self._claims.renew(*request.place, owner)
            except StoreUnavailable:
                continue  # the next time, before the claim ends

    async def _keep(self, request: IdempotentRequest, claim: Claim, log: EventLog) -> None:
        """Keep the answer; a fault is none, so the next request is carried out."""
        try:
            if log.fault is not None:
                await self._claims.release(*request.place, claim.owner)
            else:
                finished = Claim(claim.owner, claim.digest, log.response)
                await self._claims.finish(*request.place, finished)
        except StoreUnavailable:
            return  # the claim ends by itself


class IdempotentRequest:
    """Which creates are the same: those of one API key, with one key of the client's.

    Args:
        key_id: The API key.
        name: The client's key.
        body: The create as it was sent.

    Raises:
        ClientFault: The client's key is none.
    """

    def __init__(self, key_id: str, name: str, body: bytes) -> None:
        if not 1 <= len(name) <= _MAX_KEY:
            message = f"An Idempotency-Key has 1 to {_MAX_KEY} characters."
            raise ClientFault(message, code="invalid_value", param="Idempotency-Key")
        self.place = key_id, hashlib.sha256(name.encode()).hexdigest()
        self.digest = hashlib.sha256(body).hexdigest()


def _other_request() -> ClientFault:
    return ClientFault(
        "This Idempotency-Key was used for another request within 24 hours.",
        code="idempotency_key_reused",
        status=422,
        param="Idempotency-Key",
    )
