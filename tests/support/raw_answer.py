"""An HTTP answer read by hand, from a connection that ends with it."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any, NamedTuple

import anyio

from tests.support.hang_guard import HANG

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tests.support.raw_client import Raw

WEBSOCKET = (
    "Host: 127.0.0.1",
    "Upgrade: websocket",
    "Connection: Upgrade",
    "Sec-WebSocket-Version: 13",
    "Sec-WebSocket-Key: MDEyMzQ1Njc4OWFiY2RlZg==",
)


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def error(self) -> dict[str, Any]:
        """The error of a refusal, in the form of every error over HTTP."""
        assert self.headers["content-type"] == "application/json", self
        said = json.loads(self.body)
        assert said.keys() == {"error"}
        assert said["error"].keys() == {"type", "code", "message", "param"}
        error: dict[str, Any] = said["error"]
        return error


def head(lines: Iterable[str], first: str = "GET /v1/responses HTTP/1.1") -> bytes:
    """A request's head."""
    return "\r\n".join([first, *lines, "", ""]).encode("latin-1")


async def rest(client: Raw, timeout: float = HANG) -> bytes:
    """All bytes up to the gateway's end; a reset raises ConnectionError."""
    got = b""
    with anyio.fail_after(timeout):
        while data := await asyncio.get_running_loop().sock_recv(client.sock, 1 << 16):
            got += data
    return got


def parsed(data: bytes) -> tuple[Answer, bytes]:
    """The first answer in these bytes, and what is behind it."""
    top, found, behind = data.partition(b"\r\n\r\n")
    assert found, data
    first, *lines = top.decode("latin-1").split("\r\n")
    headers: dict[str, str] = {}
    for line in lines:
        name, _, value = line.partition(": ")
        known = headers.get(name.lower())
        headers[name.lower()] = value if known is None else f"{known}, {value}"
    size = int(headers["content-length"])
    return Answer(int(first.split()[1]), headers, behind[:size]), behind[size:]


async def last_answer(client: Raw, timeout: float = HANG) -> Answer:
    """The only answer on this connection, which the gateway ends behind it."""
    answer, behind = parsed(await rest(client, timeout))
    assert not behind
    assert "close" in answer.headers["connection"].split(", ")
    return answer


async def one_answer(client: Raw) -> Answer:
    """The next answer on a connection that goes on."""
    got = b""
    with anyio.fail_after(HANG):
        while b"\r\n\r\n" not in got or _lacking(got):
            data = await asyncio.get_running_loop().sock_recv(client.sock, 1 << 16)
            assert data, got
            got += data
    answer, behind = parsed(got)
    assert not behind
    return answer


def _lacking(got: bytes) -> bool:
    return len(parsed(got)[0].body) < int(parsed(got)[0].headers["content-length"])
