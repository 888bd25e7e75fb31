"""Seals the content of compaction items, so that only gateways with the same keys read it (D41).

    ml1.<key id>.<nonce and ciphertext, base64url>

The seal is bound to the API key: for any other one it is as if it were broken.
"""

from __future__ import annotations

import binascii
import hashlib
import os
from base64 import urlsafe_b64decode, urlsafe_b64encode
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final, TypeGuard, TypeVar

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from lanes.cpu_thread import run_in_cpu_thread

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lanes.stores.sealing_keys import SealingKeyStore
    from steering.stores.inherited import Homes

T = TypeVar("T")

#: What every seal begins with.
SEAL_MARK: Final = "ml1."
_NONCE: Final = 12
_KEY_BYTES: Final = 32
#: Bytes of content from which on a thread seals and opens it.
_LARGE: Final = 128 * 1024
#: Characters of a seal; the plan of a compaction stays far below.
MAX_SEAL: Final = 8 << 20


class BrokenSealError(Exception):
    """A seal is not one that the gateway can open for this API key."""


def is_seal(value: object) -> TypeGuard[str]:
    """Return whether a value says that a gateway made it; any other was made by a backend."""
    return isinstance(value, str) and value.startswith(SEAL_MARK)


class Seals:
    """Makes and opens seals.

    Args:
        secrets: What the operator set, the newest first; it seals, and all of them open.
        store: Keeps the key that is used if the operator set none.
        homes: Under which keys an owner's seals may have been made; by default its own.
    """

    def __init__(
        self, secrets: Sequence[str], store: SealingKeyStore, homes: Homes | None = None
    ) -> None:
        self._homes = homes
        self._store = store
        keys = [_derived(secret) for secret in secrets]
        self._sealing = keys[0] if keys else None
        self._keys = {_key_id(key): key for key in keys}
        self._asked = False

    async def seal(self, key_id: str, content: bytes) -> str:
        """Return content sealed for an API key. Raises StoreUnavailable."""
        if self._sealing is None:
            self._sealing = await self._store.get_or_put(AESGCM.generate_key(_KEY_BYTES * 8))
            self._keys[_key_id(self._sealing)] = self._sealing
        return await _aside(content, partial(_sealed, self._sealing, key_id, content))

    async def open(self, key_id: str, seal: str) -> bytes:
        """Return what is sealed for an API key.

        Raises:
            BrokenSealError: The seal is another key's or another gateway's, or was changed.
            StoreUnavailable: The store is away, and only it can say.
        """
        name, _, text = seal.removeprefix(SEAL_MARK).partition(".")
        key = await self._key(name)
        if key is None or len(seal) > MAX_SEAL:
            raise BrokenSealError
        homes = (key_id,) if self._homes is None else tuple(self._homes(key_id))
        return await _aside(text, partial(_unsealed, key, name, text, homes))

    async def _key(self, name: str) -> bytes | None:
        if name not in self._keys and not self._asked:
            # If there is none yet, it is made here: strangers must not have the store asked again.
            kept = await self._store.get_or_put(AESGCM.generate_key(_KEY_BYTES * 8))
            self._asked = True
            self._keys[_key_id(kept)] = kept
        return self._keys.get(name)


async def _aside(data: str | bytes, work: Callable[[], T]) -> T:
    """Return what works on this data, in a thread if that takes milliseconds (D33)."""
    return await run_in_cpu_thread(work) if len(data) > _LARGE else work()


def _sealed(key: bytes, key_id: str, content: bytes) -> str:
    """Return content sealed.

    Args:
        key: The key.
        key_id: The API key for which it is sealed.
        content: The content.
    """
    name, nonce = _key_id(key), os.urandom(_NONCE)
    sealed = AESGCM(key).encrypt(nonce, content, _bound_to(name, key_id))
    return f"{SEAL_MARK}{name}.{urlsafe_b64encode(nonce + sealed).decode()}"


def _unsealed(key: bytes, name: str, text: str, homes: Sequence[str]) -> bytes:
    """Return what is sealed. Raises BrokenSealError.

    Args:
        key: The key that the seal names.
        name: The name of that key.
        text: The rest of the seal.
        homes: The API keys for one of which it has to be.
    """
    try:
        data = urlsafe_b64decode(text)
        if urlsafe_b64encode(data).decode() != text:
            raise BrokenSealError  # the decoder passes over what it does not know
    except (ValueError, binascii.Error):
        raise BrokenSealError from None
    for home in homes:
        with suppress(InvalidTag, ValueError):
            return AESGCM(key).decrypt(data[:_NONCE], data[_NONCE:], _bound_to(name, home))
    raise BrokenSealError


def _derived(secret: str) -> bytes:
    """Return the key of a secret: any text that is long enough will do."""
    return hashlib.sha256(b"multilane compaction key\0" + secret.encode()).digest()


def _key_id(key: bytes) -> str:
    return hashlib.sha256(b"multilane compaction key id\0" + key).hexdigest()[:16]


def _bound_to(name: str, key_id: str) -> bytes:
    return f"{SEAL_MARK}{name}\0{key_id}".encode()
