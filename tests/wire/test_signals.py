"""How signals end the process."""

from __future__ import annotations

import signal
import socket
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

import pytest

from tests.support.client import connect
from tests.support.events import created, delta, in_progress, opened
from tests.support.exchange import hung_up
from tests.support.raw_answer import WEBSOCKET, head
from tests.support.raw_client import CLOSE, frame, tcp
from tests.support.serve_process import process
from tests.support.wire_stand import shape, started

if TYPE_CHECKING:
    from pathlib import Path

#: What ends before a test gives up has not waited for this.
LONG = ("--drain-timeout", "3600")
TERM, INT = signal.SIGTERM, signal.SIGINT


@pytest.mark.parametrize("sig", [TERM, INT])
async def test_nothing_to_wait_for(sig: signal.Signals, tmp_path: Path) -> None:
    async with process(tmp_path, *LONG) as own, connect(own.url) as client:
        own.child.send_signal(sig)
        assert await client.closed() == (1012, "service restart")
        await own.ends()


async def test_running_responses_finish_first(tmp_path: Path) -> None:
    async with process(tmp_path, "--max-active", "1", *LONG) as own, connect(own.url) as client:
        lane = await started(own.fake, client, "a")
        await client.create("b")
        own.child.send_signal(TERM)
        assert shape(await client.event())[3] == "b"
        await lane.says("in time")
        await lane.ends()
        assert await client.closed() == (1012, "service restart")
        await own.ends()


async def test_over_the_timeout_they_fail(tmp_path: Path) -> None:
    async with process(tmp_path, "--drain-timeout", "0.3") as own, connect(own.url) as client:
        lane = await started(own.fake, client, "a")
        own.child.send_signal(TERM)
        assert (await client.ended("a"))["status"] == "failed"
        assert await client.closed() == (1012, "service restart")
        await hung_up(lane.exchange)
        await own.ends()


def told(log: str) -> list[str]:
    """Return the lines of a log that are not of single connections and responses."""
    return [line for line in log.splitlines() if " multilane.access: " not in line]


@pytest.mark.parametrize(("first", "second"), [(TERM, TERM), (TERM, INT), (INT, INT)])
async def test_a_second_signal_ends_at_once(
    first: signal.Signals, second: signal.Signals, tmp_path: Path
) -> None:
    async with process(tmp_path, *LONG) as own, connect(own.url) as client:
        lane = await started(own.fake, client, "a")
        await client.create("a")
        own.child.send_signal(first)
        assert shape(await client.event())[3] == "a"
        own.child.send_signal(second)
        await hung_up(lane.exchange)
        assert (await client.closed())[0] == 1012
        said = told(await own.ends())[-3:]
    assert said[0].endswith("draining 1 connection, 3600 s at most")
    assert said[1].endswith("not waiting for 1 connection")
    assert said[2].endswith("stopped at once")


def request(path: str, body: bytes, *lines: str) -> bytes:
    """A POST with this body."""
    fields = ("Host: a", "Content-Type: application/json", f"Content-Length: {len(body)}", *lines)
    return head(fields, f"POST {path} HTTP/1.1") + body


CREATE = b'{"model":"m","input":"hi","store":false%b}'
#: Requests that wait for the backend.
ASKED = {
    "whole": request("/v1/responses", CREATE % b""),
    "stream": request("/v1/responses", CREATE % b',"stream":true'),
    "keyed": request("/v1/responses", CREATE % b"", "Idempotency-Key: one"),
    "background": request("/v1/responses", b'{"model":"m","input":"hi","background":true}'),
    "count": request("/v1/responses/input_tokens", CREATE % b""),
    "compact": request("/v1/responses/compact", CREATE % b""),
    "passed on": request("/v1/embeddings", b'{"input":"hi"}'),
}
#: What the gateway waits for itself.
UNASKED = {
    "nothing": b"",
    "half a head": b"GET /v1/resp",
    "half a body": request("/v1/responses", CREATE % b"")[:-5],
    "half a body that is refused": request("/nowhere", CREATE % b"")[:-5],
    "an answered request": head(["Host: a"], "GET /health HTTP/1.1"),
    "a last one": head(["Host: a", "Connection: close"], "GET /health HTTP/1.1"),
    "a refused head": head(["Host: a, b"]),
    "a socket": head(WEBSOCKET),
    "a broken frame": head(WEBSOCKET) + b"\xff\xff",
    "half a frame": head(WEBSOCKET) + b"\x81\xfe\x10",
    "a close frame": head(WEBSOCKET) + frame(b"\x03\xe8", CLOSE),
}


@pytest.mark.parametrize("begun", [False, True])
@pytest.mark.parametrize("way", ["stay", "half", "reset"])
async def test_it_ends_in_order_whatever_its_clients_do(
    way: str, tmp_path: Path, *, begun: bool
) -> None:
    """Each request is in the same state; the clients stay, send no more, or leave as it stops."""
    async with process(tmp_path, "--drain-timeout", "0.5") as own, AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(tcp(own.port)) for _ in (*ASKED, *UNASKED)]
        for client, data in zip(clients, (*ASKED.values(), *UNASKED.values()), strict=True):
            await client.write(data)
        for _ in ASKED:
            exchange = await own.fake.next()
            if begun:
                await exchange.send(created(), in_progress(), *opened(), delta("one"))
        own.child.send_signal(TERM)
        for client in clients:
            if way == "half":
                client.sock.shutdown(socket.SHUT_WR)
            elif way == "reset":
                client.abort()
        await own.ends()


async def test_how_it_ends_is_told(tmp_path: Path) -> None:
    async with process(tmp_path, *LONG) as own, connect(own.url), connect(own.url) as client:
        own.child.send_signal(TERM)
        assert await client.closed() == (1012, "service restart")
        said = told(await own.ends())
    assert f"ws://127.0.0.1:{own.port}/v1/responses -> {own.fake.url}" in said[0]
    assert said[1].endswith("draining 2 connections, 3600 s at most")
    assert said[2].endswith("drained")
    assert said[3].endswith("stopped")
