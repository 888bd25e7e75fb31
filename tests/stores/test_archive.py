"""The archive turns every trouble of a store into what the client may see."""

from __future__ import annotations

from functools import partial

import anyio
import pytest

from lanes.history import archive
from lanes.history.archive import Archive, ArchiveUnavailable
from lanes.stores.base import MAX_CHAIN, ChainTooLong, UnreadableResponse
from lanes.stores.memory import MemoryResponseStore
from lanes.stores.writer import ResponseWriter
from steering.errors import StoreUnavailable
from tests.support.hang_guard import HANG
from tests.support.stored_chains import KEY, grow, response


class Away(MemoryResponseStore):
    """Raises the same error on every read."""

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self._error = error

    async def load(self, *_: object) -> None:
        raise self._error

    async def get(self, *_: object) -> bytes:
        raise self._error

    async def delete(self, *_: object) -> bool:
        raise self._error


@pytest.mark.parametrize("call", ["find", "get", "delete"])
@pytest.mark.parametrize(
    ("error", "message"),
    [
        (StoreUnavailable("redis.internal:6379 refused"), "The response store is not available."),
        (UnreadableResponse(), "The stored response cannot be read."),
    ],
)
async def test_a_store_that_is_away_is_a_503(call: str, error: Exception, message: str) -> None:
    kept = Archive(Away(error), MAX_CHAIN)
    with pytest.raises(ArchiveUnavailable) as caught:
        await getattr(kept, call)(KEY, "a")
    fault = caught.value
    assert (fault.status, fault.code, fault.type) == (503, "store_unavailable", "server_error")
    assert (fault.message, fault.param) == (message, None)
    assert fault.__cause__ is error


@pytest.mark.parametrize("call", ["find", "get", "delete"])
async def test_a_response_on_its_way_for_too_long_is_a_503(
    call: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archive, "ResponseWriter", partial(ResponseWriter, patience=0.01))
    kept = Archive(MemoryResponseStore(), MAX_CHAIN)
    kept.put(response("a"))  # nothing writes: `run` does not run
    with pytest.raises(ArchiveUnavailable) as caught, anyio.fail_after(HANG):
        await getattr(kept, call)(KEY, "a")
    assert (caught.value.status, caught.value.code) == (503, "store_unavailable")
    assert caught.value.message == "Response 'a' is not stored yet. Try again."


async def test_the_clients_own_faults_and_our_bugs_stay_what_they_are() -> None:
    store = MemoryResponseStore()
    await grow(store, "a", "b")
    with pytest.raises(ChainTooLong):
        await Archive(store, 1).find(KEY, "b")
    with pytest.raises(KeyError):
        await Archive(Away(KeyError()), MAX_CHAIN).get(KEY, "a")
