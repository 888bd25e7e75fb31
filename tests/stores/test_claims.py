"""The contract of every store of claims: one owner, one answer, for as long as it is kept."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING
from uuid import uuid4

import anyio
import pytest

from lanes.stores import claims, redis_claims
from lanes.stores.claims import Claim, MemoryClaimStore
from lanes.stores.redis_claims import RedisClaimStore
from steering.errors import StoreUnavailable
from tests.support.hang_guard import HANG

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from lanes.stores.claims import ClaimStore
    from tests.support.redis_engine import Engine

NAME = "5e" * 32
A, B = Claim("a" * 16, "d" * 64), Claim("b" * 16, "e" * 64)


@pytest.fixture
async def stores(engine: Engine | None) -> AsyncIterator[tuple[ClaimStore, ClaimStore]]:
    """The same store as two processes see it."""
    if engine is None:
        memory = MemoryClaimStore()
        yield memory, memory
        return
    prefix = uuid4().hex
    async with engine.client() as one, engine.client() as two:
        yield RedisClaimStore(one, prefix=prefix), RedisClaimStore(two, prefix=prefix)


def _answered(claim: Claim, answer: bytes) -> Claim:
    return Claim(claim.owner, claim.digest, answer)


async def test_the_first_owns_it(stores: tuple[ClaimStore, ClaimStore]) -> None:
    one, two = stores
    assert await one.claim("k", NAME, A) == A
    assert await two.claim("k", NAME, B) == A
    assert await one.claim("k", NAME, A) == A
    assert await two.claim("other", NAME, B) == B
    assert await two.claim("k", "00" * 32, B) == B


@pytest.mark.parametrize("size", [0, 10, 5_000, 400_000])
async def test_an_answer_is_kept_for_all(stores: tuple[ClaimStore, ClaimStore], size: int) -> None:
    one, two = stores
    answer = os.urandom(size // 2).hex().encode()
    await one.claim("k", NAME, A)
    await one.finish("k", NAME, _answered(A, answer))
    assert await two.claim("k", NAME, B) == _answered(A, answer)
    await two.finish("k", NAME, _answered(B, b"late"))
    await two.release("k", NAME, B.owner)
    await one.release("k", NAME, B.owner)
    assert await two.claim("k", NAME, B) == _answered(A, answer)


async def test_a_claim_that_is_given_up_is_free(stores: tuple[ClaimStore, ClaimStore]) -> None:
    one, two = stores
    await one.claim("k", NAME, A)
    await two.release("k", NAME, B.owner)
    assert await two.claim("k", NAME, B) == A
    await one.release("k", NAME, A.owner)
    assert await two.claim("k", NAME, B) == B


async def test_an_answer_that_is_given_up_is_forgotten(
    stores: tuple[ClaimStore, ClaimStore],
) -> None:
    one, two = stores
    await one.claim("k", NAME, A)
    await one.finish("k", NAME, _answered(A, b"{}"))
    await two.release("k", NAME, A.owner)
    assert await two.claim("k", NAME, B) == B
    await one.release("k", NAME, A.owner)
    assert await one.claim("k", NAME, A) == B


async def test_a_claim_that_was_lost_is_renewed(stores: tuple[ClaimStore, ClaimStore]) -> None:
    one, two = stores
    await one.renew("k", NAME, A)
    assert await two.claim("k", NAME, B) == A


async def test_renewing_ends_no_answer_early(
    stores: tuple[ClaimStore, ClaimStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = stores
    for module in (claims, redis_claims):
        monkeypatch.setattr(module, "CLAIM_TTL", 1)
    await one.claim("k", NAME, A)
    await one.finish("k", NAME, _answered(A, b"{}"))
    await one.claim("other", NAME, A)
    await one.renew("k", NAME, A)  # on its way while the answer was kept
    with anyio.fail_after(HANG):
        while await two.claim("other", NAME, B) != B:  # noqa: ASYNC110 - time has to pass
            await anyio.sleep(0.05)
    assert await two.claim("k", NAME, B) == _answered(A, b"{}")


async def test_a_claim_without_an_owner_is_free_after_a_while(
    stores: tuple[ClaimStore, ClaimStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = stores
    for module in (claims, redis_claims):
        monkeypatch.setattr(module, "CLAIM_TTL", 1)
    await one.claim("k", NAME, A)
    for _ in range(3):
        await anyio.sleep(0.4)
        await one.renew("k", NAME, A)
        await two.renew("k", NAME, B)
        assert await two.claim("k", NAME, B) == A
    with anyio.fail_after(HANG):
        while await two.claim("k", NAME, B) != B:  # noqa: ASYNC110 - time has to pass
            await anyio.sleep(0.05)
    # The old owner is late: the name is another's by now.
    await one.renew("k", NAME, A)
    await one.finish("k", NAME, _answered(A, b"late"))
    await one.release("k", NAME, A.owner)
    assert await one.claim("k", NAME, A) == B


async def test_an_answer_that_comes_after_the_claim_has_ended_is_kept(
    stores: tuple[ClaimStore, ClaimStore],
) -> None:
    one, two = stores
    await one.finish("k", NAME, _answered(A, b"{}"))
    assert await two.claim("k", NAME, B) == _answered(A, b"{}")


async def test_memory_forgets_in_time_and_is_bounded() -> None:
    now = 0.0
    store = MemoryClaimStore(1000, clock=lambda: now)
    for number in range(50):
        await store.finish("k", f"{number:064x}", _answered(A, b"x" * 100))
        assert store.bytes_held <= 1000
    assert (await store.claim("k", f"{49:064x}", B)).owner == A.owner
    assert await store.claim("k", f"{0:064x}", B) == B
    now = claims.ANSWER_TTL + 1
    assert await store.claim("k", f"{49:064x}", B) == B
    assert store.bytes_held == 0


async def test_what_no_store_wrote_is_store_unavailable(engine: Engine | None) -> None:
    if engine is None:
        return
    async with engine.client() as client:
        for value in (b"", b"short", b"\xff" * 80, b"a" * 80 + b"\x07junk"):
            await client.set(f"p:claim:k:{NAME}", value)
            with pytest.raises(StoreUnavailable):
                await RedisClaimStore(client, prefix="p").claim("k", NAME, A)
