"""A gateway that asks a scripted backend what it is, with one client."""

from __future__ import annotations

import logging
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import anyio

from gateway.config.settings import Settings
from gateway.upstream.detection.rules import UNKNOWN_RESPONSE_ID
from tests.support.client import Client, connect
from tests.support.events import data, reply
from tests.support.gateway import running
from tests.support.hang_guard import HANG
from tests.support.upstream import ScriptedUpstream, upstream

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    import pytest

    from tests.support.exchange import Exchange

NOT_FOUND = (404, {"detail": "Not Found"})
LOADING = (503, {"error": {"message": "Loading model", "code": 503}})
RESPONSE = (200, {"id": "resp_a1", "object": "response", "status": "completed", "output": []})
UNKNOWN_ID = (404, {"error": {"message": f"Response with id '{UNKNOWN_RESPONSE_ID}' not found."}})

CHAT = [
    data({"choices": [{"index": 0, "delta": {"content": "ok"}}]}),
    data({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}),
    data("[DONE]"),
]


def models(owner: str, *names: str) -> tuple[int, dict[str, Any]]:
    data = [{"id": name, "object": "model", "owned_by": owner} for name in names or ("m1", "m2")]
    return 200, {"object": "list", "data": data}


@dataclass
class Scripted:
    """Answers each place as told; a stream that is asked for comes, if there is a place for it.

    What `first` holds for a place is its first answers; `silent` places never answer.
    """

    answers: dict[str, tuple[int, Any]]
    headers: Mapping[str, str]
    gate: anyio.Event | None = None
    first: dict[str, list[tuple[int, Any]]] = field(default_factory=dict)
    silent: tuple[str, ...] = ()

    async def __call__(self, exchange: Exchange) -> None:
        place = exchange.path.removeprefix("/v1")
        if self.gate is not None:
            await self.gate.wait()
        if place in self.silent:
            await exchange.hang()
            return
        first = self.first.get(place)
        status, body = first.pop(0) if first else self.answers.get(place, NOT_FOUND)
        if place != "/models" and exchange.body.get("stream"):
            await exchange.send(*(CHAT if place == "/chat/completions" else reply("ok")))
            await exchange.end()
        else:
            await exchange.reply(status, body, self.headers)


@dataclass
class Auto:
    fake: ScriptedUpstream
    backend: Scripted
    client: Client
    url: str
    caplog: pytest.LogCaptureFixture

    def lines(self, level: int = logging.INFO) -> list[str]:
        """What the log tells of the backend."""
        return [
            one.getMessage()
            for one in self.caplog.records
            if one.name == "multilane.upstream" and one.levelno == level
        ]

    async def log_line(self) -> str:
        """Wait for the line that names the dialect."""
        with anyio.fail_after(HANG):
            while not (  # noqa: ASYNC110 - a line in a log is no event
                lines := [line for line in self.lines() if ": dialect " in line]
            ):
                await anyio.sleep(0.005)
        [line] = lines
        return line

    def asked(self) -> list[str]:
        return [exchange.path.removeprefix("/v1") for exchange in self.fake.exchanges]

    async def answered(self) -> None:
        await self.client.create(input="hi")
        assert (await self.client.ended())["status"] == "completed"


@asynccontextmanager
async def auto(
    caplog: pytest.LogCaptureFixture,
    answers: dict[str, tuple[int, Any]],
    *,
    headers: Mapping[str, str] | None = None,
    gate: anyio.Event | None = None,
    key: str | None = None,
    retries: int = 0,
    first: dict[str, list[tuple[int, Any]]] | None = None,
    silent: tuple[str, ...] = (),
    **settings: Any,
) -> AsyncIterator[Auto]:
    caplog.set_level(logging.INFO, logger="multilane")
    backend = Scripted(answers, headers or {}, gate, first or {}, silent)
    shown = {"authorization": f"Bearer {key}"} if key else None
    async with (
        upstream(backend) as fake,
        running(Settings(upstream=fake.url, retries=retries, **settings)) as url,
        connect(url, headers=shown) as client,
    ):
        yield Auto(fake, backend, client, url, caplog)
