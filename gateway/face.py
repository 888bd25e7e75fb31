"""The HTTP face: reading stored responses, and what became of steers (protocol.md 3 and 5)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Raw
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from gateway.auth import Refused
from lanes.codec import encode
from lanes.errors import Fault
from steering.stores.base import StoreUnavailable

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from starlette.requests import Request

    from gateway.auth import Gate
    from gateway.records import Records
    from steering.stores.base import Record


class Face:
    """The reading routes, each for the key that the request shows."""

    def __init__(self, gate: Gate, records: Records) -> None:
        self._gate = gate
        self._records = records
        self.routes = [
            Route("/v1/responses/{id}", self._keyed(self._response), methods=["GET"]),
            Route("/v1/responses/{id}", self._keyed(self._delete), methods=["DELETE"]),
            Route("/v1/responses/{id}/steers", self._keyed(self._steers), methods=["GET"]),
            Route("/v1/steers/{id}", self._keyed(self._steer), methods=["GET"]),
        ]

    def _keyed(
        self, answer: Callable[[str, str], Awaitable[Response]]
    ) -> Callable[[Request], Awaitable[Response]]:
        async def endpoint(request: Request) -> Response:
            try:
                admitted = self._gate.admit(request.scope["headers"])
                return await answer(admitted.key_id, request.path_params["id"])
            except Refused as refused:
                body = error(refused.code, refused.message, refused.status)
                return JSONResponse(body, refused.status, refused.headers)
            except Fault as fault:
                return JSONResponse(error(fault.code, fault.message, fault.status), fault.status)
            except StoreUnavailable:
                message = "The store of submissions is not available."
                return JSONResponse(error("store_unavailable", message, 503), 503)

        return endpoint

    async def _response(self, key_id: str, response_id: str) -> Response:
        body = await self._records.archive.get(key_id, response_id)
        return _missing("response", response_id) if body is None else _json(body)

    async def _delete(self, key_id: str, response_id: str) -> Response:
        if not await self._records.archive.delete(key_id, response_id):
            return _missing("response", response_id)
        return _json(encode({"id": response_id, "object": "response", "deleted": True}))

    async def _steers(self, key_id: str, response_id: str) -> Response:
        records = await self._records.steers.of_response(key_id, response_id)
        return _json(encode({"object": "list", "data": [_shown(record) for record in records]}))

    async def _steer(self, key_id: str, steer_id: str) -> Response:
        record = await self._records.steers.get(key_id, steer_id)
        return _missing("steer", steer_id) if record is None else _json(encode(_shown(record)))


def error(code: str | None, message: str, status: int) -> dict[str, object]:
    """The JSON body of a refusal over HTTP."""
    kind = "server_error" if status >= 500 else "invalid_request_error"
    return {"error": {"type": kind, "code": code, "message": message, "param": None}}


def _shown(record: Record) -> dict[str, Any]:
    return {
        "id": record.id,
        "object": "response.steer",
        "previous_response_id": record.target,
        "state": str(record.state),
        "reason": record.reason,
        "successor_id": record.successor,
        "created_at": record.created_at,
        "updated_at": record.updated_at,
        "input": Raw(record.input),
    }


def _json(body: bytes) -> Response:
    return Response(body, media_type="application/json")


def _missing(kind: str, name: str) -> Response:
    message = f"There is no {kind} with id '{name[:80]}'."
    return JSONResponse(error("not_found", message, 404), 404)
