"""SHELL: `POST /v1/responses/input_tokens`, what an input would cost (protocol.md 7)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.responses import JSONResponse

from gateway.client.frames import create_of
from gateway.config.configured_upstreams import default_model
from gateway.http.bodies import read_object
from gateway.http.whole_input import whole_input
from gateway.upstream.token_counts import CountedRequest
from lanes.compaction.compactor import Compactor
from lanes.history.archive import KeyArchive

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.requests import Request
    from starlette.types import ASGIApp

    from gateway.client.auth import Headers
    from gateway.config.settings import Settings
    from gateway.upstream.routing.router import Router
    from lanes.history.archive import Archive


class TokenCounts:
    """Asks the backend of a model how many tokens a create would have as its input.

    Args:
        upstreams: All upstreams.
        archive: The stored responses.
        relayed: Picks the headers that upstreams may see.
        settings: The gateway's.
    """

    def __init__(
        self,
        upstreams: Router,
        archive: Archive,
        relayed: Callable[[Headers], dict[str, str]],
        settings: Settings,
    ) -> None:
        self._upstreams = upstreams
        self._archive = archive
        self._relayed = relayed
        self._settings = settings
        self._default_model = default_model(settings)

    async def answer(self, key_id: str, request: Request) -> ASGIApp:
        """Return the count, or raise why there is none."""
        settings = self._settings
        fields, body = await read_object(request, settings.max_frame_bytes, settings.max_chain)
        if fields.get("input") is None:
            fields.pop("input", None)
        create = create_of(fields, len(body), self._default_model)
        archive = KeyArchive(self._archive, key_id)
        parent, before, own = await whole_input(archive, create)
        headers = self._relayed(request.scope["headers"])
        member, model = await self._upstreams.destination(create.body["model"], headers)
        fields = {**create.body, "model": model}
        if parent is not None:
            fields.pop("conversation", None)  # its items are there already
        compactor = Compactor(self._upstreams, archive, headers)
        items = await compactor.context([*before, *own], len(own), fields)
        asked = CountedRequest(fields, items, headers)
        count = await member.count(asked)
        return JSONResponse({"object": "response.input_tokens", "input_tokens": count})
