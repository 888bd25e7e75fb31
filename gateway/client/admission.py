"""SHELL: lets clients in, by a key at once and by a client secret once it is opened."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING

from gateway.client.auth import AdmittedClient, client_key, unauthorized
from gateway.client.refusal import UpgradeRefused
from gateway.keys.client_secrets import is_secret
from lanes.errors import Fault
from steering.errors import StoreUnavailable

if TYPE_CHECKING:
    from gateway.client.auth import Authenticator, Headers
    from gateway.keys.client_secrets import ClientSecrets, SecretKey


class Admission:
    """Decides who comes in, wherever a key is asked for.

    Args:
        authenticator: Checks keys and origins.
        secrets: Opens client secrets.
    """

    def __init__(self, authenticator: Authenticator, secrets: ClientSecrets) -> None:
        self._authenticator = authenticator
        self._secrets = secrets

    async def admit(self, headers: Headers) -> AdmittedClient:
        """Return the client that these headers admit.

        Raises:
            UpgradeRefused: The key, the secret or the origin is not accepted.
        """
        key, ring = client_key(headers), self._authenticator.ring
        if key is None or not is_secret(key) or ring.open or ring.find(key) is not None:
            return self._authenticator.admit(headers)
        self._authenticator.check_origin(headers)
        secret = await self._opened(key)
        self._authenticator.check_bound_origin(headers, secret.origin)
        echoed = self._authenticator.echo(headers)
        return AdmittedClient(secret.key.owner, echoed, secret)

    async def _opened(self, key: bytes) -> SecretKey:
        try:
            return await self._secrets.open(key)
        except Fault as fault:
            raise unauthorized(str(fault.code), fault.message) from None
        except StoreUnavailable:
            message = "The store, which has the key of client secrets, is not available."
            raise UpgradeRefused(
                HTTPStatus.SERVICE_UNAVAILABLE, "store_unavailable", message
            ) from None
