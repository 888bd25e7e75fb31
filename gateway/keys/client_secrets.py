"""Short-lived secrets for browsers, made with a key and sealed: nothing of them is stored (D48).

    ek_ml1.<key id>.<nonce and ciphertext, base64url without padding>

Whichever gateway of the store opens one; its seal is that of `lanes/stores/seals.py`.
"""

from __future__ import annotations

import json
import re
import time
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from gateway.keys.keys_file import NamedKey
from gateway.keys.ring import LiveKey, expired, over
from lanes.errors import ClientFault
from lanes.stores.seals import SEAL_MARK, BrokenSealError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from gateway.keys.ring import End, KeyRing
    from lanes.errors import Fault, UpstreamFault
    from lanes.stores.seals import Seals

#: What every client secret begins with.
MARK: Final = b"ek_" + SEAL_MARK.encode()
_FORM: Final = re.compile(rb"ek_ml1\.[0-9a-f]{16}\.[A-Za-z0-9_-]{38,8000}")
#: Whom the seal is for, in place of a key's id: no content of a compaction item is a secret.
_SEALED_FOR: Final = "client secret"
#: Bytes of what is sealed: a header of the upgrade carries the secret in one line of 8 KiB.
MAX_CLAIMS: Final = 4096


@dataclass(frozen=True, slots=True)
class Grant(NamedKey):
    """What a client secret allows, in the form of a named key.

    Attributes:
        owned_by: Under whose id its records are: its maker's.
        origin: The origin of the pages that may use it; None for any that the gateway lets in.
    """

    owned_by: str = ""
    origin: str | None = None

    @property
    def owner(self) -> str:
        """What the records are kept under (see `NamedKey.owner`)."""
        return self.owned_by


class SecretKey(LiveKey):
    """A client secret in use: it ends at its own time, or with the key that made it.

    Args:
        grant: What it allows.
        maker: The key that made it, if that has a name: one without ends with the process only.
    """

    __slots__ = ("__weakref__", "_maker", "origin")

    def __init__(self, grant: Grant, maker: LiveKey | None) -> None:
        super().__init__(grant)
        self._maker = maker
        self.origin = grant.origin

    @contextmanager
    def holding(self, end: End) -> Iterator[None]:
        """Wrap what is open under the secret (see `LiveKey.holding`)."""
        ended = False

        def once(fault: UpstreamFault) -> None:
            nonlocal ended
            if not ended:
                ended = True
                end(fault)

        maker = nullcontext() if self._maker is None else self._maker.holding(once)
        with super().holding(once), maker:
            yield

    @property
    def bound(self) -> bool:
        """Whether there are models that it may not ask for."""
        return super().bound or (self._maker is not None and self._maker.bound)

    def allows(self, model: str) -> bool:
        """Return whether the secret, and the key that made it, may ask for this model."""
        return super().allows(model) and (self._maker is None or self._maker.allows(model))

    def has_ended(self) -> UpstreamFault:
        """Return the fault of whoever shows it after its time."""
        return over("client_secret_expired", "This client secret has expired.")


def is_secret(key: bytes | None) -> bool:
    """Return whether somebody shows a client secret, real or not."""
    return key is not None and key.startswith(MARK)


class ClientSecrets:
    """Makes and opens client secrets.

    Args:
        seals: Seal them.
        ring: The keys in force, which make them.
        clock: Returns the seconds since 1970.
    """

    def __init__(self, seals: Seals, ring: KeyRing, clock: Callable[[], float] = time.time) -> None:
        self._seals = seals
        self._ring = ring
        self._clock = clock

    async def make(
        self, digest: bytes, owner: str, seconds: int, models: Sequence[str], origin: str | None
    ) -> tuple[str, int]:
        """Return a new secret, and when it expires in seconds since 1970.

        Args:
            digest: The SHA-256 of the key that makes it.
            owner: Under whose id its records are to be.
            seconds: How long it is valid.
            models: The models that it may ask for; empty for all that its maker may.
            origin: The origin of the pages that may use it; None for any.

        Raises:
            ClientFault: It would be too long to show.
            StoreUnavailable: The key of the seals is not to be had.
        """
        expires = int(self._clock()) + seconds
        claims = {"key": digest.hex(), "owner": owner, "expires": expires}
        claims |= {"models": list(models), "origin": origin}
        content = json.dumps(claims, separators=(",", ":")).encode()
        if len(content) > MAX_CLAIMS:
            message = "The models have more characters than a client secret has room for."
            raise ClientFault(message, code="invalid_value", param="models")
        seal = await self._seals.seal(_SEALED_FOR, content)
        return f"ek_{seal.rstrip('=')}", expires

    async def open(self, secret: bytes) -> SecretKey:
        """Return the key that a secret stands for.

        Raises:
            Fault: It lets nobody in: changed, another store's, expired, or its maker is gone.
            StoreUnavailable: The store is away, and only it can say.
        """
        claims = await self._claims(secret)
        maker = self._ring.of_digest(bytes.fromhex(claims["key"]))
        owner = maker.key.owner if isinstance(maker, LiveKey) else maker
        if owner is None or owner != claims["owner"]:
            message = "The API key that made this client secret is not valid any more."
            raise over("api_key_revoked", message)
        named = maker if isinstance(maker, LiveKey) else None
        if named is not None and self._ring.expired(named):
            raise expired()
        grant = Grant(
            f"{owner if named is None else named.key.name}/client-secret",
            b"",
            owner if named is None else named.key.tenant,
            float(claims["expires"]),
            tuple(claims["models"]),
            owned_by=owner,
            origin=claims["origin"],
        )
        key = SecretKey(grant, named)
        if self._ring.expired(key):
            raise key.has_ended()
        self._ring.watch(key)
        return key

    async def _claims(self, secret: bytes) -> dict[str, Any]:
        try:
            if not _FORM.fullmatch(secret):
                raise BrokenSealError
            seal = secret.decode().removeprefix("ek_")
            text = seal.rpartition(".")[2]
            content = await self._seals.open(_SEALED_FOR, seal + "=" * (-len(text) % 4))
        except BrokenSealError:
            raise _unknown() from None
        claims: dict[str, Any] = json.loads(content)
        return claims


def _unknown() -> Fault:
    message = "The client secret is not one of this gateway's, or was changed."
    return over("invalid_client_secret", message)
