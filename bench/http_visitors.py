"""Clients that mean well, for the soak: each makes one visit to a gateway and checks its answers.

The backend's connections break meanwhile, so a response may fail; but whatever is answered must be
one of the answers that docs/protocol.md allows, and agree with what was answered before.
"""

from __future__ import annotations

import json
import random
import secrets
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

import httpx2
from websockets.asyncio.client import connect

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    Visit = Callable[[int], Awaitable[None]]

#: How a response may end.
_ENDS = ("completed", "incomplete", "failed")
#: Statuses of a create: answered, or the backend was away too often.
_CREATED = (200, 502, 503, 504)
#: Seconds for any answer; the backend needs less than two.
_LONGEST = 60.0


class WrongAnswer(Exception):
    """An answer that the protocol does not allow."""


def _expect(holds: object, *what: object) -> None:
    if not holds:
        raise WrongAnswer(" ".join(str(one)[:300] for one in what))


class _Client:
    """One client over HTTP, whose every answer has one of the statuses that are named."""

    def __init__(self, port: int) -> None:
        self.http = httpx2.AsyncClient(base_url=f"http://127.0.0.1:{port}/v1", timeout=_LONGEST)

    async def ask(self, method: str, path: str, *statuses: int, **options: Any) -> Any:
        """Send a request.

        Args:
            method: Its method.
            path: Its path below /v1.
            statuses: What it may be answered with; the first is the one that it should be.
            options: What else httpx2 is to know.

        Returns:
            The answer's JSON, or None if its status is not the first.
        """
        answer = await self.http.request(method, path, **options)
        _expect(answer.status_code in statuses, method, path, answer.status_code, answer.text)
        return answer.json() if answer.status_code == statuses[0] else None

    async def create(self, *, headers: dict[str, str] | None = None, **fields: Any) -> Any:
        """Create a response (see `body`); None if the backend was away."""
        options: dict[str, Any] = {"json": body(**fields), "headers": headers}
        response = await self.ask("POST", "/responses", *_CREATED, **options)
        if response is not None and not fields.get("background"):
            _expect(response["status"] in _ENDS, "ended as", response["status"])
        return response

    async def events(self, method: str, path: str, first: int, **options: Any) -> _Events:
        """Begin to read a stream of events, of which the next has this number."""
        request = self.http.build_request(method, path, **options)
        return _Events(await self.http.send(request, stream=True), first)


class _Events:
    """The events of one stream, checked to come without a gap."""

    def __init__(self, answer: httpx2.Response, first: int) -> None:
        self.answer = answer
        self._next = first
        self._lines = answer.aiter_lines()

    async def read(self, number: int) -> list[dict[str, Any]]:
        """Read so many events, or up to the last if there are fewer."""
        events: list[dict[str, Any]] = []
        async for line in self._lines:
            if line.startswith("data: "):
                events.append(json.loads(line.removeprefix("data: ")))
                _expect(events[-1]["sequence_number"] == self._next, "not", self._next, line)
                self._next += 1
                if len(events) == number:
                    break
        return events


def body(**fields: Any) -> dict[str, Any]:
    """Return a create; it needs only what is special about it."""
    words = random.randrange(5, 80)
    return {"model": "rehearse", "input": f"Please answer in {words} words", **fields}


@asynccontextmanager
async def _client(port: int) -> AsyncIterator[_Client]:
    client = _Client(port)
    async with client.http:
        yield client


async def chain(port: int) -> None:
    """Continue a stored response, ask for both and for what the second was made from."""
    async with _client(port) as client:
        first = await client.create()
        if first is None or first["status"] == "failed":
            return
        second = await client.create(previous_response_id=first["id"])
        if second is None or second["status"] == "failed":
            return
        path = f"/responses/{second['id']}"
        stored = await client.ask("GET", path, 200)
        _expect(stored["output"] == second["output"], "stored otherwise", stored)
        items = await client.ask("GET", f"{path}/input_items", 200)
        _expect(len(items["data"]) == 3, "not three items", items)
        await client.ask("DELETE", path, 200)
        await client.ask("GET", path, 404)


async def streamed(port: int) -> None:
    """Read a stream to its end, or leave in the middle."""
    async with _client(port) as client:
        options = {"json": body(stream=True, store=False)}
        events = await client.events("POST", "/responses", 0, **options)
        _expect(events.answer.status_code in _CREATED, events.answer.status_code)
        if events.answer.status_code == 200 and random.random() < 0.5:
            last = (await events.read(1 << 20))[-1]["type"]
            _expect(last.removeprefix("response.") in _ENDS, "the last event is", last)
        elif events.answer.status_code == 200:
            await events.read(random.randrange(1, 30))


async def idempotent(port: int) -> None:
    """Leave a create and come back for it, twice: it is the same response."""
    headers = {"idempotency-key": secrets.token_hex(16)}
    fields = body(store=random.random() < 0.5)
    async with _client(port) as client:
        options = {"json": fields, "headers": headers}
        with_timeout = {**options, "timeout": random.uniform(0.01, 0.4)}
        with suppress(httpx2.TimeoutException):
            await client.ask("POST", "/responses", *_CREATED, **with_timeout)
        first = await client.ask("POST", "/responses", *_CREATED, **options)
        again = await client.ask("POST", "/responses", *_CREATED, **options)
        if first is not None:
            _expect(again is not None and again["id"] == first["id"], "another response", again)


async def background(port: int) -> None:
    """Start a response in the background, and wait for its end, cancel it or delete it."""
    async with _client(port) as client:
        response = await client.create(background=True)
        if response is None:
            return
        path = f"/responses/{response['id']}"
        course = random.choice(("wait", "cancel", "delete"))
        if course == "cancel":
            cancelled = await client.ask("POST", f"{path}/cancel", 200, 409)
            _expect(cancelled is None or cancelled["status"] == "cancelled", cancelled)
        elif course == "delete":
            await client.ask("DELETE", path, 200)
            await client.ask("GET", path, 404)
            return
        events = await client.events("GET", path, 0, params={"stream": True})
        _expect(events.answer.status_code == 200, events.answer.status_code)
        seen = await events.read(1 << 20)
        last = await client.ask("GET", path, 200)
        _expect(last["status"] in (*_ENDS, "cancelled"), "over and", last["status"])
        _expect(seen[-1]["response"]["status"] == last["status"], seen[-1], last["status"])


async def followed(port: int) -> None:
    """Leave the events of a response in the background, and read on where that was."""
    async with _client(port) as client:
        options = {"json": body(background=True, stream=True)}
        events = await client.events("POST", "/responses", 0, **options)
        _expect(events.answer.status_code in _CREATED, events.answer.status_code)
        seen = await events.read(random.randrange(1, 20)) if events.answer.is_success else []
        await events.answer.aclose()
        if not seen:
            return
        path = f"/responses/{seen[0]['response']['id']}"
        number = seen[-1]["sequence_number"]
        options = {"params": {"stream": True, "starting_after": number}}
        rest = await client.events("GET", path, number + 1, **options)
        if rest.answer.status_code != 200:
            told = (await rest.answer.aread()).decode()
            raise WrongAnswer(
                f"to follow after {number} is {rest.answer.status_code}, {told[:300]}"
            )
        seen += await rest.read(1 << 20)
        last = seen[-1]["type"]
        _expect(last.removeprefix("response.") in _ENDS, "the last event is", last)


async def conversation(port: int) -> None:
    """Have turns in a conversation: each that did not fail adds two items."""
    async with _client(port) as client:
        path = f"/conversations/{(await client.ask('POST', '/conversations', 200, json={}))['id']}"
        due = 0
        for _ in range(random.randrange(1, 4)):
            turn = await client.create(conversation=path.rpartition("/")[2])
            if turn is not None and turn["status"] != "failed":
                due += 1 + len(turn["output"])
        items = await client.ask("GET", f"{path}/items", 200)
        _expect(len(items["data"]) == due, "not", due, "items:", items)
        await client.ask("DELETE", path, 200)
        await client.ask("GET", path, 404)


async def compaction(port: int) -> None:
    """Have a history compacted, alone or on the way, and go on from it."""
    async with _client(port) as client:
        path, fields = "/responses/compact", body(store=False)
        if random.random() < 0.5:
            trigger = {"type": "compaction_trigger"}
            path, items = "/responses", [{"role": "user", "content": "hi"}, trigger]
            fields = body(store=False, input=items)
        compacted = await client.ask("POST", path, *_CREATED, json=fields)
        if compacted is None or compacted.get("status") == "failed":
            return
        kinds = [item["type"] for item in compacted["output"]]
        _expect(kinds.count("compaction") == 1, "not one compaction:", kinds)
        await client.create(input=compacted["output"], store=False)


async def passed_on(port: int) -> None:
    """Have a request passed on, which the scripted backend does not know."""
    async with _client(port) as client:
        fields = {"model": "rehearse", "input": "x" * random.randrange(1, 1 << 20)}
        await client.ask("POST", "/embeddings", 404, 502, 503, json=fields)


async def cancelled(port: int) -> None:
    """Cancel a response on a socket: it ends, and the lane goes on."""
    async with connect(f"ws://127.0.0.1:{port}/v1/responses") as socket:
        for kind in ("response.cancel", None):
            await socket.send(json.dumps({"type": "response.create", "stream_id": "a", **body()}))
            ended, begun = "", False
            while ended not in ("completed", "incomplete", "failed", "error"):
                event = json.loads(await socket.recv())
                ended = event["type"].removeprefix("response.")
                if kind is not None and not begun and ended == "output_text.delta":
                    begun = True
                    await socket.send(json.dumps({"type": kind, "stream_id": "a"}))
            if ended == "incomplete":
                reason = event["response"]["incomplete_details"]["reason"]
                _expect(reason == "cancelled" and begun, "incomplete:", reason)


#: Each kind of client, and how many of it there are at once.
VISITORS: dict[Visit, int] = {
    chain: 1,
    streamed: 1,
    idempotent: 1,
    background: 1,
    followed: 1,
    conversation: 1,
    compaction: 1,
    passed_on: 1,
    cancelled: 1,
}
