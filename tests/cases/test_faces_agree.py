"""One request over HTTP and over a socket: the same events, the same errors, asked the same way."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.machines.absurd import bodies
from tests.machines.plausible import streams
from tests.support.events import reply
from tests.support.faces import Faces, faces
from tests.support.gateway_stand import said

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from tests.support.client import Event


@pytest.fixture(scope="module")
async def both() -> AsyncIterator[Faces]:
    async with faces() as made:
        yield made


async def test_http_goes_on_where_a_socket_was_and_back(both: Faces) -> None:
    both.answers(*reply("one"))
    on = both.on
    await on.client.create("x", store=True, input="over the socket")
    parent = (await on.client.ended("x"))["id"]
    again = {"model": "m", "input": "over HTTP", "previous_response_id": parent}
    status, response = await both.whole(again)
    assert (status, response["previous_response_id"]) == (200, parent)
    await on.client.create("x", store=True, previous_response_id=response["id"], input="back")
    ended = await on.client.ended("x")
    assert ended["previous_response_id"] == response["id"]
    [exchange] = on.fake.exchanges
    assert said(exchange) == ["over the socket", "one", "over HTTP", "one", "back"]
    both.asked()


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


@given(create=CREATES, answer=bodies())
async def test_whatever_the_backend_sends(both: Faces, create: Event, answer: Any) -> None:
    both.answers(*_sse(answer))
    await both.agree(create)


@given(create=CREATES, stream=streams())
async def test_a_stream_that_some_backend_might_send(
    both: Faces, create: Event, stream: tuple[list[Event], int]
) -> None:
    events = [(None, json.dumps(event).encode()) for event in stream[0]]
    both.answers(*_sse(events))
    await both.agree_later(create, await both.agree(create))
