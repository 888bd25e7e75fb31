"""Client secrets as a gateway, another one of the store, and a forger see them (D48)."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.client.auth import TOKEN
from gateway.keys.client_secrets import ClientSecrets, SecretKey, is_secret
from gateway.keys.keys_file import NamedKey, digest_of, key_id
from gateway.keys.ring import KeyRing
from lanes.errors import ClientFault, Fault
from lanes.stores.sealing_keys import MemorySealingKeyStore
from lanes.stores.seals import Seals
from steering.errors import StoreUnavailable

ACME = NamedKey("acme", digest_of(b"sk-a"), "acme", models=("small", "large"))
NAMELESS = {digest_of(b"sk-old"): key_id("sk-old")}


class Process:
    """One gateway: its keys, its clock and the store that it shares."""

    def __init__(self, store: MemorySealingKeyStore, *keys: NamedKey) -> None:
        self.now = 1000.0
        self.ring = KeyRing(NAMELESS, lambda: self.now)
        self.ring.replace(keys)
        self.secrets = ClientSecrets(Seals((), store), self.ring, lambda: self.now)

    async def made(self, seconds: int = 60, origin: str | None = None, *models: str) -> bytes:
        value, expires = await self.secrets.make(ACME.digest, ACME.owner, seconds, models, origin)
        assert expires == int(self.now) + seconds
        return value.encode()

    async def refusal(self, secret: bytes) -> str | None:
        with pytest.raises(Fault) as refused:
            await self.secrets.open(secret)
        assert refused.value.status == 401
        assert len(secret) < 10 or secret.decode("latin-1") not in refused.value.message
        return refused.value.code


async def test_any_gateway_of_the_store_opens_it_and_no_other() -> None:
    store = MemorySealingKeyStore()
    one, two = Process(store, ACME), Process(store, ACME)
    secret = await one.made(60, "https://app.example", "small")
    assert is_secret(secret)
    assert all(TOKEN.match(part) for part in secret.split(b"="))
    assert b"=" not in secret
    for process in (one, two):
        key = await process.secrets.open(secret)
        assert (key.key.owner, key.key.tenant, key.key.name, key.origin) == (
            "tenant-acme",
            "acme",
            "acme/client-secret",
            "https://app.example",
        )
        assert [key.allows(model) for model in ("small", "large", "other")] == [True, False, False]
    assert await Process(MemorySealingKeyStore(), ACME).refusal(secret) == "invalid_client_secret"


async def test_a_key_without_a_name_makes_one_for_its_own_records() -> None:
    process = Process(MemorySealingKeyStore())
    [(digest, owner)] = NAMELESS.items()
    value, _ = await process.secrets.make(digest, owner, 60, [], None)
    key = await process.secrets.open(value.encode())
    assert (key.key.owner, key.key.name) == (owner, f"{owner}/client-secret")
    assert key.allows("any")
    assert not key.bound


async def test_it_ends_in_its_time_whatever_the_clock_does() -> None:
    process = Process(MemorySealingKeyStore(), ACME)
    secret = await process.made(60)
    key, told = await process.secrets.open(secret), list[str]()
    with key.holding(lambda fault: told.append(str(fault.code))):
        process.now = 1059.9
        assert list(process.ring.expire()) == []
        process.now = 1060.0
        assert list(process.ring.expire()) == [("acme/client-secret", 1)]
        assert list(process.ring.expire()) == []
        process.ring.replace([])
        assert told == ["client_secret_expired"]  # once, though its maker is gone as well
        assert await process.refusal(secret) == "api_key_revoked"
        process.ring.replace([ACME])
    assert await process.refusal(secret) == "client_secret_expired"
    process.now = 1.0  # the clock jumps back
    assert isinstance(await process.secrets.open(secret), SecretKey)


@pytest.mark.parametrize(
    ("after", "code"),
    [
        ((), "api_key_revoked"),
        ((NamedKey("acme", ACME.digest, "another"),), "api_key_revoked"),
        ((NamedKey("acme", digest_of(b"sk-b"), "acme"),), "api_key_revoked"),
        ((NamedKey("acme", ACME.digest, "acme", expires=999.0),), "api_key_expired"),
    ],
)
async def test_it_ends_with_its_makers_key(after: tuple[NamedKey, ...], code: str) -> None:
    process = Process(MemorySealingKeyStore(), ACME)
    secret = await process.made()
    key, told = await process.secrets.open(secret), list[str]()
    with key.holding(lambda fault: told.append(str(fault.code))):
        process.ring.replace(after)
        list(process.ring.expire())
        assert told == [code]
    assert await process.refusal(secret) == code


async def test_what_its_maker_may_no_longer_ask_for_it_may_not_either() -> None:
    process = Process(MemorySealingKeyStore(), ACME)
    wide = await process.secrets.open(await process.made())
    narrow = await process.secrets.open(await process.made(60, None, "small", "large"))
    process.ring.replace([NamedKey("acme", ACME.digest, "acme", models=("small",))])
    for key in (wide, narrow):
        assert key.bound
        key.check_model("small")
        with pytest.raises(ClientFault) as refused:
            key.check_model("large")
        assert refused.value.code == "model_not_allowed"


async def test_what_no_longer_is_in_use_is_forgotten() -> None:
    process = Process(MemorySealingKeyStore(), ACME)
    key = await process.secrets.open(await process.made())
    with key.holding(lambda _: None):
        pass
    del key
    process.now = 5000.0
    assert list(process.ring.expire()) == []
    assert len(process.ring._watched) == 0


class AwayStore(MemorySealingKeyStore):
    """A store that is away until it is told to be there, and counts who asks."""

    def __init__(self) -> None:
        super().__init__()
        self.away = False
        self.asked = 0

    async def get_or_put(self, key: bytes) -> bytes:
        self.asked += 1
        if self.away:
            raise StoreUnavailable
        return await super().get_or_put(key)


async def test_the_store_is_asked_once_and_may_be_away_afterwards() -> None:
    store = AwayStore()
    one, two = Process(store, ACME), Process(store, ACME)
    secret = await one.made()
    store.away = True
    with pytest.raises(StoreUnavailable):
        await two.secrets.open(secret)
    store.away = False
    await two.secrets.open(secret)
    store.away, store.asked = True, 0
    for _ in range(3):
        await two.secrets.open(secret)
        assert await two.refusal(secret[:7] + b"0" * 16 + secret[23:]) == "invalid_client_secret"
    assert store.asked == 0


async def test_strangers_do_not_have_the_store_asked_again_and_again() -> None:
    store = AwayStore()
    process = Process(store, ACME)
    for at in range(5):
        forged = b"ek_ml1.%016x." % at + b"A" * 60
        assert await process.refusal(forged) == "invalid_client_secret"
    assert store.asked == 1


@settings(max_examples=40)
@given(st.data())
async def test_no_change_goes_unnoticed(data: st.DataObject) -> None:
    process = Process(MemorySealingKeyStore(), ACME)
    secret = await process.made()
    at = data.draw(st.integers(0, len(secret) - 1))
    changed = bytearray(secret)
    changed[at] ^= data.draw(st.integers(1, 255))
    cut = secret[:at]
    for other in (bytes(changed), cut, secret + b"A", secret + b"=", secret.upper()):
        assert await process.refusal(other) == "invalid_client_secret"


async def test_content_that_was_sealed_for_something_else_is_no_secret() -> None:
    process = Process(MemorySealingKeyStore(), ACME)
    await process.made()
    seal = await process.secrets._seals.seal(ACME.owner, b'{"key":"","owner":"tenant-acme"}')
    assert await process.refusal(f"ek_{seal.rstrip('=')}".encode()) == "invalid_client_secret"


async def test_one_that_no_header_could_carry_is_not_made() -> None:
    process = Process(MemorySealingKeyStore(), ACME)
    with pytest.raises(ClientFault) as refused:
        await process.made(60, None, *(f"{at:0256}" for at in range(32)))
    assert (refused.value.code, refused.value.param) == ("invalid_value", "models")
    widest = await process.made(60, None, *(f"{at:0200}" for at in range(18)))
    assert 5000 < len(widest) < 7000
    await process.secrets.open(widest)
