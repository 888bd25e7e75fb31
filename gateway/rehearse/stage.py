"""The one endpoint that generates: a plan told at the set pace, until the client leaves."""

from __future__ import annotations

import time
import uuid
from typing import TYPE_CHECKING, Any

import anyio
import msgspec
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from gateway.rehearse.errors import Refused
from gateway.rehearse.plan import Ending
from gateway.rehearse.request import read
from gateway.rehearse.script import decide
from gateway.rehearse.telling import Telling

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.types import Receive, Scope, Send

_STALL_SECONDS = 600


def json(content: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """A JSON answer with a request id, as the hosted API gives one."""
    body = msgspec.json.encode(content)
    named = {"x-request-id": f"req_{uuid.uuid4().hex}", **(headers or {})}
    return Response(body, status, named, "application/json")


class Stage:
    """An ASGI application, and its figures."""

    def __init__(self, rate: float) -> None:
        self._rate = rate
        self.requests = self.open = self.cancelled = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one POST."""
        self.requests += 1
        try:
            request = read(await Request(scope, receive).body())
            plan = decide(request)
        except Refused as refused:
            await json(refused.body, refused.status, refused.headers)(scope, receive, send)
            return
        except ClientDisconnect:
            self.cancelled += 1
            return
        telling = Telling(request, plan, uuid.uuid4().hex, time.time)
        tell = self._stream if request.get("stream") else self._whole
        self.open += 1
        left = True
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(_watch, receive, tasks.cancel_scope)
                await tell(telling, plan.ending, send)
                left = False
                tasks.cancel_scope.cancel()
        finally:
            self.open -= 1
            self.cancelled += left

    async def _stream(self, telling: Telling, ending: Ending, send: Send) -> None:
        headers = [
            (b"content-type", b"text/event-stream; charset=utf-8"),
            (b"x-request-id", f"req_{uuid.uuid4().hex}".encode()),
        ]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        if ending is Ending.STALL:
            await _stall(send)
            return
        pace = _Pace(self._rate)
        for words, event in telling.steps():
            await pace.wait(words)
            data = b"event: %b\ndata: %b\n\n" % (event["type"].encode(), msgspec.json.encode(event))
            await send({"type": "http.response.body", "body": data, "more_body": True})
        # Left unfinished, the server closes the connection: that is the cut.
        if telling.response["status"] != "in_progress":
            await send({"type": "http.response.body", "body": b""})

    async def _whole(self, telling: Telling, ending: Ending, send: Send) -> None:
        if ending is Ending.STALL:
            await anyio.sleep(_STALL_SECONDS)
            return
        pace = _Pace(self._rate)
        for words, _ in telling.steps():
            await pace.wait(words)
        cut = telling.response["status"] == "in_progress"
        answer = json(telling.response)
        body = answer.body[: len(answer.body) // 2] if cut else answer.body
        headers = answer.raw_headers
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body, "more_body": cut})


class _Pace:
    """Words a second, measured from the start so that no delay adds up."""

    def __init__(self, rate: float) -> None:
        self._a_word = 1 / rate if rate > 0 else 0.0
        self._due = anyio.current_time()

    async def wait(self, words: int) -> None:
        self._due += words * self._a_word
        # Also without a wait the loop gets its turn, or nobody would notice that the client left.
        await anyio.sleep(max(0.0, self._due - anyio.current_time()) if words else 0)


async def _watch(receive: Receive, scope: anyio.CancelScope) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    scope.cancel()


async def _stall(send: Send) -> None:
    for _ in range(_STALL_SECONDS):
        body = {"type": "http.response.body", "body": b": keepalive\n\n", "more_body": True}
        await send(body)
        await anyio.sleep(1)
