"""SHELL: what is not the gateway's own goes to an upstream as it is (protocol.md 7)."""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from starlette.routing import Match, Route

from gateway.client.large_frames import LARGE
from gateway.config.configured_upstreams import default_model
from gateway.config.passed_paths import STATELESS, is_below, relative
from gateway.http.keyed import check_is_key, key_of
from gateway.http.passed_answers import PassedAnswer
from gateway.http.passed_bodies import read_beginning
from gateway.http.passed_headers import sent_headers
from gateway.upstream.transport.http.outgoing import OutgoingRequest
from lanes.cpu_thread import run_in_cpu_thread
from lanes.errors import ClientFault
from lanes.quota import NO_LIMITS

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from starlette.requests import Request
    from starlette.types import ASGIApp, Scope

    from gateway.client.auth import Headers
    from gateway.config.settings import Settings
    from gateway.http.answers import Wires
    from gateway.http.running import RunningResponses
    from gateway.limits.tenants import TenantLimits
    from gateway.upstream.routing.router import Router

    Answer = Callable[[str, Request], Awaitable[ASGIApp]]
    Endpoint = Callable[[Request], Awaitable[ASGIApp]]

_METHODS: Final = ("GET", "POST", "PUT", "PATCH", "DELETE")
_QUERY: Final = re.compile(rb"[\x21\x22\x24-\x7e]*")


class Passthrough:
    """Sends requests on to the upstream of their model, or else to the default one.

    Args:
        upstreams: All upstreams.
        running: What runs for HTTP.
        wires: Find the clients' connections.
        relayed: Picks the headers that upstreams may see.
        settings: The gateway's.
        limits: How much each tenant may do.
    """

    def __init__(
        self,
        upstreams: Router,
        running: RunningResponses,
        wires: Wires,
        relayed: Callable[[Headers], dict[str, str]],
        settings: Settings,
        limits: TenantLimits,
    ) -> None:
        self._limits = limits
        self._upstreams = upstreams
        self._running = running
        self._wires = wires
        self._relayed = relayed
        self._most = settings.max_frame_bytes
        self._default_model = default_model(settings)
        self._prefixes = settings.passthrough

    def routes(self, keyed: Callable[[Answer], Endpoint]) -> list[Route]:
        """Return the routes; `keyed` makes an endpoint of what answers a request of a key."""
        endpoint = keyed(self._answer)
        exact = [one for one in self._prefixes if one in STATELESS]
        others = [one for one in self._prefixes if one not in STATELESS]
        routes = [_PassedRoute(one.__eq__, endpoint, ["POST"]) for one in exact]
        return [
            *routes,
            *(_PassedRoute(partial(_below, one), endpoint, list(_METHODS)) for one in others),
        ]

    async def _answer(self, key_id: str, request: Request) -> ASGIApp:
        self._running.check()
        path = relative(request.scope["raw_path"])
        assert path is not None, "the route has looked at it"
        if path not in STATELESS:
            check_is_key(request)  # what the backend keeps is its owner's, not for pages
        query: bytes = request.scope["query_string"]
        if not _QUERY.fullmatch(query):
            raise ClientFault("The query has signs that no URL has.", code="invalid_request_error")
        upstreams, headers = self._upstreams, self._relayed(request.scope["headers"])
        key = key_of(request)
        bound = key is not None and key.bound
        matter = upstreams.models_matter or bound
        body = await read_beginning(request, self._most, models_matter=matter)
        if key is not None and bound:
            # What names none may ask for any: it goes where its path leads.
            key.check_model(body.model or self._default_model or "")
        member, name = await upstreams.destination(body.model or self._default_model, headers)
        if body.model is not None and name is not None and name != body.model:
            large = len(body.data) >= LARGE
            body = await run_in_cpu_thread(body.named, name) if large else body.named(name)
        sent = sent_headers(request.scope["headers"], headers, unpacked=body.json)
        outgoing = OutgoingRequest(
            request.method, f"/{path}", query.decode(), sent, body.data, body.length
        )
        # Others than POST look something up, and ask no model.
        quota = self._limits.of(key_id) if request.method == "POST" else NO_LIMITS
        return PassedAnswer(
            outgoing, member.pass_on, self._wires, self._running, quota, whole=body.whole
        )


class _PassedRoute(Route):
    """A route that looks at a path as it came, before anything in it was decoded.

    Args:
        allows: Decides about a path below /v1/.
        endpoint: Answers.
        methods: What else it takes is 405.
    """

    def __init__(
        self, allows: Callable[[str], bool], endpoint: Endpoint, methods: list[str]
    ) -> None:
        super().__init__("/v1/{path:path}", endpoint, methods=methods)
        self._allows = allows

    def matches(self, scope: Scope) -> tuple[Match, Any]:
        """Return whether it takes the request, or only its path (see `Route.matches`)."""
        if scope["type"] == "http":
            path = relative(scope.get("raw_path") or scope["path"].encode())
            if path is not None and self._allows(path):
                return super().matches(scope)
        return Match.NONE, {}


def _below(prefix: str, path: str) -> bool:
    return is_below(path, prefix)
