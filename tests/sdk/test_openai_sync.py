"""The official Python SDK, synchronous, in a thread beside the gateway's loop."""

from __future__ import annotations

from anyio import to_thread
from openai import OpenAI

from tests.support.judged_sdk import MODEL, Lanes, judged


def _plan_fork_join(url: str) -> None:
    lanes = Lanes()
    with OpenAI(base_url=url, api_key="none") as client, client.responses.connect() as connection:
        judge = judged(connection)
        events = iter(connection)
        create = connection.response.create
        create(model=MODEL, stream_id="planner", input="Plan the launch", store=False)
        [plan] = lanes.take(events, "planner")
        create(model=MODEL, stream_id="research", input="Research", previous_response_id=plan.id)
        create(model=MODEL, stream_id="critic", input="Criticize", previous_response_id=plan.id)
        for response in lanes.take(events, "research", "critic"):
            assert "Plan the launch" in response.output_text
            assert response.previous_response_id == plan.id
        create(model=MODEL, input="Join", previous_response_id=plan.id)
        [joined] = lanes.take(events, None)
        assert "Plan the launch" in joined.output_text
        judge.finish()


async def test_a_planner_forks_and_joins(gateway_url: str) -> None:
    await to_thread.run_sync(_plan_fork_join, gateway_url)


def _fifo(url: str) -> None:
    lanes = Lanes()
    with OpenAI(base_url=url, api_key="none") as client, client.responses.connect() as connection:
        judge = judged(connection)
        events = iter(connection)
        for text in ("one", "two", "three"):
            connection.response.create(model=MODEL, stream_id="a", input=text, store=False)
        for text in ("one", "two", "three"):
            [response] = lanes.take(events, "a")
            assert f'"{text}"' in response.output_text
        judge.finish()


async def test_a_lane_is_first_in_first_out(gateway_url: str) -> None:
    await to_thread.run_sync(_fifo, gateway_url)
