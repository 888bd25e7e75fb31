"""HTTP routes: creates, stored responses, states of steers, and models (protocol.md 2 to 8)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import DecodeError, Raw
from msgspec.json import Decoder
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from gateway.client.refusal import error
from gateway.http.keyed import Keyed, key_of
from lanes.codec import encode
from steering.errors import SenselessAnswer

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from starlette.requests import Request

    from gateway.client.admission import Admission
    from gateway.client.auth import Headers
    from gateway.http.client_secrets import ClientSecretRequests
    from gateway.http.compact import Compactions
    from gateway.http.conversations import ConversationRequests
    from gateway.http.passthrough import Passthrough
    from gateway.http.responses import ResponseCreation
    from gateway.http.stored import StoredResponses
    from gateway.http.token_counts import TokenCounts
    from gateway.persistence.stores import Stores
    from steering.stores.base import SteerRecord

    #: Lists the models that a client with these headers can ask for.
    Models = Callable[[Headers], Awaitable[list[dict[str, Any]]]]


#: Checks that bytes are JSON, and leaves them as they are.
_json_value = Decoder(Raw)


class HttpRoutes:
    """The routes besides the WebSocket, each limited to what belongs to the request's key.

    Args:
        admission: Checks the key and the origin of each request.
        stores: Holds the responses and the steers.
        models: Lists the models.
        creation: Answers creates.
        stored: Answers what is asked of responses that were created before.
        compactions: Makes histories short.
        counts: Counts the tokens of an input.
        conversations: Answers what is asked of conversations.
        secrets: Makes client secrets.
        passthrough: Passes on what is not the gateway's.
    """

    def __init__(
        self,
        admission: Admission,
        stores: Stores,
        models: Models,
        creation: ResponseCreation,
        stored: StoredResponses,
        compactions: Compactions,
        counts: TokenCounts,
        conversations: ConversationRequests,
        secrets: ClientSecretRequests,
        passthrough: Passthrough,
    ) -> None:
        keyed = Keyed(admission)
        self._stores = stores
        self._models = models
        self._stored = stored
        self.routes = [
            Route("/v1/responses", keyed(creation.create), methods=["POST"]),
            Route("/v1/responses/compact", keyed(compactions.answer), methods=["POST"]),
            Route("/v1/responses/input_tokens", keyed(counts.answer), methods=["POST"]),
            Route("/v1/responses/{id}", keyed(stored.get), methods=["GET"]),
            Route("/v1/responses/{id}", keyed(stored.delete), methods=["DELETE"]),
            Route("/v1/responses/{id}/cancel", keyed(stored.cancel), methods=["POST"]),
            Route("/v1/responses/{id}/input_items", keyed(stored.input_items), methods=["GET"]),
            Route("/v1/responses/{id}/steers", keyed(self._steers), methods=["GET"]),
            Route("/v1/steers/{id}", keyed(self._steer), methods=["GET"]),
            *conversations.routes(keyed),
            Route("/v1/client_secrets", keyed(secrets.create), methods=["POST"]),
            Route("/v1/models", keyed(self._list), methods=["GET"]),
            Route("/v1/models/{id:path}", keyed(self._model), methods=["GET"]),
            *passthrough.routes(keyed),
        ]

    async def _steers(self, key_id: str, request: Request) -> Response:
        response_id: str = request.path_params["id"]
        records = await self._stores.steers.of_response(key_id, response_id)
        self._stores.clerk.check_lost(key_id, (record.id for record in records))
        if not records:
            await self._stored.check(key_id, response_id)
        return _json(encode({"object": "list", "data": [_shown(record) for record in records]}))

    async def _steer(self, key_id: str, request: Request) -> Response:
        steer_id: str = request.path_params["id"]
        record = await self._stores.steers.get(key_id, steer_id)
        self._stores.clerk.check_lost(key_id, [steer_id])
        return _missing(steer_id) if record is None else _json(encode(_shown(record)))

    async def _askable(self, request: Request) -> list[dict[str, Any]]:
        """Return the models that the key of a request may ask for."""
        models = await self._models(request.scope["headers"])
        key = key_of(request)
        return models if key is None else [one for one in models if key.allows(one["id"])]

    async def _list(self, _key_id: str, request: Request) -> Response:
        return _json(encode({"object": "list", "data": await self._askable(request)}))

    async def _model(self, _key_id: str, request: Request) -> Response:
        name: str = request.path_params["id"]
        for model in await self._askable(request):
            if model["id"] == name:
                return _json(encode(model))
        message = f"The model '{name[:80]}' is not known here; GET /v1/models lists those that are."
        body = error("model_not_found", message, 404, param="model")
        return JSONResponse(body, 404)


def _shown(record: SteerRecord) -> dict[str, Any]:
    """Return a submission as its client sees it; raises SenselessAnswer if its input is broken."""
    try:
        _json_value.decode(record.input)
    except DecodeError as broken:
        raise SenselessAnswer from broken
    return {
        "id": record.id,
        "object": "response.steer",
        "previous_response_id": record.target,
        "effective_response_id": record.effective,
        "state": str(record.state),
        "reason": record.reason,
        "successor_id": record.successor,
        "created_at": record.created_at,
        "updated_at": record.updated_at,
        "input": Raw(record.input),
    }


def _json(body: bytes) -> Response:
    return Response(body, media_type="application/json")


def _missing(name: str) -> Response:
    message = f"There is no steer with id '{name[:80]}'."
    return JSONResponse(error("not_found", message, 404), 404)
