"""One gateway between several scripted upstreams and one judged client."""

from __future__ import annotations

from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gateway.config.settings import Settings
from gateway.config.upstream_tables import read
from tests.support.client import Client, connect
from tests.support.error_log import expect_no_errors
from tests.support.gateway import running
from tests.support.gateway_stand import Stand
from tests.support.upstream import ScriptedUpstream, upstream

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from tests.support.exchange import Exchange


@dataclass
class Several:
    """`fakes` are the upstreams by name."""

    fakes: dict[str, ScriptedUpstream]
    client: Client
    url: str
    errors: list[Any]

    def __getitem__(self, name: str) -> Stand:
        """The stand of one upstream; the client is everybody's."""
        return Stand(self.fakes[name], self.client, self.url, self.errors)

    def asked(self) -> dict[str, int]:
        """How many requests each upstream has had."""
        return {name: len(fake.exchanges) for name, fake in self.fakes.items()}


@asynccontextmanager
async def several(
    tables: dict[str, dict[str, Any]],
    scripts: dict[str, Callable[[Exchange], Any]] | None = None,
    *,
    headers: dict[str, str] | None = None,
    **settings: Any,
) -> AsyncIterator[Several]:
    """`tables` are those of multilane.toml by name; each without a `url` is a fake."""
    async with AsyncExitStack() as stack:
        fakes = {
            name: await stack.enter_async_context(upstream((scripts or {}).get(name)))
            for name, table in tables.items()
            if "url" not in table
        }
        made = [
            {"name": name, "retries": 0, **({"url": fakes[name].url} if name in fakes else {})}
            | table
            for name, table in tables.items()
        ]
        errors = stack.enter_context(expect_no_errors())
        base = Settings(**{"dialect": "openai", **settings})
        all_of_them = base.model_copy(update={"upstreams": read(made, base)})
        url = await stack.enter_async_context(running(all_of_them))
        client = await stack.enter_async_context(connect(url, headers=headers))
        yield Several(fakes, client, url, errors)


def listing(*names: str, others: Callable[[Exchange], Any] | None = None) -> Any:
    """A script that lists these models; `others` answers what is not asked for a list."""

    async def script(exchange: Exchange) -> None:
        if exchange.path.startswith("/v1/models"):
            data = [{"id": name, "object": "model", "created": 7} for name in names]
            await exchange.reply(200, {"object": "list", "data": data})
        elif others is not None:
            for chunk in others(exchange):
                await exchange.send(chunk)
            await exchange.end()

    return script
