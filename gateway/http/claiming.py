"""SHELL: which requests are the same, and this process's claims on them (D31)."""

from __future__ import annotations

import hashlib
import secrets
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Final

import anyio

from gateway.client.contained import contained
from gateway.client.large_frames import is_large
from lanes.cpu_thread import run_in_cpu_thread
from lanes.errors import ClientFault
from lanes.history.archive import translated
from lanes.stores.claims import CLAIM_TTL, Claim
from steering.errors import StoreUnavailable

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from starlette.requests import Request

    from gateway.http.running import RunningResponses
    from lanes.stores.claims import ClaimStore

#: The header.
IDEMPOTENCY_KEY: Final = "idempotency-key"
_MAX_KEY: Final = 255
#: Seconds between two renewals of a claim.
_RENEWAL: Final = CLAIM_TTL / 3
#: Seconds until a store that is away is asked again.
_AGAIN: Final = 1.0
#: Bytes of answers that wait for the store in this process; beyond them the oldest are forgotten.
MAX_WAITING: Final = 64 * 1024 * 1024


class IdempotentRequest:
    """Which creates are the same: those of one API key, with one key of the client's.

    Args:
        key_id: The API key.
        name: The client's key.
        body: The create as it was sent.
        left: Tells whether the client has left; by default it never does.

    Raises:
        ClientFault: The client's key is none.
    """

    def __init__(
        self, key_id: str, name: str, body: bytes, left: Callable[[], Awaitable[bool]] | None = None
    ) -> None:
        self._left = left
        if not 1 <= len(name) <= _MAX_KEY:
            raise _wrong(f"An Idempotency-Key has 1 to {_MAX_KEY} characters.")
        self.place = key_id, hashlib.sha256(name.encode()).hexdigest()
        self.digest = hashlib.sha256(body).hexdigest()

    @classmethod
    async def of(cls, key_id: str, request: Request, body: bytes) -> IdempotentRequest | None:
        """Return which creates this one is the same as; None if it has no key.

        Args:
            key_id: The API key.
            request: The request.
            body: The create as it was sent.

        Raises:
            ClientFault: Its key is none, or it has several.
        """
        names = request.headers.getlist(IDEMPOTENCY_KEY)
        if not names:
            return None
        if len(names) > 1:
            raise _wrong("A request has one Idempotency-Key at most.")
        made = partial(cls, key_id, names[0], body, request.is_disconnected)
        return await run_in_cpu_thread(made) if is_large(body) else made()

    async def check(self) -> None:
        """Raise ClientFault once the client has left, so that nothing waits for nobody."""
        if self._left is not None and await self._left():
            raise ClientFault("The client has left.", code="cancelled", status=499)

    def claim(self) -> Claim:
        """Return a claim of a new owner."""
        return Claim(secrets.token_hex(8), self.digest)


class Claiming:
    """This process's claims: made, renewed while the work goes on, and ended by an answer or none.

    Args:
        claims: The claims of all processes.
        running: Where what waits for the store runs.
    """

    def __init__(self, claims: ClaimStore, running: RunningResponses) -> None:
        self._claims = claims
        self._running = running
        # The answers that the store has not taken yet.
        self._waiting: dict[tuple[str, str], Claim] = {}

    async def ask(self, request: IdempotentRequest, own: Claim) -> Claim:
        """Return the claim on a request, which is `own` if there was none. Raises Fault.

        Args:
            request: The request.
            own: The claim if there is none.
        """
        claim = self._waiting.get(request.place)
        if claim is None:
            with translated():
                claim = await self._claims.claim(*request.place, own)
        if claim.digest != request.digest:
            raise other_request()
        return claim

    @asynccontextmanager
    async def renewing(self, request: IdempotentRequest, claim: Claim) -> AsyncIterator[None]:
        """Wrap the work on an answer, which must raise nothing but cancellation."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(contained, self._renew, request, claim)
            yield
            tasks.cancel_scope.cancel()

    async def release(self, request: IdempotentRequest, claim: Claim) -> None:
        """Let the next request be carried out; without the store, once the claim has ended."""
        with suppress(StoreUnavailable):
            await self._claims.release(*request.place, claim.owner)

    async def finish(self, request: IdempotentRequest, claim: Claim) -> None:
        """Keep an answer: here until the store has it."""
        try:
            await self._claims.finish(*request.place, claim)
        except StoreUnavailable:
            self._waiting[request.place] = claim
            self._shrink()
            self._running.start(self._finish_later, request, claim)

    async def _finish_later(self, request: IdempotentRequest, claim: Claim) -> None:
        while self._waiting.get(request.place) is claim:
            await anyio.sleep(_AGAIN)
            with suppress(StoreUnavailable):
                await self._claims.finish(*request.place, claim)
                if self._waiting.get(request.place) is claim:
                    del self._waiting[request.place]

    async def _renew(self, request: IdempotentRequest, claim: Claim) -> None:
        while True:
            await anyio.sleep(_RENEWAL)
            with suppress(StoreUnavailable):  # the next time, before the claim ends
                await self._claims.renew(*request.place, claim)

    def _shrink(self) -> None:
        size = sum(len(claim.answer or b"") for claim in self._waiting.values())
        for place, claim in tuple(self._waiting.items()):
            if size <= MAX_WAITING:
                return
            size -= len(claim.answer or b"")
            del self._waiting[place]


def other_request() -> ClientFault:
    """Return the fault of a key that was used for another request."""
    return ClientFault(
        "This Idempotency-Key was used for another request within 24 hours.",
        code="idempotency_key_reused",
        status=422,
        param="Idempotency-Key",
    )


def _wrong(message: str) -> ClientFault:
    return ClientFault(message, code="invalid_value", param="Idempotency-Key")
