"""SHELL: lets a request in by its key, and ends it with its key (protocol.md 1, 7)."""

from __future__ import annotations

import asyncio
from contextlib import nullcontext
from typing import TYPE_CHECKING, Final

import anyio
from starlette.responses import JSONResponse

from gateway.client.peers import EXTENSION, show_key
from gateway.client.refusal import UpgradeRefused, error
from gateway.http.errors import refusal
from gateway.keys.client_secrets import SecretKey
from lanes.errors import ClientFault, Fault
from steering.clerk import VerdictNotStored
from steering.errors import StoreUnavailable

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from contextlib import AbstractContextManager

    from starlette.requests import Request
    from starlette.types import ASGIApp, Receive, Scope, Send

    from gateway.client.admission import Admission
    from gateway.keys.ring import End, LiveKey

    #: Answers a request of the owner whose id it gets.
    Answer = Callable[[str, Request], Awaitable[ASGIApp]]

#: Where the scope of a request has the key that let it in, if that has a name.
_KEY: Final = "multilane.key"
#: Seconds for an answer to end by itself once its key does, with an event that says why.
_GRACE: Final = 1.0


class Keyed:
    """Makes endpoints that answer only who shows a key, and turn every fault into an answer."""

    def __init__(self, admission: Admission) -> None:
        self._admission = admission

    def __call__(self, answer: Answer) -> Callable[[Request], Awaitable[ASGIApp]]:
        """Return the endpoint for what answers those who are let in."""

        async def endpoint(request: Request) -> ASGIApp:
            try:
                admitted = await self._admission.admit(request.scope["headers"])
                show_key(request.scope)
                if admitted.key is None:
                    return await answer(admitted.key_id, request)
                request.scope[_KEY] = admitted.key
                return await _while_valid(admitted.key, answer(admitted.key_id, request))
            except UpgradeRefused as refused:
                body = error(refused.code, refused.message, refused.status)
                return JSONResponse(body, refused.status, refused.headers)
            except Fault as fault:
                return refusal(fault)
            except VerdictNotStored as lost:
                return JSONResponse(error("steer_not_stored", str(lost), 503), 503)
            except StoreUnavailable:
                message = "The store of submissions is not available."
                return JSONResponse(error("store_unavailable", message, 503), 503)

        return endpoint


def key_of(request: Request) -> LiveKey | None:
    """Return the key of a request, if it has a name."""
    key: LiveKey | None = request.scope.get(_KEY)
    return key


def check_model(request: Request, model: object) -> None:
    """Raise ClientFault if the key of a request may not ask for this model."""
    key = key_of(request)
    if key is not None:
        key.check_model(model)


def check_is_key(request: Request) -> None:
    """Raise ClientFault if a client secret is shown for what takes an API key."""
    if isinstance(key_of(request), SecretKey):
        message = "A client secret is not enough for this; it takes an API key."
        raise ClientFault(message, code="api_key_required", status=403)


def holding(request: Request, end: End) -> AbstractContextManager[None]:
    """Wrap what `end` ends as soon as the key of a request is no longer valid."""
    key = key_of(request)
    return nullcontext() if key is None else key.holding(end)


async def _while_valid(key: LiveKey, answering: Awaitable[ASGIApp]) -> ASGIApp:
    """Wait for an answer; raise why, if the key ends before there is one."""
    over: list[Fault] = []
    with anyio.CancelScope() as scope:

        def end(fault: Fault) -> None:
            over.append(fault)
            scope.cancel()

        with key.holding(end):
            return _Held(key, await answering)
    raise over[0]


class _Held:
    """An answer under a named key: it is cut if it goes on after the key has ended."""

    def __init__(self, key: LiveKey, answer: ASGIApp) -> None:
        self._key = key
        self._answer = answer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        cuts: list[asyncio.TimerHandle] = []
        wire = (scope.get("extensions") or {}).get(EXTENSION)

        def end(_fault: Fault) -> None:
            if wire is not None:
                cuts.append(asyncio.get_running_loop().call_later(_GRACE, wire.cut))

        try:
            with self._key.holding(end):
                await self._answer(scope, receive, send)
        finally:
            for cut in cuts:
                cut.cancel()
