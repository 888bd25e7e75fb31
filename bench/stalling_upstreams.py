"""Upstreams that take requests of any size, and give answers of any size (D33)."""

from __future__ import annotations

import asyncio
import json
import re
import ssl
from contextlib import asynccontextmanager
from tempfile import NamedTemporaryFile
from typing import TYPE_CHECKING, Any, Final

from websockets.asyncio.server import serve

from bench.loopback_certificate import key_and_certificate
from bench.pipeline import sse

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from websockets.asyncio.server import ServerConnection

_LANE: Final = re.compile(rb'"stream_id":"([^"]+)"')


def _message(text: str) -> dict[str, Any]:
    content = [{"type": "output_text", "text": text, "annotations": []}]
    return {"id": "msg_1", "type": "message", "role": "assistant", "content": content}


def _streamed(text: str, size: int) -> list[dict[str, Any]]:
    """Return the events of a text that comes in deltas of so many characters."""
    bare = {"id": "resp_1", "status": "in_progress", "output": []}
    where = {"item_id": "msg_1", "output_index": 0}
    part = {"type": "output_text", "text": "", "annotations": []}
    deltas = [text[at : at + size] for at in range(0, len(text), size)]
    whole = _message(text)
    return [
        {"type": "response.created", "response": bare},
        {
            "type": "response.output_item.added",
            "output_index": 0,
            "item": {**whole, "content": [], "status": "in_progress"},
        },
        {"type": "response.content_part.added", **where, "content_index": 0, "part": part},
        *(
            {"type": "response.output_text.delta", **where, "content_index": 0, "delta": delta}
            for delta in deltas
        ),
        {"type": "response.output_item.done", "output_index": 0, "item": whole},
        _completed(whole),
    ]


def _completed(item: dict[str, Any]) -> dict[str, Any]:
    response = {"id": "resp_1", "status": "completed", "output": [item]}
    return {"type": "response.completed", "response": response}


def _image(size: int) -> dict[str, Any]:
    item = {"id": "ig_1", "type": "image_generation_call", "status": "completed"}
    return {**item, "result": "QUJD" * (size // 4)}


def answers(size: int) -> dict[str, list[dict[str, Any]]]:
    """Return the events of answers that have about so many bytes, by name."""
    return {
        "a text in deltas": _streamed("word " * (size // 5), 4096),
        "a text in one event": [_completed(_message("word " * (size // 5)))],
        "lines in deltas": _streamed("\n" * (size // 2), 4096),
        "an image": [_completed(_image(size))],
    }


def short(dialect: str) -> list[dict[str, Any]]:
    """Return the events of a short answer."""
    if dialect != "chat":
        return [_completed(_message("ok"))]
    delta = {"role": "assistant", "content": "ok"}
    return [{"choices": [{"index": 0, "delta": delta, "finish_reason": "stop"}]}]


def _chunk(event: dict[str, Any]) -> bytes:
    """Return the chunk of a chat, which is the last as well."""
    return b"data: %b\n\ndata: [DONE]\n\n" % json.dumps(event).encode()


_COUNT: Final = (
    b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 18\r\n\r\n"
    b'{"input_tokens":1}'
)


class HttpUpstream(asyncio.Protocol):
    """Reads whole requests, undecoded, and answers each with the same events."""

    def __init__(self, events: list[dict[str, Any]]) -> None:
        body = b"".join(sse(one) if "type" in one else _chunk(one) for one in events)
        head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: %d\r\n\r\n"
        self._answer = head % len(body) + body
        self._head = self._path = b""
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
            self._path = head.split(b" ", 2)[1]
            fields = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:])
            self._head, self._left = b"", int(fields[b"content-length"])
        self._left -= len(data)
        if not self._left:
            counts = self._path.endswith(b"/input_tokens")
            self._transport.write(_COUNT if counts else self._answer)  # type: ignore[attr-defined]


@asynccontextmanager
async def upstream(kind: str, events: list[dict[str, Any]]) -> AsyncIterator[list[str]]:
    """Run an upstream; the options of a gateway that asks it are what it is good for.

    Args:
        kind: `http`, `https` or `websocket`.
        events: The answer to each request.
    """
    if kind == "websocket":
        async with serve(_answering(events), "127.0.0.1", 0, max_size=None) as sockets:
            port = next(iter(sockets.sockets)).getsockname()[1]
            yield ["--upstream", f"http://127.0.0.1:{port}/v1", "--upstream-transport", "websocket"]
        return
    with NamedTemporaryFile(suffix=".pem") as file:
        tls = None
        if kind == "https":
            file.write(key_and_certificate())
            file.flush()
            tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            tls.load_cert_chain(file.name)
        loop = asyncio.get_running_loop()
        server = await loop.create_server(lambda: HttpUpstream(events), "127.0.0.1", 0, ssl=tls)
        try:
            port = server.sockets[0].getsockname()[1]
            yield ["--upstream", f"{kind}://127.0.0.1:{port}/v1", *([file.name] if tls else [])]
        finally:
            server.close()


def _answering(events: list[dict[str, Any]]) -> Any:
    async def answer(socket: ServerConnection) -> None:
        async for message in socket:
            data = message.encode() if isinstance(message, str) else message
            lane = _LANE.search(data[:200])
            name = {"stream_id": lane[1].decode()} if lane else {}
            for event in events:
                await socket.send(json.dumps({**event, **name}))

    return answer
