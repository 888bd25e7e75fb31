"""Neither keys nor content get into a log line, at any level, whatever goes wrong with them."""

from __future__ import annotations

import io
import json
import logging
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from websockets.exceptions import InvalidStatus

from gateway import logs
from tests.support.client import connect
from tests.support.events import call, created, delta, event, opened
from tests.support.http_client import posted, requested
from tests.support.wire_stand import disconnected, standing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.support.client import Client
    from tests.support.exchange import Exchange
    from tests.support.wire_stand import WireStand

#: Is in every key and every piece of content.
SECRET = "xyzzy"
KEY = f"sk-{SECRET}"
CREATE: dict[str, Any] = {
    "model": "m",
    "input": [
        {"role": "user", "content": f"a {SECRET} text"},
        {"type": "function_call", "call_id": "c1", "name": "f", "arguments": f'{{"{SECRET}":1}}'},
        {"type": "function_call_output", "call_id": "c1", "output": SECRET},
    ],
    "instructions": SECRET,
    "metadata": {SECRET: SECRET},
    "user": SECRET,
}


@contextmanager
def written(format: str) -> Iterator[io.StringIO]:
    """All that the loggers write at their lowest levels, in one format."""
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(logs.JsonFormatter() if format == "json" else logs.TextFormatter())
    root, ours = logging.getLogger(), logging.getLogger(logs.NAME)
    before = ours.level
    root.addHandler(handler)
    ours.setLevel(logging.DEBUG)
    try:
        yield stream
    finally:
        root.removeHandler(handler)
        ours.setLevel(before)


async def refusing(exchange: Exchange) -> None:
    error = {"message": f"you said {SECRET}", "code": SECRET, "type": SECRET, "param": SECRET}
    await exchange.reply(500, {"error": error})


async def denying(exchange: Exchange) -> None:
    await exchange.reply(401, {"error": {"message": f"Incorrect API key: {KEY}"}})


async def answering_with_json(exchange: Exchange) -> None:
    await exchange.reply(200, {"error": {"message": f"not for {SECRET}", "code": SECRET}})


async def answering_with_a_page(exchange: Exchange) -> None:
    await exchange.head(200, {"content-type": "text/html"})
    await exchange.write(f"<html>hello {SECRET}</html>".encode())
    await exchange.end()


async def calling_a_page_a_stream(exchange: Exchange) -> None:
    await exchange.head(200, {"content-type": "text/event-stream"})
    await exchange.write(f"<html>hello {SECRET}</html>".encode())
    await exchange.end()


async def calling_an_error_a_stream(exchange: Exchange) -> None:
    await exchange.head(200, {"content-type": "text/event-stream"})
    await exchange.write(json.dumps({"detail": SECRET, "message": SECRET}).encode())
    await exchange.end()


def streaming(*chunks: bytes) -> Callable[[Exchange], Any]:
    async def script(exchange: Exchange) -> None:
        await exchange.send(created(), *opened(), delta(f"so {SECRET}"), *chunks)
        await exchange.end()

    return script


def failed(**extra: Any) -> bytes:
    error = {"code": SECRET, "message": f"{SECRET} failed"}
    return event("response.failed", response={"status": "failed", "error": error, **extra})


BACKENDS: dict[str, Callable[[Exchange], Any]] = {
    "refuses": refusing,
    "denies": denying,
    "answers with JSON": answering_with_json,
    "answers with a page": answering_with_a_page,
    "calls a page a stream": calling_a_page_a_stream,
    "calls an error a stream": calling_an_error_a_stream,
    "breaks off": streaming(),
    "sends what is no JSON": streaming(f'data: {{"{SECRET}": \n\n'.encode()),
    "sends an unknown event": streaming(event(f"response.{SECRET}", text=SECRET)),
    "reports an error": streaming(event("error", code=SECRET, message=f"{SECRET}!")),
    "reports an error in words": streaming(f"event: error\ndata: {SECRET} broke\n\n".encode()),
    "fails": streaming(failed()),
    "stops for a reason of its own": streaming(
        event(
            "response.incomplete",
            response={"status": "incomplete", "incomplete_details": {"reason": SECRET}},
        )
    ),
    "calls a tool": streaming(
        event("response.output_item.done", item=call(SECRET), output_index=1)
    ),
    "contradicts itself": streaming(
        event(
            "response.output_text.done",
            item_id="m1",
            output_index=0,
            content_index=0,
            text=f"other {SECRET}",
        )
    ),
}


async def every_way(stand: WireStand, client: Client) -> None:
    """Ask over the socket, over HTTP and in the background, and steer."""
    await client.create("a", **CREATE)
    while (event := await client.event("a"))["type"] not in ENDS:
        if event["type"] == "response.created":
            await client.steer(event["response"]["id"], f"{SECRET} instead")
    query = f"?key={KEY}"
    body = json.dumps({**CREATE, "store": False}).encode()
    headers = {"authorization": f"Bearer {KEY}", "content-type": "application/json"}
    async with requested(stand.url, "POST", f"/responses{query}", body, headers) as answer:
        await answer.json()
    later = {**CREATE, "background": True, "stream": True, "store": True}
    async with posted(stand.url, later, headers, judged=False) as answer:
        await answer.body()


ENDS = ("response.completed", "response.incomplete", "response.failed", "error")


@pytest.mark.parametrize("format", ["text", "json"])
@pytest.mark.parametrize("backend", BACKENDS)
async def test_neither_keys_nor_content_are_logged(backend: str, format: str) -> None:
    settings: dict[str, Any] = {"api_keys": (KEY,), "upstream_key": f"{KEY}-up", "retries": 0}
    with written(format) as log:
        async with standing(BACKENDS[backend], **settings) as stand:
            protocols = [f"openai-insecure-api-key.{KEY}", "realtime"]
            async with connect(
                stand.url,
                path=f"/responses?key={KEY}",
                headers={"cookie": KEY, "user-agent": SECRET, "origin": stand.url[:-3]},
                subprotocols=protocols,
                judged=False,
            ) as client:
                await every_way(stand, client)
                for frame in (f'{{"type": "{SECRET}"', f'{{"type":"{SECRET}"}}', f"{SECRET}"):
                    await client.send(frame)
                    await client.until("error")
                await client.socket.close(1000, SECRET)
            for wrong in ({"authorization": f"Bearer {KEY}-wrong"}, {"origin": f"http://{SECRET}"}):
                with pytest.raises(InvalidStatus):
                    async with connect(stand.url, headers=wrong):
                        pass
            await disconnected(stand)
    lines = log.getvalue()
    assert lines.count("connection closed") == 1
    assert SECRET not in lines
