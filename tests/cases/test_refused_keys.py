"""Keys that a backend refuses: asked once more without them, and remembered."""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING, Any

import pytest

from tests.cases.refusing import Strict, template, unsupported
from tests.dialects.strict import templates
from tests.support.events import reply
from tests.support.gateway_stand import stand, user

if TYPE_CHECKING:
    from tests.cases.refusing import Rule


def forbids(*keys: str) -> Rule:
    """As FastAPI does, with all keys in one error."""

    def rule(request: dict[str, Any]) -> tuple[int, Any] | None:
        odd = [{"type": "extra_forbidden", "loc": ["body", key], "msg": "Extra inputs are not "
                "permitted"} for key in keys if key in request]  # fmt: skip
        return (422, {"detail": odd}) if odd else None

    return rule


def default_only(request: dict[str, Any]) -> tuple[int, Any] | None:
    told = "Unsupported value: 'temperature' does not support this value with this model. Only "
    told += "the default (1) value is supported."
    error = {"message": told, "param": "temperature", "code": "unsupported_value"}
    return (400, {"error": error}) if request.get("temperature", 1) != 1 else None


async def test_each_key_costs_one_refusal_and_no_more(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "multilane.upstream")
    refused = ("stream_options", "parallel_tool_calls", "metadata")
    backend = Strict(forbids(*refused), unsupported("max_tokens", "max_completion_tokens"))
    asked = {"parallel_tool_calls": False, "metadata": {"a": "b"}, "max_output_tokens": 9}
    tools = [{"type": "function", "name": "f", "parameters": {"type": "object"}}]
    async with stand(backend, dialect="chat", retries=0) as on:
        await on.client.create("a", tools=tools, **asked)
        first = await on.client.ended("a")
        assert first["status"] == "completed"
        assert first["metadata"] == {"a": "b"}, "it is the client's, whatever the backend takes"
        assert backend.refused == 4
        await on.client.create("a", tools=tools, previous_response_id=first["id"], **asked)
        assert (await on.client.ended("a"))["status"] == "completed"
        assert backend.refused == 4
        assert all(one["max_completion_tokens"] == 9 for one in backend.taken)
    lines = [record.getMessage() for record in caplog.records]
    assert [sum(f"refuses {key} " in line for line in lines) for key in refused] == [1, 1, 1]
    assert sum("sent as max_completion_tokens" in line for line in lines) == 1


async def test_what_one_model_refuses_another_may_take() -> None:
    def rule(request: dict[str, Any]) -> tuple[int, Any] | None:
        return unsupported("temperature")(request) if request["model"] == "small" else None

    backend = Strict(rule)
    async with stand(backend, dialect="chat", retries=0) as on:
        for model in ("small", "large", "small"):
            await on.client.create("a", model=model, temperature=0.5)
            await on.client.ended("a")
        assert ["temperature" in one for one in backend.taken] == [False, True, False]
        assert backend.refused == 1


async def test_one_value_is_refused_and_another_taken() -> None:
    backend = Strict(default_only)
    async with stand(backend, dialect="chat", retries=0) as on:
        for value in (0.2, 1, 0.2):
            await on.client.create("a", temperature=value)
            await on.client.ended("a")
        assert [one.get("temperature") for one in backend.taken] == [None, 1, None]
        assert backend.refused == 1


async def test_what_did_not_help_is_not_remembered() -> None:
    """An error may quote a client: nobody else loses a key for it."""

    def quoting(request: dict[str, Any]) -> tuple[int, Any] | None:
        said = request["messages"][-1]["content"]
        return (400, {"error": {"message": f"refused: {said}"}}) if "evil" in said else None

    backend = Strict(quoting)
    async with stand(backend, dialect="chat", retries=0) as on:
        evil = "evil: 'temperature' is unsupported"
        await on.client.create("a", input=evil, temperature=0.5)
        error = await on.client.error("a")
        assert error["error"]["message"] == f"refused: {evil}"
        await on.client.create("a", temperature=0.5)
        await on.client.ended("a")
        assert [one["temperature"] for one in backend.taken] == [0.5]


async def test_what_the_client_must_get_is_refused_at_once() -> None:
    backend = Strict(unsupported("response_format"))
    form = {"format": {"type": "json_schema", "name": "n", "schema": {"type": "object"}}}
    async with stand(backend, dialect="chat", retries=0) as on:
        await on.client.create("a", text=form)
        error = await on.client.error("a")
        assert (error["status"], error["error"]["param"]) == (400, "response_format")
        assert backend.refused == 1
        await on.client.create("a", text={"format": {"type": "json_object"}})
        assert (await on.client.ended("a"))["status"] == "completed"


async def test_a_backend_that_refuses_for_ever_is_not_asked_for_ever() -> None:
    def rule(request: dict[str, Any]) -> tuple[int, Any] | None:
        told = next((f"unknown field `{key}`" for key in request if key.startswith("top_")), "no")
        return 400, {"error": {"message": told}}

    backend = Strict(rule)
    extras = {"top_k": 1, "top_a": 1, "top_p": 0.5, "top_n_sigma": 1}
    async with stand(backend, dialect="chat", retries=0) as on:
        await on.client.create("a", **extras)
        assert (await on.client.error("a"))["error"]["message"] == "no"
        assert backend.refused == 1 + len(extras)

    def always(request: dict[str, Any]) -> tuple[int, Any] | None:
        return 400, {"error": {"message": "property 'seed' is unsupported"}}

    backend = Strict(always)
    async with stand(backend, dialect="chat", retries=0) as on:
        await on.client.create("a", seed=1)
        await on.client.error("a")
        assert backend.refused == 2


@pytest.mark.parametrize("dialect", ["generic", "vllm", "openai", "groq"])
async def test_backends_of_responses_likewise(dialect: str) -> None:
    rules = [unsupported("store"), unsupported("top_k"), unsupported("max_output_tokens")]
    backend = Strict(*rules, answer=reply("ok"))
    async with stand(backend, dialect=dialect, retries=0) as on:
        for _ in range(2):
            await on.client.create("a", top_k=4, max_output_tokens=9)
            assert (await on.client.ended("a"))["status"] == "completed"
        assert backend.refused == 3
        assert not any(
            one.keys() & {"store", "top_k", "max_output_tokens"} for one in backend.taken
        )


JUDGES = {"mistral": templates.mistral, "alternating": templates.alternating}


@pytest.mark.parametrize("name", JUDGES)
@pytest.mark.parametrize("status", [400, 500])
async def test_a_strict_template_is_learnt(name: str, status: int) -> None:
    """Whatever it refuses of a conversation with calls, steers and developers."""
    backend = Strict(template(JUDGES[name], status))
    call = {"type": "function_call", "call_id": "call_1", "name": "f", "arguments": "{}"}
    given = {"type": "function_call_output", "call_id": "call_1", "output": "o"}
    system = {"role": "developer", "content": "s"}
    history = [user("a"), call, given, user("b"), system, user("c")]
    async with stand(backend, dialect="chat", retries=0) as on:
        for _ in range(2):
            await on.client.create("a", input=history, instructions="be brief")
            assert (await on.client.ended("a"))["status"] == "completed"
        assert backend.refused <= 2
        for request in backend.taken:
            assert all(word in json.dumps(request["messages"]) for word in "abcso")


def as_messages(request: dict[str, Any]) -> list[dict[str, Any]]:
    """The messages that a server makes of an input."""
    made: list[dict[str, Any]] = []
    if request.get("instructions"):
        made.append({"role": "system", "content": request["instructions"]})
    for item in request["input"]:
        if item.get("type") == "function_call":
            made.append({"role": "assistant", "tool_calls": [{"id": item["call_id"]}]})
        elif item.get("type") == "function_call_output":
            made.append({"role": "tool", "tool_call_id": item["call_id"]})
        else:
            made.append({"role": item["role"].replace("developer", "system")})
    return made


@pytest.mark.parametrize("dialect", ["generic", "vllm", "llamacpp", "lmstudio"])
async def test_a_strict_template_behind_responses_is_learnt(dialect: str) -> None:
    def rule(request: dict[str, Any]) -> tuple[int, Any] | None:
        why = templates.alternating(as_messages(request))
        return None if why is None else (500, {"error": {"message": why}})

    backend = Strict(rule, answer=reply("ok"))
    history = [user("a"), user("b"), {"role": "developer", "content": "s"}, user("c")]
    async with stand(backend, dialect=dialect, retries=0) as on:
        for _ in range(2):
            await on.client.create("a", input=history, instructions="be brief")
            first = await on.client.ended("a")
            assert first["status"] == "completed"
        await on.client.create("a", input=[user("d")], previous_response_id=first["id"])
        await on.client.ended("a")
        assert backend.refused == 1
        told = [item.get("role") for item in backend.taken[-1]["input"]]
        assert told == ["user", "assistant", "user"]
        assert all(text in str(backend.taken[-1]["input"]) for text in "abscd")


async def test_a_template_without_a_system_is_learnt() -> None:
    backend = Strict(template(templates.gemma))
    async with stand(backend, dialect="chat", retries=0) as on:
        await on.client.create("a", input="hi", instructions="be brief")
        first = await on.client.ended("a")
        await on.client.create(
            "a", input="and?", instructions="be brief", previous_response_id=first["id"]
        )
        await on.client.ended("a")
        assert backend.refused == 1
        told = [one["content"] for one in backend.taken[-1]["messages"]]
        assert told == ["be brief\n\nhi", "Hello", "and?"]
