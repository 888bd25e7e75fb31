"""The longest stall of a gateway's event loop that one frame from a client causes (D33).

The gateway runs in a process of its own (bench/probed_gateway.py), and an upstream here answers it.
Each frame is sent on a connection of its own; what the gateway accepts is answered, stored, read
back and continued once. `python -m bench.stalls --dialect chat` has other requests made of it.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import socket
import subprocess
import sys
import urllib.request
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.error import HTTPError

from websockets.asyncio.client import connect

from bench.measure import environment
from bench.pipeline import sse

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from websockets.asyncio.client import ClientConnection

_ROOT = Path(__file__).resolve().parents[1]
_HEAD = b'{"type":"response.create","model":"m"'
_TEXT = b'{"role":"user","content":[{"type":"input_text","text":"%b"}]}'


def _create(field: bytes) -> bytes:
    return b"%b,%b}" % (_HEAD, field)


def _messages(count: int, text: bytes) -> bytes:
    return _create(b'"input":[%b]' % b",".join([_TEXT % text] * count))


def _image(size: int) -> bytes:
    part = b'{"type":"input_image","image_url":"data:image/png;base64,%b"}' % (
        b"QUJD" * (size // 4)
    )
    return _create(b'"input":[{"role":"user","content":[%b]}]' % part)


def _steer(size: int) -> bytes:
    head = b'{"type":"response.steer","previous_response_id":"resp_0","input":"%b"}'
    return head % (b"x" * size)


#: Makes each frame of roughly the given number of bytes.
FRAMES: dict[str, Callable[[int], bytes]] = {
    "empty arrays": lambda n: _create(b'"input":[%b[]]' % (b"[]," * (n // 3))),
    "items": lambda n: _messages(n // 60, b"x"),
    "pairs of metadata": lambda n: _create(
        b'"input":"x","metadata":{%b}' % b",".join(b'"%x":"x"' % i for i in range(n // 14))
    ),
    "one base64 string": _image,
    "strings of 30 KB": lambda n: _messages(n // 30_000, b"word " * 6000),
    "nested arrays": lambda n: _create(b'"input":' + b"[" * n),
    "escapes": lambda n: _messages(1, b"\\u0041" * (n // 6)),
    "numbers": lambda n: _create(b'"input":[{"k":[%b1]}]' % (b"1234567," * (n // 8))),
    "tools": lambda n: _create(
        b'"input":"x","tools":[%b{}]' % (b'{"type":"function","name":"f"},' * (n // 31))
    ),
    "a steer": _steer,
    "instructions": lambda n: _create(b'"input":"x","instructions":"%b"' % (b"x" * n)),
    "a small frame of items": lambda _: _create(b'"input":[%b{}]' % (b"{}," * 21_000)),
    "as many items as go": lambda _: _messages(9_000, b"x"),
    "as many values as go": lambda _: _create(
        b'"input":[%b]'
        % b",".join([b'{"role":"user","content":[%b]}' % (b"[]," * 24_000 + b"0")] * 5)
    ),
    "as many escapes as go": lambda _: _messages(1, b"\\u0041" * (16_700_000 // 6)),
    "as many settings as go": lambda _: _create(
        b'"input":"x","tools":[%b{}],"instructions":"%b"'
        % (b'{"type":"function","name":"f"},' * 8_000, b"\\n" * 1_700_000)
    ),
}


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of one frame: the longest stall, and how it ended."""

    stall_ms: float
    ended: str


class Upstream(asyncio.Protocol):
    """Reads whole requests, undecoded, and answers each with one short text."""

    def __init__(self, answer: bytes) -> None:
        self._answer = answer
        self._head = b""
        self._left = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Count the body's bytes, and answer after the last."""
        if not self._left:
            self._head += data
            head, end, data = self._head.partition(b"\r\n\r\n")
            if not end:
                return
            fields = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:])
            self._head, self._left = b"", int(fields[b"content-length"])
        self._left -= len(data)
        if not self._left:
            self._transport.write(self._answer)  # type: ignore[attr-defined]


def _answer(dialect: str) -> bytes:
    """Return the whole HTTP answer of an upstream of this dialect."""
    if dialect == "chat":
        choice = {"index": 0, "delta": {"role": "assistant", "content": "ok"}}
        body = (
            b"data: %b\n\ndata: [DONE]\n\n"
            % json.dumps({"choices": [{**choice, "finish_reason": "stop"}]}).encode()
        )
    else:
        content = [{"type": "output_text", "text": "ok", "annotations": []}]
        item = {"id": "msg_1", "type": "message", "role": "assistant", "content": content}
        response = {"id": "resp_1", "status": "completed", "output": [item]}
        body = sse({"type": "response.completed", "response": response})
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: %d\r\n\r\n"
    return head % len(body) + body


class ProbedGateway:
    """The gateway's process, at `port`.

    Args:
        upstream: The upstream's port.
        dialect: The upstream's dialect.
        options: More options of `multilane serve`.
    """

    def __init__(self, upstream: int, dialect: str, options: Sequence[str]) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port: int = free.getsockname()[1]
        words = ["--port", str(self.port), "--upstream", f"http://127.0.0.1:{upstream}/v1"]
        self._child = subprocess.Popen(
            [sys.executable, "-m", "bench.probed_gateway", *words, "--dialect", dialect, *options],
            cwd=_ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )

    async def longest(self) -> float:
        """Return the longest stall, in milliseconds, since this was asked before."""
        return await asyncio.to_thread(self._ask)

    def _ask(self) -> float:
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        self._child.stdin.write(b"\n")
        self._child.stdin.flush()
        return float(self._child.stdout.readline())

    def stop(self) -> None:
        """End the process."""
        self._child.terminate()
        self._child.communicate()


@contextmanager
def _gateway(upstream: int, dialect: str, options: Sequence[str]) -> Iterator[ProbedGateway]:
    gateway = ProbedGateway(upstream, dialect, options)
    try:
        yield gateway
    finally:
        gateway.stop()


async def _end(client: ClientConnection) -> dict[str, Any]:
    """Return the event that ends what was sent."""
    while True:
        event: dict[str, Any] = json.loads(await client.recv())
        if event["type"] in ("error", "response.steer.failed", "response.completed"):
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
            return Outcome(await gateway.longest(), event["error"]["code"])
        parent = event["response"]["id"]
        await asyncio.to_thread(_read_back, f"http://{url}/{parent}")
        more = {"type": "response.create", "model": "m", "input": "x"}
        await client.send(json.dumps({**more, "previous_response_id": parent}))
        ended = (await _end(client))["type"]
        return Outcome(await gateway.longest(), ended)


async def measure(
    dialect: str, size: int, options: Sequence[str] = (), names: Sequence[str] = ()
) -> dict[str, Outcome]:
    """Return what came of each frame.

    Args:
        dialect: The upstream's.
        size: Bytes of each frame, roughly.
        options: More options of `multilane serve`.
        names: The frames to send; all if there are none.
    """
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Upstream(_answer(dialect)), "127.0.0.1", 0)
    with _gateway(server.sockets[0].getsockname()[1], dialect, options) as gateway:
        await gateway.longest()  # it answers once it serves
        outcomes = {}
        for name in names or FRAMES:
            outcomes[name] = await _measured(gateway, FRAMES[name](size))
    server.close()
    return outcomes


def main() -> None:
    """Print a table, or JSON with `--json`."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dialect", default="openai", help="the upstream's [openai]")
    parser.add_argument("--size", type=int, default=60_000_000, help="bytes a frame [60000000]")
    parser.add_argument("--redis-url", default="memory", help="the gateway's store [memory]")
    parser.add_argument("--frame", action="append", default=[], help="one frame, repeatable [all]")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args()
    store = ("--redis-url", options.redis_url)
    outcomes = asyncio.run(measure(options.dialect, options.size, store, options.frame))
    if options.json:
        rows = {name: outcome.stall_ms for name, outcome in outcomes.items()}
        print(json.dumps({"title": "Longest stalls", "ms": rows, **environment()}))
        return
    print("The longest stall that one frame causes, ms\n")
    for name, outcome in outcomes.items():
        print(f"  {name:<24}{outcome.stall_ms:8.1f}  {outcome.ended}")
    print("\n" + ", ".join(f"{name} {value}" for name, value in environment().items()))


if __name__ == "__main__":
    main()
