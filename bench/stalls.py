"""The longest stall of a gateway's event loop that a peer causes (D33).

The gateway runs in a process of its own (bench/probed_gateway.py), and an upstream here answers it.

- Each large frame is sent on a connection of its own; what the gateway accepts is answered, stored,
  read back and continued once.
- Each large request over HTTP is answered.
- Each crowd of clients sends many frames at once (bench/crowds.py).
- Each large answer is relayed, stored, read back and continued once; and read back by itself.

`--dialect chat` and `--upstream https` or `websocket` have other requests made of a frame.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import socket
import subprocess
import sys
import urllib.request
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.error import HTTPError
from urllib.request import Request

from websockets.asyncio.client import connect

from bench.crowds import CROWDS, send_crowd
from bench.measure import environment
from bench.stalling_frames import FRAMES, REQUESTS, body
from bench.stalling_upstreams import answers, short, upstream

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from websockets.asyncio.client import ClientConnection

_ROOT = Path(__file__).resolve().parents[1]
_ENDS = (
    *("error", "response.steer.failed"),
    *("response.completed", "response.incomplete", "response.failed"),
)
_CREATE = {"type": "response.create", "model": "m", "input": "x"}


@dataclass(frozen=True, slots=True)
class Way:
    """How a gateway is set up.

    Attributes:
        dialect: The upstream's dialect.
        upstream: `http`, `https` or `websocket`.
        redis_url: Its store.
    """

    dialect: str = "openai"
    upstream: str = "http"
    redis_url: str = "memory"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of something: the longest stall, where it was, and how it ended."""

    stall_ms: float
    where: str
    ended: str


class ProbedGateway:
    """The gateway's process, at `port`.

    Args:
        way: How it is set up.
        options: The options that make it ask an upstream, and a certificate if that needs one.
    """

    def __init__(self, way: Way, options: Sequence[str]) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port: int = free.getsockname()[1]
        words = ["--port", str(self.port), "--dialect", way.dialect, "--redis-url", way.redis_url]
        if options[-1].endswith(".pem"):
            *options, certificate = options
        else:
            certificate = ""
        self._child = subprocess.Popen(
            [sys.executable, "-m", "bench.probed_gateway", *words, *options],
            cwd=_ROOT,
            env={**os.environ, **({"SSL_CERT_FILE": certificate} if certificate else {})},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )

    async def longest(self) -> tuple[float, str]:
        """Return the longest stall since this was asked before, in milliseconds, and where."""
        return await asyncio.to_thread(self._ask)

    def _ask(self) -> tuple[float, str]:
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        self._child.stdin.write(b"\n")
        self._child.stdin.flush()
        milliseconds, _, where = self._child.stdout.readline().decode().strip().partition(" ")
        return float(milliseconds), where.removeprefix(f"{_ROOT}/")

    def stop(self) -> None:
        """End the process."""
        self._child.terminate()
        self._child.communicate()


@asynccontextmanager
async def _gateway(way: Way, events: list[dict[str, Any]]) -> AsyncIterator[ProbedGateway]:
    async with upstream(way.upstream, events) as options:
        gateway = ProbedGateway(way, options)
        try:
            await gateway.longest()  # it answers once it serves
            yield gateway
        finally:
            gateway.stop()


async def _end(client: ClientConnection) -> dict[str, Any]:
    """Return the event that ends what was sent."""
    while True:
        event: dict[str, Any] = json.loads(await client.recv())
        if event["type"] in _ENDS:
            return event


def _read_back(url: str) -> None:
    """Wait until a response is stored, and read it; one that was too large is not there."""
    with suppress(HTTPError):
        urllib.request.urlopen(url).read()


async def _measured(gateway: ProbedGateway, frame: bytes) -> Outcome:
    """Send a frame, and read back and continue what came of it."""
    url = f"127.0.0.1:{gateway.port}/v1/responses"
    async with connect(f"ws://{url}", max_size=None, ping_interval=None) as client:
        await gateway.longest()
        await client.send(frame.decode())
        event = await _end(client)
        if event["type"] != "response.completed":
            error = event.get("error") or event["response"]["error"]
            return Outcome(*await gateway.longest(), error["code"])
        parent = event["response"]["id"]
        await asyncio.to_thread(_read_back, f"http://{url}/{parent}")
        await asyncio.to_thread(_read_back, f"http://{url}/{parent}/input_items")
        await client.send(json.dumps({**_CREATE, "previous_response_id": parent}))
        ended = (await _end(client))["type"]
        return Outcome(*await gateway.longest(), ended)


async def frames(way: Way, size: int, names: Sequence[str] = ()) -> dict[str, Outcome]:
    """Return what came of each frame.

    Args:
        way: How the gateway is set up.
        size: Bytes of each frame, roughly.
        names: The frames to send; all if there are none.
    """
    async with _gateway(way, short(way.dialect)) as gateway:
        return {name: await _measured(gateway, FRAMES[name](size)) for name in names or FRAMES}


async def requests(way: Way, size: int) -> dict[str, Outcome]:
    """Return what came of each request over HTTP; its status is how it ended.

    Args:
        way: How the gateway is set up.
        size: Bytes of each request, roughly.
    """
    outcomes = {}
    data = body(size)
    async with _gateway(way, short(way.dialect)) as gateway:
        for name, (path, headers) in REQUESTS.items():
            await gateway.longest()
            url = f"http://127.0.0.1:{gateway.port}/v1/responses{path}"
            lines = {"content-type": "application/json", **headers}
            status, _ = await asyncio.to_thread(_answer, Request(url, data, lines))
            outcomes[name] = Outcome(*await gateway.longest(), str(status))
    return outcomes


def _answer(request: Request) -> tuple[int, bytes]:
    """Return the status and the body of the answer to a request."""
    try:
        with urllib.request.urlopen(request) as answer:
            return answer.status, answer.read()
    except HTTPError as error:
        return error.code, b""


async def crowds() -> dict[str, Outcome]:
    """Return what came of each crowd; how long `/health` took is how it ended."""
    outcomes = {}
    async with _gateway(Way(), short("openai")) as gateway:
        for name in CROWDS:
            await gateway.longest()
            slowest = await send_crowd(gateway.port, name)
            outcomes[name] = Outcome(*await gateway.longest(), f"/health {slowest:.0f} ms")
    return outcomes


async def large_answers(way: Way, size: int) -> dict[str, Outcome]:
    """Return what came of each answer.

    Args:
        way: How the gateway is set up, but for the dialect.
        size: Bytes of each answer, roughly.
    """
    outcomes = {}
    for name, events in answers(size).items():
        async with _gateway(way, events) as gateway:
            outcomes[name] = await _measured(gateway, json.dumps(_CREATE).encode())
    return outcomes


async def stored_answers(way: Way, size: int) -> dict[str, Outcome]:
    """Return what came of reading each answer back, as an object and as events.

    Args:
        way: How the gateway is set up, but for the dialect.
        size: Bytes of each answer, roughly.
    """
    outcomes = {}
    for name, events in answers(size).items():
        async with _gateway(way, events) as gateway:
            url = f"http://127.0.0.1:{gateway.port}/v1/responses"
            create = Request(
                url, json.dumps(_CREATE).encode(), {"content-type": "application/json"}
            )
            _, body = await asyncio.to_thread(_answer, create)
            url = f"{url}/{json.loads(body)['id']}"
            await gateway.longest()
            asked = [Request(url + query) for query in ("", "?stream=true")]
            statuses = {(await asyncio.to_thread(_answer, one))[0] for one in asked}
            outcomes[name] = Outcome(*await gateway.longest(), str(*statuses))
    return outcomes


async def _all(way: Way, size: int, names: Sequence[str]) -> dict[str, Outcome]:
    """Return what came of everything, or of the frames with these names."""
    outcomes = await frames(way, size, names)
    if not names:
        outcomes |= await requests(way, size)
        outcomes |= {f"{name}, 6 clients": found for name, found in (await crowds()).items()}
        many = await large_answers(way, size // 8)
        outcomes |= {f"answer: {name}": found for name, found in many.items()}
        many = await stored_answers(way, size // 8)
        outcomes |= {f"stored: {name}": found for name, found in many.items()}
    return outcomes


def main() -> None:
    """Print a table, or JSON with `--json`."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dialect", default="openai", help="the upstream's [openai]")
    parser.add_argument("--upstream", default="http", help="http, https or websocket [http]")
    parser.add_argument("--size", type=int, default=60_000_000, help="bytes a frame [60000000]")
    parser.add_argument("--redis-url", default="memory", help="the gateway's store [memory]")
    parser.add_argument("--frame", action="append", default=[], help="one frame, repeatable [all]")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args()
    way = Way(options.dialect, options.upstream, options.redis_url)
    outcomes = asyncio.run(_all(way, options.size, options.frame))
    if options.json:
        rows = {name: outcome.stall_ms for name, outcome in outcomes.items()}
        print(json.dumps({"title": "Longest stalls", "ms": rows, **environment()}))
        return
    print("The longest stalls, ms of CPU time\n")
    for name, outcome in outcomes.items():
        print(f"  {name:<36}{outcome.stall_ms:8.1f}  {outcome.ended:<20}{outcome.where}")
    print("\n" + ", ".join(f"{name} {value}" for name, value in environment().items()))


if __name__ == "__main__":
    main()
