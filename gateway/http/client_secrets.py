"""SHELL: `POST /v1/client_secrets` makes short-lived secrets for browsers (protocol.md 7)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from starlette.responses import JSONResponse

from gateway.client.auth import OPEN, client_key, origin_of
from gateway.config.setting_types import is_origin
from gateway.http.bodies import read_object
from gateway.http.keyed import check_is_key, key_of
from gateway.keys.keys_file import digest_of
from lanes.errors import ClientFault

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.requests import Request

    from gateway.client.auth import Headers
    from gateway.config.settings import Settings
    from gateway.keys.client_secrets import ClientSecrets
    from gateway.keys.ring import LiveKey
    from gateway.upstream.routing.router import Router

_MAX_BODY: Final = 64 << 10
#: Seconds that a secret may be valid, as at OpenAI.
SHORTEST: Final = 10
LONGEST: Final = 7200
USUAL: Final = 600
MAX_MODELS: Final = 32
_MAX_NAME: Final = 256
_MAX_ORIGIN: Final = 256
_FIELDS: Final = ("expires_after", "models", "origin")


class ClientSecretRequests:
    """Makes client secrets for clients with a key.

    Args:
        secrets: Makes them.
        upstreams: Know the models.
        relayed: Picks the headers that upstreams may see.
        settings: The gateway's.
    """

    def __init__(
        self,
        secrets: ClientSecrets,
        upstreams: Router,
        relayed: Callable[[Headers], dict[str, str]],
        settings: Settings,
    ) -> None:
        self._secrets = secrets
        self._upstreams = upstreams
        self._relayed = relayed
        self._forwards = settings.forward_authorization

    async def create(self, key_id: str, request: Request) -> JSONResponse:
        """Answer with a new secret.

        Args:
            key_id: Who makes it.
            request: The request.
        """
        maker = key_of(request)
        self._check_maker(key_id)
        check_is_key(request)
        body, _ = await read_object(request, _MAX_BODY, 1)
        if unknown := sorted(body.keys() - set(_FIELDS)):
            # A misspelt bound would bind nothing.
            message = f"There is no parameter '{unknown[0][:80]}'; there are {', '.join(_FIELDS)}."
            raise ClientFault(message, code="unknown_parameter", param=unknown[0][:80])
        seconds = _seconds(body.get("expires_after"))
        models = _models(body.get("models"))
        origin = _origin(body.get("origin"))
        await self._check_models(models, maker, request.scope["headers"])
        key = client_key(request.scope["headers"])
        assert key is not None, "the client was let in by it"
        value, expires = await self._secrets.make(digest_of(key), key_id, seconds, models, origin)
        return JSONResponse(
            {
                "object": "client_secret",
                "value": value,
                "expires_at": expires,
                "models": models or None,
                "origin": origin,
            },
            headers={"Cache-Control": "no-store"},
        )

    def _check_maker(self, key_id: str) -> None:
        if key_id == OPEN:
            message = "This gateway asks for no key, so its clients need no secret."
            raise ClientFault(message, code="keys_required")
        if self._forwards:
            message = "The backend of this gateway is shown the client's key, which it must know."
            raise ClientFault(message, code="client_secrets_not_supported")

    async def _check_models(
        self, models: list[str], maker: LiveKey | None, headers: Headers
    ) -> None:
        """Raise ClientFault for a model that is unknown, or not the maker's to ask for."""
        for at, model in enumerate(models):
            if maker is not None and not maker.allows(model):
                raise ClientFault(
                    f"This API key may not ask for the model '{model[:80]}'.",
                    code="model_not_allowed",
                    status=403,
                    param=f"models[{at}]",
                )
            try:
                await self._upstreams.destination(model, self._relayed(headers))
            except ClientFault as unknown:
                raise ClientFault(
                    unknown.message, code=unknown.code, param=f"models[{at}]"
                ) from None


def _seconds(value: Any) -> int:
    if value is None:
        return USUAL
    if not isinstance(value, dict):
        raise _wrong("expires_after", "an object with 'seconds'", "invalid_type")
    if unknown := sorted(value.keys() - {"anchor", "seconds"}):
        name = f"expires_after.{unknown[0][:80]}"
        message = f"There is no parameter '{name}'; there are anchor and seconds."
        raise ClientFault(message, code="unknown_parameter", param=name)
    if value.get("anchor", "created_at") != "created_at":
        raise _wrong("expires_after.anchor", "'created_at'")
    seconds = value.get("seconds", USUAL)
    if isinstance(seconds, bool) or not isinstance(seconds, int):
        raise _wrong("expires_after.seconds", "a whole number", "invalid_type")
    if not SHORTEST <= seconds <= LONGEST:
        raise _wrong("expires_after.seconds", f"between {SHORTEST} and {LONGEST}")
    return seconds


def _models(value: Any) -> list[str]:
    if value is None:
        return []
    if not isinstance(value, list):
        raise _wrong("models", "an array of names", "invalid_type")
    if not 1 <= len(value) <= MAX_MODELS:
        raise _wrong("models", f"1 to {MAX_MODELS} names; without it the key's own models hold")
    for at, name in enumerate(value):
        if not isinstance(name, str):
            raise _wrong(f"models[{at}]", "a string", "invalid_type")
        if not 1 <= len(name) <= _MAX_NAME or "*" in name:
            raise _wrong(f"models[{at}]", f"a name of 1 to {_MAX_NAME} characters, without '*'")
    return list(dict.fromkeys(value))


def _origin(value: Any) -> str | None:
    if value is None:
        return None
    if not isinstance(value, str):
        raise _wrong("origin", "a string", "invalid_type")
    if len(value) > _MAX_ORIGIN or not is_origin(value):
        raise _wrong("origin", "an origin such as https://app.example.com")
    return origin_of(value)


def _wrong(param: str, wanted: str, code: str = "invalid_value") -> ClientFault:
    return ClientFault(f"'{param}' must be {wanted}.", code=code, param=param)
