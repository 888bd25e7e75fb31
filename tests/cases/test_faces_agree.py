"""One request over HTTP and over a socket: the same events, the same errors, asked the same way."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.machines.absurd import bodies
from tests.machines.plausible import streams
from tests.support.conversations import begin
from tests.support.events import reply
from tests.support.gateway_stand import Stand, said, stand
from tests.support.http_client import posted

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from tests.support.client import Event
    from tests.support.exchange import Exchange

#: Bounded by the number of examples.
ID = re.compile(r"\b(resp|[a-z]{2,8})_[0-9a-f]{32}\b")
ENDS = ("response.completed", "response.incomplete", "response.failed", "error")


@dataclass
class Faces:
    """Both faces of one gateway. `answer` is what the backend says to any request."""

    on: Stand
    parent: str = ""
    answer: tuple[bytes, ...] = ()

    async def socket(self, create: Event) -> tuple[list[Event], Event]:
        """The events over a socket as they came, and what the backend was asked."""
        await self.on.client.send({"type": "response.create", "stream_id": "a", **create})
        events = await self.on.client.until(*ENDS, lane="a")
        for event in events:
            assert event.pop("stream_id") == "a"
        return events, self.asked()

    async def http(self, create: Event) -> tuple[list[Event], Event]:
        """The same over HTTP; an error as the event that it would be."""
        async with posted(self.on.url, _body(create, stream=True), judged=False) as answer:
            if answer.status == 200:
                assert answer.headers["content-type"] == "text/event-stream; charset=utf-8"
                return await answer.events(), self.asked()
            error = (await answer.json())["error"]
            event = {"type": "error", "status": answer.status, "error": error}
            return [event], self.asked()

    async def whole(self, create: Event) -> tuple[int, Event]:
        """The status and the object of a request that asks for no stream."""
        async with posted(self.on.url, _body(create, stream=False), judged=False) as answer:
            said = await answer.json()
            self.asked()
            return answer.status, said

    async def meant(self, create: Event) -> Event:
        """The create with a parent, or with a conversation of its own, in place of their marks."""
        meant = {}
        if create.get("previous_response_id") == "{parent}":
            meant["previous_response_id"] = self.parent
        if create.get("conversation") == "{new}":
            meant["conversation"] = await begin(self.on, {"role": "user", "content": "before"})
        return {**create, **meant}

    def asked(self) -> Event:
        """What the backend was asked since the last time."""
        asked = [exchange.body for exchange in self.on.fake.exchanges]
        self.on.fake.exchanges.clear()
        return {"asked": asked}


def _body(create: Event, *, stream: bool) -> bytes:
    return json.dumps({**create, "stream": stream}).encode()


def _plain(events: list[Event]) -> list[Event]:
    """The events with ids in the order in which they appear, and without times."""
    ids: dict[str, str] = {}

    def ordinal(found: re.Match[str]) -> str:
        return ids.setdefault(found[0], f"{found[1]}#{len(ids)}")

    text = ID.sub(ordinal, json.dumps(events))
    text = re.sub(r'"(created_at|completed_at)": \d+', r'"\1": 0', text)
    plain: list[Event] = json.loads(text)
    return plain


@pytest.fixture(scope="module")
async def faces() -> AsyncIterator[Faces]:
    async def say(exchange: Exchange) -> None:
        await exchange.send(*made.answer)
        await exchange.end()

    async with stand(say, retries=0) as on:
        on.client.judge = None
        made = Faces(on)
        await on.client.create("parent", generate=False, store=True, input="before")
        made.parent = (await on.client.ended("parent"))["id"]
        yield made


async def test_http_goes_on_where_a_socket_was_and_back(faces: Faces) -> None:
    faces.answer = tuple(reply("one"))
    on = faces.on
    await on.client.create("x", store=True, input="over the socket")
    parent = (await on.client.ended("x"))["id"]
    again = {"model": "m", "input": "over HTTP", "previous_response_id": parent}
    status, response = await faces.whole(again)
    assert (status, response["previous_response_id"]) == (200, parent)
    await on.client.create("x", store=True, previous_response_id=response["id"], input="back")
    ended = await on.client.ended("x")
    assert ended["previous_response_id"] == response["id"]
    [exchange] = on.fake.exchanges
    assert said(exchange) == ["over the socket", "one", "over HTTP", "one", "back"]
    faces.asked()


FIELDS: dict[str, st.SearchStrategy[Any]] = {
    "input": st.sampled_from(["", "hi", [], [{"role": "user", "content": "é🙂"}], 7, [7]]),
    "instructions": st.sampled_from([None, "Be brief."]),
    "metadata": st.sampled_from([None, {}, {"a": "b"}, {"a": 1}]),
    "generate": st.sampled_from([True, True, False, 0]),
    "store": st.sampled_from([True, False, None]),
    "temperature": st.sampled_from([0.5, 9]),
    "tools": st.sampled_from([None, [{"type": "function", "name": "look"}], [7]]),
    "previous_response_id": st.sampled_from([None, "resp_gone", "{parent}"]),
    "conversation": st.sampled_from([None, "conv_gone", {"id": "conv_gone"}, 7, "{new}"]),
    "truncation": st.sampled_from(["auto", "disabled", 7]),
    "text": st.sampled_from([{"verbosity": "low"}, {"format": {"type": "json_object"}}, 7]),
    "stream_options": st.just({"include_obfuscation": True}),
    "include": st.just(["reasoning.encrypted_content"]),
    "max_output_tokens": st.just(3),
    "zebra": st.just({"any": [None]}),
    "model": st.sampled_from(["n", None, 7]),
}
CREATES = st.fixed_dictionaries({}, optional=FIELDS).map(
    lambda drawn: {"model": "m", "input": "hi", **drawn}
)


def _sse(received: Sequence[tuple[str | None, bytes]]) -> tuple[bytes, ...]:
    return tuple(
        (b"" if name is None else b"event: " + name.encode() + b"\n") + b"data: " + data + b"\n\n"
        for name, data in received
    )


async def _agree(faces: Faces, create: Event, answer: tuple[bytes, ...]) -> None:
    faces.answer = answer
    events, asked = await faces.socket(await faces.meant(create))
    events_over_http, asked_over_http = await faces.http(await faces.meant(create))
    assert _plain(events_over_http) == _plain(events)
    assert asked_over_http == asked
    status, said = await faces.whole(await faces.meant(create))
    last = events[-1]
    if last["type"] == "error":
        assert (status, said) == (last["status"], {"error": last["error"]})
    else:
        assert status == 200
        assert _plain([said]) == _plain([last["response"]])


@given(create=CREATES, answer=bodies())
async def test_whatever_the_backend_sends(faces: Faces, create: Event, answer: Any) -> None:
    await _agree(faces, create, _sse(answer))


@given(create=CREATES, stream=streams())
async def test_a_stream_that_some_backend_might_send(
    faces: Faces, create: Event, stream: tuple[list[Event], int]
) -> None:
    events = [(None, json.dumps(event).encode()) for event in stream[0]]
    await _agree(faces, create, _sse(events))
