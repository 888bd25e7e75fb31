"""A raw HTTP client that reads an answer byte by byte, and has every server-sent event judged.

async with posted(stand.url, {"input": "hi", "stream": True}) as answer:
    assert answer.status == 200
    events = await answer.until("response.completed")
"""

from __future__ import annotations

import json
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import anyio
from httptools import HttpResponseParser

from tests.support.hang_guard import HANG
from tests.support.judge import StreamJudge

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping

Event = dict[str, Any]


class Answer:
    """One HTTP answer, as far as it has come.

    Attributes:
        status: Its status.
        headers: Its headers, with lower-case names.
        whole: Whether its body has come to its end.
        comments: The comments of its event stream so far.
        transcript: The events so far.
    """

    def __init__(self, receive: Callable[[], Awaitable[bytes]], judge: StreamJudge | None) -> None:
        self.status = 0
        self.headers: dict[str, str] = {}
        self.whole = False
        self.comments: list[str] = []
        self.transcript: list[Event] = []
        self._receive = receive
        self._parser = HttpResponseParser(self)
        self._body = bytearray()
        self._headed = False
        self._judge = judge

    def on_header(self, name: bytes, value: bytes) -> None:
        lowered = name.decode().lower()
        before = f"{self.headers[lowered]}, " if lowered in self.headers else ""
        self.headers[lowered] = before + value.decode("latin-1")

    def on_headers_complete(self) -> None:
        self.status = self._parser.get_status_code()
        self._headed = self.status >= 200

    def on_body(self, body: bytes) -> None:
        self._body += body

    def on_message_complete(self) -> None:
        self.whole = self._headed

    async def head(self) -> None:
        """Read until the head is there."""
        while not self._headed:
            await self._read()

    async def body(self) -> bytes:
        """Read the whole body."""
        while not self.whole:
            await self._read()
        return bytes(self._body)

    async def json(self) -> Any:
        """Read the whole body as JSON."""
        assert self.headers["content-type"] == "application/json"
        return json.loads(await self.body())

    async def event(self) -> Event | None:
        """Read the next event; None at the end of the stream. Comments are kept on the way."""
        while (block := await self._block()) is not None:
            if not block.startswith(":"):
                return self._event(block.split("\n"))
            self.comments.append(block)
        return None

    async def comment(self) -> None:
        """Read a comment, and nothing else."""
        block = await self._block()
        assert block is not None
        assert block.startswith(":"), block
        self.comments.append(block)

    async def _block(self) -> str | None:
        while True:
            end = self._body.find(b"\n\n")
            if end >= 0:
                block = self._body[:end].decode()
                del self._body[: end + 2]
                return block
            if self.whole:
                assert not self._body, self._body
                return None
            await self._read()

    async def until(self, *types: str) -> list[Event]:
        """Read the events up to the first with one of these types."""
        seen: list[Event] = []
        while not seen or seen[-1]["type"] not in types:
            event = await self.event()
            assert event is not None, seen
            seen.append(event)
        return seen

    async def events(self) -> list[Event]:
        """Read all events up to the end of the stream; no response is left without its end."""
        while await self.event() is not None:
            pass
        if self._judge is not None:
            self._judge.finish()
        return self.transcript

    def _event(self, lines: list[str]) -> Event:
        name, data = lines
        assert name.startswith("event: "), name
        assert data.startswith("data: "), data
        event: Event = json.loads(data.removeprefix("data: "))
        assert event["type"] == name.removeprefix("event: ")
        assert "stream_id" not in event
        self.transcript.append(event)
        if self._judge is not None:
            self._judge.receive(event)
        return event

    async def _read(self) -> None:
        with anyio.fail_after(HANG):
            self._parser.feed_data(await self._receive())


@asynccontextmanager
async def requested(
    url: str,
    method: str,
    path: str,
    body: bytes | None = None,
    headers: Mapping[str, str] | None = None,
    *,
    judged: bool = True,
    tls: ssl.SSLContext | None = None,
) -> AsyncIterator[Answer]:
    """Send one request below the base URL; yields its answer once the head is there."""
    place = urlsplit(url)
    lines = {"host": place.netloc, **(headers or {})}
    if body is not None and "transfer-encoding" not in lines:
        lines = {"content-length": str(len(body)), **lines}
    head = [f"{method} {place.path}{path} HTTP/1.1", *(f"{k}: {v}" for k, v in lines.items())]
    host, port = str(place.hostname), int(place.port or 80)
    stream = await (
        anyio.connect_tcp(host, port)
        if tls is None
        else anyio.connect_tcp(host, port, ssl_context=tls, tls_standard_compatible=False)
    )
    async with stream:
        await stream.send("\r\n".join([*head, "", ""]).encode("latin-1") + (body or b""))
        answer = Answer(stream.receive, StreamJudge() if judged else None)
        await answer.head()
        yield answer


@asynccontextmanager
async def posted(
    url: str,
    body: Event | bytes,
    headers: Mapping[str, str] | None = None,
    *,
    judged: bool = True,
    tls: ssl.SSLContext | None = None,
) -> AsyncIterator[Answer]:
    """Create a response over HTTP; a dict needs only what is special about it."""
    if isinstance(body, dict):
        body = json.dumps({"model": "m", "store": False, "input": "hi", **body}).encode()
    lines = {"content-type": "application/json", **(headers or {})}
    async with requested(url, "POST", "/responses", body, lines, judged=judged, tls=tls) as answer:
        yield answer
