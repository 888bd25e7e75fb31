"""Lists of models: read, kept, and asked for once at a time; by a clock of the test's."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import anyio
import pytest
from anyio.lowlevel import checkpoint

from gateway.upstream.model_list import FRESH_SECONDS, RETRY_SECONDS, ModelList, parse_models
from gateway.upstream.transport.faults import backend_fault
from gateway.upstream.transport.http.client import FetchedAnswer
from lanes.errors import UpstreamFault

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine


LISTS: list[tuple[bytes, dict[str, int]]] = [
    (b'{"data":[{"id":"a","created":5},{"id":"b"}]}', {"a": 5, "b": 0}),
    (b'[{"id":"a","created":1.7}]', {"a": 1}),
    (b'{"data":[{"id":"a"},{"id":"a","created":9},{"id":""},{"id":3},null,"x"]}', {"a": 0}),
    (
        b'{"data":[{"id":"a","created":true},{"id":"b","created":-1},{"id":"c","created":NaN}]}',
        {"a": 0, "b": 0, "c": 0},
    ),
    (b'{"data":[]}', {}),
    (b'[{"id":"%b"},{"id":"%b"}]' % (b"a" * 512, b"b" * 513), {"a" * 512: 0}),
]


@pytest.mark.parametrize(("body", "models"), LISTS)
def test_lists_of_any_shape(body: bytes, models: dict[str, int]) -> None:
    assert parse_models(FetchedAnswer(200, {}, body)) == models


@pytest.mark.parametrize(
    ("status", "body"),
    [(200, b"<html>"), (200, b"{}"), (200, b'{"data":{}}'), (404, b"[]"), (302, b""), (200, b"3")],
)
def test_what_is_no_list(status: int, body: bytes) -> None:
    with pytest.raises(UpstreamFault):
        parse_models(FetchedAnswer(status, {}, body))


class Asked:
    """Stands for an upstream that lists its models when it is told to."""

    def __init__(self, tasks: anyio.abc.TaskGroup) -> None:
        self.tasks = tasks
        self.now = 0.0
        self.times = 0
        self.troubles = 0
        self.answer: dict[str, int] | None = None
        self.go = anyio.Event()
        self.listing = ModelList(self.fetch, self.spawn, self.hear, clock=lambda: self.now)

    def spawn(self, task: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self.tasks.start_soon(task)

    async def fetch(self) -> dict[str, int]:
        self.times += 1
        await self.go.wait()
        if self.answer is None:
            raise backend_fault("away")
        return self.answer

    def hear(self, _: UpstreamFault) -> None:
        self.troubles += 1

    async def answers(self, answer: dict[str, int] | None) -> None:
        self.answer, go = answer, self.go
        go.set()
        for _ in range(5):
            await checkpoint()
        self.go = anyio.Event()


@asynccontextmanager
async def asked() -> AsyncIterator[tuple[Asked, anyio.abc.TaskGroup]]:
    async with anyio.create_task_group() as tasks:
        yield Asked(tasks), tasks
        tasks.cancel_scope.cancel()


async def test_only_the_first_list_is_waited_for_and_asked_for_once() -> None:
    async with asked() as (upstream, tasks):
        got: list[Any] = []

        async def look() -> None:
            got.append(await upstream.listing.get())

        for _ in range(3):
            tasks.start_soon(look)
        for _ in range(3):
            await checkpoint()
        assert (upstream.times, got) == (1, [])
        await upstream.answers({"a": 1})
        assert (upstream.times, got) == (1, [{"a": 1}] * 3)


async def test_an_old_list_is_served_while_a_new_one_is_fetched() -> None:
    async with asked() as (upstream, _):
        upstream.listing.refresh_if_due()
        await upstream.answers({"a": 1})
        upstream.now = FRESH_SECONDS - 1
        assert await upstream.listing.get() == {"a": 1}
        assert upstream.times == 1
        upstream.now = FRESH_SECONDS
        assert await upstream.listing.get() == {"a": 1}
        await upstream.answers({"b": 1})
        assert upstream.times == 2
        assert await upstream.listing.get() == {"b": 1}


async def test_whoever_must_know_waits_for_the_new_one() -> None:
    async with asked() as (upstream, tasks):
        upstream.listing.refresh_if_due()
        await upstream.answers({"a": 1})
        upstream.now = FRESH_SECONDS
        got: list[Any] = []

        async def look() -> None:
            got.append(await upstream.listing.get(wait=True))

        tasks.start_soon(look)
        await checkpoint()
        assert got == []
        await upstream.answers({"b": 1})
        assert got == [{"b": 1}]


async def test_one_that_is_away_keeps_its_list_and_is_waited_for_no_more() -> None:
    async with asked() as (upstream, _):
        upstream.listing.refresh_if_due()
        await upstream.answers({"a": 1})
        upstream.now = FRESH_SECONDS
        upstream.listing.refresh_if_due()
        await upstream.answers(None)
        assert upstream.troubles == 1
        assert await upstream.listing.get(wait=True) == {"a": 1}
        assert upstream.times == 2
        upstream.now += RETRY_SECONDS
        assert await upstream.listing.get(wait=True) == {"a": 1}
        await upstream.answers({"b": 1})
        assert upstream.times == 3
        assert await upstream.listing.get() == {"b": 1}


async def test_one_that_was_never_there_has_no_list() -> None:
    async with asked() as (upstream, _):
        upstream.listing.refresh_if_due()
        await upstream.answers(None)
        assert await upstream.listing.get() is None
        upstream.now = RETRY_SECONDS
        assert await upstream.listing.get(wait=True) is None
        await checkpoint()
        assert upstream.times == 2
