"""Steering with the official Python SDK as it is written for the hosted service: sync and async."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from anyio import to_thread
from openai import AsyncOpenAI, OpenAI

from tests.sdk.test_openai_async import LOOK
from tests.support.judged_sdk import MODEL, judged

if TYPE_CHECKING:
    from openai.types.responses import Response

LONG = "Tell me about harbours in 400 words"


class Seen:
    """What an application keeps while it reads on, whatever comes."""

    def __init__(self) -> None:
        self.kinds: list[str] = []
        self.ended: list[Response] = []
        self.parents: list[str | None] = []
        self.pending: list[Any] = []

    def receive(self, event: Any) -> None:
        self.kinds.append(event.type)
        if event.type in ("response.completed", "response.incomplete"):
            self.ended.append(event.response)
        elif event.type == "response.created":
            self.parents.append(event.response.previous_response_id)
        elif event.type == "response.steer.pending":
            self.pending.append(event)
        assert event.type not in ("error", "response.failed", "response.steer.failed"), event

    def check_steered(self) -> None:
        """The first stopped for the steer, which the second follows."""
        first, second = self.ended
        assert first.status == "incomplete"
        assert first.incomplete_details is not None
        assert first.incomplete_details.reason == "steered"
        assert self.parents == [None, first.id]
        assert second.status == "completed"
        assert second.previous_response_id == first.id
        assert second.output_text.startswith("Changing course from") or not first.output_text
        assert "lighthouses instead" in second.output_text
        assert self.kinds.count("response.steer.accepted") == 1


def _outputs(pending: Any) -> list[Any]:
    """The stubs of the pending event, copied and filled."""
    return [{**stub.to_dict(), "output": "sunny"} for stub in pending.required_input]


def _check_tools(seen: Seen, steer: str) -> None:
    asked, answer = seen.ended
    [call] = [item for item in asked.output if item.type == "function_call"]
    [pending] = seen.pending
    assert pending.steer.id == steer
    assert pending.steer.previous_response_id == asked.id
    assert pending.reason == "waiting_for_required_input"
    assert [stub.call_id for stub in pending.required_input] == [call.call_id]
    assert seen.parents == [None, asked.id]
    assert "The tool answered" in answer.output_text
    assert "sunny" in answer.output_text
    assert "be brief" in answer.output_text


async def test_steer_on_created_and_read_on(gateway_url: str) -> None:
    seen = Seen()
    async with (
        AsyncOpenAI(base_url=gateway_url, api_key="none") as client,
        client.responses.connect() as connection,
    ):
        judge = judged(connection)
        await connection.response.create(model=MODEL, input=LONG, store=False)
        async for event in connection:
            seen.receive(event)
            if event.type == "response.created" and len(seen.parents) == 1:
                await connection.response.steer(
                    previous_response_id=event.response.id, input="lighthouses instead"
                )
            if event.type == "response.completed":
                break
        judge.finish()
    seen.check_steered()


@pytest.mark.parametrize("lane", ["a", None])
async def test_steer_in_mid_sentence(gateway_url: str, lane: str | None) -> None:
    seen, where = Seen(), {} if lane is None else {"stream_id": lane}
    text: Any = [{"type": "input_text", "text": "lighthouses instead"}]
    async with (
        AsyncOpenAI(base_url=gateway_url, api_key="none") as client,
        client.responses.connect() as connection,
    ):
        judge = judged(connection)
        await connection.response.create(model=MODEL, input=LONG, store=False, **where)  # type: ignore[arg-type]
        words, target = 0, ""
        while seen.kinds[-1:] != ["response.completed"]:
            event = await connection.recv()
            seen.receive(event)
            assert event.to_dict().get("stream_id") == lane
            target = target or event.response.id  # type: ignore[union-attr]
            words += event.type == "response.output_text.delta"
            if words == 5:
                words += 1
                await connection.response.steer(
                    previous_response_id=target,
                    input=[{"type": "message", "role": "user", "content": text}],
                )
        judge.finish()
    seen.check_steered()
    cut, after = seen.ended
    assert 5 <= len(cut.output_text.split()) < 100
    tail = " ".join(cut.output_text.split()[-4:])
    assert f'Changing course from "{tail}"' in after.output_text


async def test_steer_while_a_tool_is_called(gateway_url: str) -> None:
    seen, steer, target = Seen(), "", ""
    async with (
        AsyncOpenAI(base_url=gateway_url, api_key="none") as client,
        client.responses.connect() as connection,
    ):
        judge = judged(connection)
        create = connection.response.create
        await create(model=MODEL, input="use the tool", tools=[LOOK], stream_id="t", store=False)
        async for event in connection:
            seen.receive(event)
            if event.type == "response.created":
                target = event.response.id
            elif event.type == "response.output_item.added" and len(seen.parents) == 1:
                await connection.response.steer(previous_response_id=target, input="be brief")
            elif event.type == "response.steer.accepted":
                steer = event.steer.id
            elif event.type == "response.steer.pending":
                await create(
                    model=MODEL,
                    stream_id="t",
                    previous_response_id=event.steer.previous_response_id,
                    input=_outputs(event),
                    tools=[LOOK],
                    store=False,
                )
            if len(seen.ended) == 2:
                break
        judge.finish()
    _check_tools(seen, steer)


def _sync_text(url: str) -> None:
    seen = Seen()
    with OpenAI(base_url=url, api_key="none") as client, client.responses.connect() as connection:
        judge = judged(connection)
        connection.response.create(model=MODEL, input=LONG, stream_id="a", store=False)
        for event in connection:
            seen.receive(event)
            if event.type == "response.created" and len(seen.parents) == 1:
                connection.response.steer(
                    previous_response_id=event.response.id, input="lighthouses instead"
                )
            if event.type == "response.completed":
                break
        judge.finish()
    seen.check_steered()


async def test_sync_steer_on_created_and_read_on(gateway_url: str) -> None:
    await to_thread.run_sync(_sync_text, gateway_url)


def _sync_tools(url: str) -> None:
    seen, steer, target = Seen(), "", ""
    with OpenAI(base_url=url, api_key="none") as client, client.responses.connect() as connection:
        judge = judged(connection)
        create = connection.response.create
        create(model=MODEL, input="use the tool", tools=[LOOK], store=False)
        for event in connection:
            seen.receive(event)
            if event.type == "response.created" and not target:
                target = event.response.id
            elif event.type == "response.completed" and not steer:
                connection.response.steer(previous_response_id=target, input="be brief")
            elif event.type == "response.steer.accepted":
                steer = event.steer.id
            elif event.type == "response.steer.pending":
                create(model=MODEL, previous_response_id=target, input=_outputs(event), store=False)
            if len(seen.ended) == 2:
                break
        judge.finish()
    _check_tools(seen, steer)


async def test_sync_steer_of_a_response_that_waits(gateway_url: str) -> None:
    await to_thread.run_sync(_sync_tools, gateway_url)
