"""The official Python SDK over HTTP: `responses.create`, as a stream and as one object."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from anyio import to_thread
from openai import APIStatusError, AsyncOpenAI, OpenAI

from tests.support.judge import StreamJudge
from tests.support.judged_sdk import MODEL

if TYPE_CHECKING:
    from openai.types.responses import Response


async def _streamed(client: AsyncOpenAI, **asked: Any) -> Response:
    """Create a response as a stream; every event is judged, and so is their order."""
    judge = StreamJudge()
    events = await client.responses.create(model=MODEL, stream=True, **asked)
    last: Any = None
    async for event in events:
        assert "stream_id" not in event.to_dict()
        judge.receive(event.to_dict(mode="json"))
        last = event
    judge.finish()
    ended: Response = last.response
    return ended


async def test_a_stream_is_judged_and_continued(gateway_url: str) -> None:
    async with AsyncOpenAI(base_url=gateway_url, api_key="none") as client:
        first = await _streamed(client, input="My name is Ana")
        assert first.status == "completed"
        second = await _streamed(client, input="Who am I?", previous_response_id=first.id)
        assert "My name is Ana" in second.output_text


async def test_the_accumulator_reads_it(gateway_url: str) -> None:
    async with (
        AsyncOpenAI(base_url=gateway_url, api_key="none") as client,
        client.responses.stream(model=MODEL, input="hi") as stream,
    ):
        text = "".join(
            [event.delta async for event in stream if event.type == "response.output_text.delta"]
        )
        assert (await stream.get_final_response()).output_text == text


async def test_one_object_is_what_the_store_has(gateway_url: str) -> None:
    async with AsyncOpenAI(base_url=gateway_url, api_key="none") as client:
        response = await client.responses.create(model=MODEL, input="hi", metadata={"a": "b"})
        assert response.status == "completed"
        assert '"hi"' in response.output_text
        stored = await client.responses.retrieve(response.id)
        assert stored.to_dict() == response.to_dict()


async def test_a_warm_up_is_a_parent(gateway_url: str) -> None:
    async with AsyncOpenAI(base_url=gateway_url, api_key="none") as client:
        warm = await client.responses.create(
            model=MODEL, input="Remember the harbour", extra_body={"generate": False}
        )
        assert (warm.status, warm.output) == ("completed", [])
        response = await client.responses.create(
            model=MODEL, input="go", previous_response_id=warm.id
        )
        assert "Remember the harbour" in response.output_text


@pytest.mark.parametrize("stream", [True, False])
async def test_an_error_before_the_first_event_is_a_status(gateway_url: str, stream: bool) -> None:
    async with AsyncOpenAI(base_url=gateway_url, api_key="none", max_retries=0) as client:
        with pytest.raises(APIStatusError) as refused:
            await client.responses.create(
                model=MODEL, input="hi", previous_response_id="resp_gone", stream=stream
            )
    assert refused.value.status_code == 400
    assert refused.value.code == "previous_response_not_found"
    assert refused.value.param == "previous_response_id"


def _synchronous(url: str) -> None:
    with OpenAI(base_url=url, api_key="none") as client:
        judge = StreamJudge()
        for event in client.responses.create(model=MODEL, input="hi", stream=True):
            judge.receive(event.to_dict(mode="json"))
        judge.finish()
        assert client.responses.create(model=MODEL, input="hi").status == "completed"


async def test_the_blocking_client(gateway_url: str) -> None:
    await to_thread.run_sync(_synchronous, gateway_url)


async def test_in_the_background(gateway_url: str) -> None:
    async with AsyncOpenAI(base_url=gateway_url, api_key="none") as client:
        first = await client.responses.create(model=MODEL, input="hi", background=True)
        assert first.status == "queued"
        judge = StreamJudge()
        last: Any = None
        async for event in await client.responses.retrieve(first.id, stream=True):
            judge.receive(event.to_dict(mode="json"))
            last = event
        judge.finish()
        assert last.response.status == "completed"
        assert (await client.responses.retrieve(first.id)).to_dict() == last.response.to_dict()
        after = last.sequence_number - 2
        events = await client.responses.retrieve(first.id, stream=True, starting_after=after)
        assert [event.sequence_number async for event in events] == [after + 1, after + 2]
        items = [item async for item in client.responses.input_items.list(first.id)]
        assert [item.to_dict()["role"] for item in items] == ["user"]
        with pytest.raises(APIStatusError) as refused:
            await client.responses.cancel(first.id)
        assert refused.value.status_code == 409
        await client.responses.delete(first.id)


async def test_any_stored_response_is_told_again(gateway_url: str) -> None:
    async with AsyncOpenAI(base_url=gateway_url, api_key="none") as client:
        response = await client.responses.create(model=MODEL, input="hi")
        async with client.responses.stream(response_id=response.id) as stream:
            assert (await stream.get_final_response()).output_text == response.output_text
