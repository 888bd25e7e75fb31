"""A gateway with a response, one in the background and a conversation, and its routes over HTTP.

Whoever asks it for something wrong has the answer checked: an error as the reference has it.
"""

from __future__ import annotations

import json
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gateway.config.settings import Settings
from tests.support.events import reply
from tests.support.gateway import running
from tests.support.http_client import Answer, requested
from tests.support.upstream import upstream

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

MINE, OTHERS = {"authorization": "Bearer sk-1"}, {"authorization": "Bearer sk-2"}
JSON = {"content-type": "application/json"}
#: The gateway's own routes and the methods they have. {r} is a response, {b} one in the
#: background, {c} a conversation, {i} an item in it.
ROUTES = {
    "/responses": "POST",
    "/responses/input_tokens": "POST",
    "/responses/compact": "POST",
    "/responses/{r}": "GET DELETE",
    "/responses/{b}": "GET DELETE",
    "/responses/{r}/cancel": "POST",
    "/responses/{r}/input_items": "GET",
    "/responses/{r}/steers": "GET",
    "/steers/{r}": "GET",
    "/conversations": "POST",
    "/conversations/{c}": "GET POST DELETE",
    "/conversations/{c}/items": "GET POST",
    "/conversations/{c}/items/{i}": "GET DELETE",
    "/models": "GET",
    "/models/none": "GET",
}
#: Those that may be the name of a response as well, when another method asks.
NAMES = ["/responses/input_tokens", "/responses/compact"]
#: Those that read a body.
BODIES = [
    "/responses",
    "/responses/input_tokens",
    "/responses/compact",
    "/conversations",
    "/conversations/{c}",
    "/conversations/{c}/items",
]
LISTS = ["/responses/{r}/input_items", "/responses/{b}/input_items", "/conversations/{c}/items"]


@dataclass
class Asked:
    """A gateway with something stored, for one of two keys."""

    url: str
    names: dict[str, str]

    def named(self, path: str) -> str:
        """Return a path with the names of what there is in it."""
        for mark, name in self.names.items():
            path = path.replace(f"{{{mark}}}", name)
        return path

    async def ask(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        headers: dict[str, str] | None = None,
    ) -> tuple[Answer, dict[str, Any]]:
        """Ask, and return the answer and its JSON; an error is one as the reference has it."""
        lines = {**MINE, **(headers or {})}
        path = self.named(path)
        async with requested(self.url, method, path, body, lines, judged=False) as answer:
            if answer.headers.get("content-type", "").startswith("text/event-stream"):
                return answer, {}
            if method == "HEAD":
                return answer, {}
            said = await answer.json()
        if answer.status >= 400:
            _is_error(answer.status, said)
        return answer, said

    async def refused(
        self, status: int, method: str, path: str, body: bytes | None = None, **headers: str
    ) -> dict[str, Any]:
        """Ask what is refused with this status; return the error."""
        lines = {name.replace("_", "-"): value for name, value in headers.items()}
        answer, said = await self.ask(method, path, body, lines)
        assert answer.status == status, (method, path, body and body[:80], said)
        error: dict[str, Any] = said["error"]
        return error


def _is_error(status: int, said: Any) -> None:
    assert said.keys() == {"error"}, said
    error = said["error"]
    assert error.keys() == {"type", "code", "message", "param"}
    assert error["message"]
    assert isinstance(error["code"], str)
    assert error["param"] is None or isinstance(error["param"], str)
    server = {"server_error"} if status >= 500 else {"invalid_request_error"}
    assert error["type"] in server or status in (401, 429, 501), error


@asynccontextmanager
async def stored_things(**more: Any) -> AsyncIterator[Asked]:
    settings: dict[str, Any] = {"api_keys": ("sk-1", "sk-2"), "max_frame_bytes": 100_000, **more}
    async with (
        upstream(lambda _: reply("ok")) as fake,
        running(Settings(upstream=fake.url, dialect="openai", **settings)) as url,
    ):
        asked = Asked(url, {})
        create = {"model": "m", "input": "hi"}
        made = {
            "r": ("/responses", create),
            "b": ("/responses", {**create, "background": True}),
            "c": ("/conversations", {"items": [{"role": "user", "content": "x"}]}),
        }
        for name, (path, body) in made.items():
            _, said = await asked.ask("POST", path, json.dumps(body).encode(), JSON)
            asked.names[name] = said["id"]
        path = f"/responses/{asked.names['b']}?stream=true"
        async with requested(url, "GET", path, None, MINE) as answer:
            await answer.events()
        _, items = await asked.ask("GET", "/conversations/{c}/items")
        asked.names["i"] = items["data"][0]["id"]
        before = await _all(asked)
        yield asked
        # Nothing of it was lost, and nothing was added.
        assert await _all(asked) == before


async def _all(asked: Asked) -> list[Any]:
    paths = ["/responses/{r}", "/responses/{b}", "/conversations/{c}", *LISTS]
    return [(await asked.ask("GET", path))[1] for path in paths]
