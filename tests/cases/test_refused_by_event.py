"""What a backend refuses with a status of 200, by its first event or by the whole body (D42)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from lanes.codec import encode
from tests.cases.refusing import ANSWER, Strict, template, unsupported
from tests.dialects.strict import templates
from tests.support.events import created, data, event, reply
from tests.support.gateway_stand import stand

if TYPE_CHECKING:
    from collections.abc import Callable


def _failed(told: Any) -> bytes:
    response = {"id": "r", "status": "failed", "error": {"code": "server_error", **told["error"]}}
    return created() + event("response.failed", response=response)


#: How backends refuse a request with a status of 200.
WITH_200: dict[str, Callable[[Any], bytes]] = {
    "an event called error": lambda told: b"event: error\n" + data(told),
    "an event": data,
    "an event after a comment": lambda told: b": ping\n\n" + data(told),
    "a flat event": lambda told: data({"type": "error", **told["error"]}),
    "a field of its own": lambda told: b"error: " + encode(told["error"]) + b"\n\n",
    "a JSON body": encode,
    "a JSON body of many lines": lambda told: json.dumps(told, indent=2).encode(),
    "a status in words": lambda told: data({**told, "status": 400}),
    "a failed response": _failed,
}


@pytest.mark.parametrize("told", WITH_200)
@pytest.mark.parametrize("dialect", ["chat", "generic"])
async def test_a_refusal_with_a_status_of_200(told: str, dialect: str) -> None:
    rules = [unsupported("top_k"), unsupported("temperature")]
    answer = ANSWER if dialect == "chat" else reply("Hello")
    backend = Strict(*rules, answer=answer, tell=WITH_200[told])
    async with stand(backend, dialect=dialect, retries=0) as on:
        for _ in range(2):
            await on.client.create("a", top_k=4, temperature=0.5)
            assert (await on.client.ended("a"))["status"] == "completed"
        kinds = [one["type"] for one in on.client.transcript]
        assert kinds.count("response.created") == 2
        assert backend.refused == 2
        assert not any(one.keys() & {"top_k", "temperature"} for one in backend.taken)


async def test_a_template_that_fails_within_a_stream_is_learnt() -> None:
    """As LM Studio tells it."""
    backend = Strict(template(templates.gemma), tell=lambda told: b"event: error\n" + data(told))
    async with stand(backend, dialect="chat", retries=0) as on:
        for _ in range(2):
            await on.client.create("a", input="hi", instructions="be brief")
            assert (await on.client.ended("a"))["status"] == "completed"
        assert backend.refused == 1


@pytest.mark.parametrize("code", [401, 429, "rate_limit_exceeded", 503])
async def test_an_error_that_is_about_no_request_is_the_clients(code: Any) -> None:
    def rule(_: dict[str, Any]) -> tuple[int, Any] | None:
        return 400, {"error": {"message": "'temperature' is unsupported", "code": code}}

    backend = Strict(rule, tell=data)
    async with stand(backend, dialect="chat", retries=0) as on:
        await on.client.create("a", temperature=0.5)
        await on.client.error("a")
        assert backend.refused == 1


async def test_what_a_second_error_answers_was_no_help() -> None:
    def rule(request: dict[str, Any]) -> tuple[int, Any] | None:
        key = "temperature" if "temperature" in request else "input"
        return 400, {"error": {"message": f"'{key}' is unsupported"}}

    backend = Strict(rule, tell=data)
    async with stand(backend, dialect="chat", retries=0) as on:
        for _ in range(2):
            await on.client.create("a", temperature=0.5)
            await on.client.error("a")
        assert backend.refused == 4
