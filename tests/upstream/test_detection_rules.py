"""What is found out about a backend, and the dialect that it tells of."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gateway.upstream.detection.detector import all_dialects
from gateway.upstream.detection.rules import (
    BackendFacts,
    DetectedDialect,
    EndpointStatus,
    endpoint_status,
    host_of,
    ids_in_answer,
    listed_models,
    match_dialect,
    named_dialect,
)
from lanes.errors import UpstreamFault

JSON = {"content-type": "application/json"}
HERE = EndpointStatus.PRESENT


@pytest.mark.parametrize(
    ("url", "dialect"),
    [
        ("https://api.openai.com/v1", "openai"),
        ("https://eu.api.openai.com/v1", "openai"),
        ("https://mine.openai.azure.com/openai/v1", "azure"),
        ("https://mine.services.ai.azure.com/openai/v1", "azure"),
        ("https://api.friendli.ai/serverless/v1", "friendli"),
        ("https://chat.maritaca.ai/api", "maritaca"),
        ("https://api.x.ai/v1", "xai"),
        ("https://us-east-1.api.x.ai/v1", "xai"),
        ("https://api.groq.com/openai/v1", "groq"),
        ("https://openrouter.ai/api/v1", "openrouter"),
        ("https://router.huggingface.co/v1", "huggingface"),
        ("https://ollama.com/v1", "ollama"),
        ("https://API.OPENAI.COM:443/v1", "openai"),
        ("https://api.deepseek.com", "deepseek"),
        ("https://api.moonshot.cn/v1", "moonshot"),
        ("https://api.z.ai/api/coding/paas/v4", "zai"),
        ("https://open.bigmodel.cn/api/paas/v4", "zai"),
        ("https://dashscope-intl.aliyuncs.com/compatible-mode/v1", "dashscope"),
        ("https://api.minimaxi.com/v1", "minimax"),
        ("https://generativelanguage.googleapis.com/v1beta/openai", "gemini"),
        ("https://api.mistral.ai/v1", "mistral"),
        ("https://api.cerebras.ai/v1", "cerebras"),
        ("https://api.together.xyz/v1", "together"),
        ("https://api.fireworks.ai/inference/v1", "fireworks"),
        ("https://api.githubcopilot.com", "copilot"),
        ("https://api.business.githubcopilot.com", "copilot"),
    ],
)
def test_a_vendors_host_is_enough(url: str, dialect: str) -> None:
    name = host_of(url)
    assert match_dialect(BackendFacts(name), all_dialects()) == DetectedDialect(
        dialect, f"its host is {name}"
    )


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:8000/v1",
        "http://[::1]:8000/v1",
        "https://api.openai.com.example/v1",
        "https://notapi.openai.com.evil/v1",
        "https://fakeopenrouter.ai/v1",
        "https://openai.azure.com/v1",
        "https://x1.us-east-1.aws.endpoints.huggingface.cloud/v1",
    ],
)
def test_no_other_host_is_taken_for_a_vendors(url: str) -> None:
    assert match_dialect(BackendFacts(host_of(url)), all_dialects()) is None


#: What each server puts into its list of models, and into its `server` header.
MARKED = [
    ("vllm", "uvicorn", [{"id": "Qwen/Qwen3-8B", "owned_by": "vllm", "max_model_len": 40960}]),
    ("vllm", "", [{"id": "base", "owned_by": "vllm"}, {"id": "lora", "owned_by": "vllm"}]),
    ("sglang", "uvicorn", [{"id": "m", "owned_by": "sglang", "root": "m"}]),
    ("llamacpp", "", [{"id": "m", "owned_by": "llamacpp", "meta": {"n_ctx": 1024}}]),
    ("llamacpp", "llama.cpp", []),
    ("llamacpp", "llama.cpp/b9999 (x)", []),
    ("ollama", "", [{"id": "hf.co/a/b", "owned_by": "a"}, {"id": "q", "owned_by": "library"}]),
    ("lmstudio", "", [{"id": "m", "owned_by": "organization_owner"}]),
    ("lmstudio", "", [{"id": "m", "owned_by": "organization-owner"}]),
    ("openai", "multilane-rehearse", [{"id": "rehearse", "owned_by": "multilane-rehearse"}]),
]


@pytest.mark.parametrize(("dialect", "server", "models"), MARKED)
def test_a_server_is_known_by_what_it_calls_itself(
    dialect: str, server: str, models: list[dict[str, Any]]
) -> None:
    names, owners = listed_models(json.dumps({"object": "list", "data": models}).encode())
    assert names == tuple(model["id"] for model in models)
    findings = BackendFacts("127.0.0.1", server, owners, names)
    assert match_dialect(findings, all_dialects()) is None, (
        "whether it has /responses is still to be asked"
    )
    detected = match_dialect(_with(findings, responses=HERE), all_dialects())
    assert detected is not None
    assert detected.name == dialect
    by = f"its server header is {server}" if detected.reason.startswith("its server") else None
    assert detected.reason == by or detected.reason.startswith("its models are owned by ")


def test_a_known_server_of_an_age_before_responses_is_asked_for_chat() -> None:
    findings = BackendFacts("127.0.0.1", owners=("vllm",), responses=EndpointStatus.ABSENT)
    assert match_dialect(findings, all_dialects()) is None
    assert match_dialect(_with(findings, chat=EndpointStatus.ABSENT), all_dialects()) is None
    assert match_dialect(_with(findings, chat=HERE), all_dialects()) == DetectedDialect(
        "chat",
        "its models are owned by vllm, but it has no /responses, only /chat/completions",
    )


@pytest.mark.parametrize("how", [one for one in EndpointStatus if one is not EndpointStatus.ABSENT])
def test_an_unknown_server_with_responses(how: EndpointStatus) -> None:
    detected = match_dialect(
        BackendFacts("127.0.0.1", owners=("me",), responses=how), all_dialects()
    )
    assert detected == DetectedDialect("generic", f"it has /responses, which {how.value}")


HEX = "7c1e0d5a94b84f0f9a3d6b2e1f408c11"


@pytest.mark.parametrize(
    ("ids", "dialect"),
    [
        ((f"resp_{HEX}", f"msg_{HEX}"), "friendli"),
        ((f"resp_{HEX}", f"rs_{HEX}", f"msg_{HEX}"), "friendli"),
        (("resp_204817", "rs_77120", "msg_601244"), "ollama"),
        (("resp_9",), "ollama"),
        ((f"resp_{HEX}", f"msg_{HEX[::-1]}"), "generic"),
        ((f"resp_{HEX}",), "generic"),
        (("resp_2048171", "msg_601244"), "generic"),
        (("resp_8f31c2d4a5b64c7e", "msg_8f31c2d4a5b64c7e"), "generic"),
    ],
)
def test_a_server_without_a_name_is_known_by_its_ids(ids: tuple[str, ...], dialect: str) -> None:
    first, *items = ids
    body = {"id": first, "output": [{"id": one} for one in items]}
    findings = BackendFacts(
        "h", responses=EndpointStatus.IGNORES, ids=ids_in_answer(json.dumps(body).encode())
    )
    detected = match_dialect(findings, all_dialects())
    assert detected is not None
    assert detected.name == dialect
    assert (detected.reason == f"it makes ids such as {first}") == (dialect != "generic")


def test_what_it_calls_itself_counts_before_its_ids() -> None:
    findings = BackendFacts("h", owners=("vllm",), responses=HERE, ids="resp_9")
    assert match_dialect(findings, all_dialects()) == DetectedDialect(
        "vllm", "its models are owned by vllm"
    )


@pytest.mark.parametrize("body", [b"", b"no", b"[]", b'{"output": 3}', b'{"output": [1]}'])
def test_an_answer_without_ids(body: bytes) -> None:
    assert ids_in_answer(body) == ""


def test_an_unknown_server_without() -> None:
    nothing = BackendFacts("127.0.0.1", responses=EndpointStatus.ABSENT)
    assert match_dialect(_with(nothing, chat=HERE), all_dialects()) == DetectedDialect(
        "chat", "it has no /responses, only /chat/completions"
    )
    assert match_dialect(_with(nothing, chat=EndpointStatus.ABSENT), all_dialects()) is None


def test_a_proxy_before_many_is_not_taken_for_one_of_them() -> None:
    assert named_dialect(BackendFacts("h", owners=("vllm", "sglang")), all_dialects()) is None
    assert named_dialect(BackendFacts("h", owners=("openai", "system")), all_dialects()) is None


@pytest.mark.parametrize(
    "body",
    [b"", b"no", b"[]", b"\xff", b'{"data": null}', b'{"data": {}}', b'{"data": [1, {"id": 2}]}'],
)
def test_a_list_of_models_that_is_none(body: bytes) -> None:
    assert listed_models(body) == ((), ())


def error(message: str, **fields: Any) -> dict[str, Any]:
    return {"error": {"message": message, "type": "invalid_request_error", **fields}}


#: Who answers what to a request with a made-up previous_response_id.
RECEIVED = [
    # vLLM, without a store and with one
    (404, error("Response with id 'resp_0' not found.", code=404), EndpointStatus.HONOURS),
    # SGLang
    (400, error("response store is not enabled", code=None), EndpointStatus.REFUSES),
    (404, error("Response 'resp_0' was not found", code=404), EndpointStatus.HONOURS),
    (
        400,
        error("llama.cpp does not support 'previous_response_id'.", code=400),
        EndpointStatus.REFUSES,
    ),
    # LM Studio, OpenAI and the rehearsal
    (400, error("x", code="previous_response_not_found"), EndpointStatus.HONOURS),
    (
        400,
        error("Previous response with id 'resp_0' not found.", param="previous_response_id"),
        EndpointStatus.HONOURS,
    ),
    # OpenRouter, schemas
    (
        400,
        {"error": {"code": 400, "message": "previous_response_id: null"}},
        EndpointStatus.REFUSES,
    ),
    (
        422,
        {"detail": [{"loc": ["body", "previous_response_id"], "msg": "Extra inputs", "type": "x"}]},
        EndpointStatus.REFUSES,
    ),
    # Ollama, Friendli
    (200, {"id": "resp_1", "object": "response", "output": []}, EndpointStatus.IGNORES),
    # Something else is wrong with the request, so there is a place for it.
    (404, error("The model `x` does not exist", code="model_not_found"), EndpointStatus.PRESENT),
    (404, error("model 'x' not found, try pulling it first"), EndpointStatus.PRESENT),
    (404, error("none", code="DeploymentNotFound"), EndpointStatus.PRESENT),
    (400, error("'max_output_tokens' is too small"), EndpointStatus.PRESENT),
    (422, {"detail": "no"}, EndpointStatus.PRESENT),
    (500, error("it broke"), EndpointStatus.PRESENT),
    # Nothing there.
    (404, {"detail": "Not Found"}, EndpointStatus.ABSENT),
    (404, error("File Not Found", code=404), EndpointStatus.ABSENT),
    (404, error("Invalid URL (POST /v1/responses)"), EndpointStatus.ABSENT),
    (404, {"error": "Cannot POST /api/v1/responses"}, EndpointStatus.ABSENT),
    (405, {"detail": "Method Not Allowed"}, EndpointStatus.ABSENT),
    (501, {"message": "Not Implemented"}, EndpointStatus.ABSENT),
    (200, {"error": "Unexpected endpoint or method. (POST /v1/responses)"}, EndpointStatus.ABSENT),
]


@pytest.mark.parametrize(("status", "body", "expected"), RECEIVED)
def test_how_a_place_takes_a_request(
    status: int, body: dict[str, Any], expected: EndpointStatus
) -> None:
    assert endpoint_status(status, JSON, json.dumps(body).encode()) is expected


@pytest.mark.parametrize(
    ("status", "kind", "body", "expected"),
    [
        (404, "text/plain", b"404 page not found", EndpointStatus.ABSENT),
        (404, "text/html", b"<h1>No response from this model page</h1>", EndpointStatus.ABSENT),
        (404, "text/plain", b"", EndpointStatus.ABSENT),
        (200, "text/html", b"<p>Ollama is running</p>", EndpointStatus.ABSENT),
        (200, "text/event-stream", b"event: response.created\n", EndpointStatus.IGNORES),
    ],
)
def test_answers_that_are_no_json(
    status: int, kind: str, body: bytes, expected: EndpointStatus
) -> None:
    assert endpoint_status(status, {"content-type": kind}, body) is expected


@pytest.mark.parametrize("status", [301, 308, 401, 403, 407, 408, 425, 429, 502, 503, 504])
def test_some_answers_tell_nothing(status: int) -> None:
    with pytest.raises(UpstreamFault) as raised:
        endpoint_status(status, JSON, json.dumps(error("Loading model", code=status)).encode())
    assert raised.value.status == (status if status >= 400 else 502)
    assert "Loading model" in raised.value.message


def _with(findings: BackendFacts, **more: Any) -> BackendFacts:
    fields = {name: getattr(findings, name) for name in BackendFacts.__slots__}
    return BackendFacts(**{**fields, **more})


@pytest.mark.parametrize(
    ("header", "dialect"),
    [
        ("x-ds-trace-id", "deepseek"),
        ("msh-request-id", "moonshot"),
        ("mistral-correlation-id", "mistral"),
        ("minimax-request-id", "minimax"),
        ("x-groq-region", "groq_chat"),
    ],
)
def test_a_service_behind_a_proxy_leaves_its_header(header: str, dialect: str) -> None:
    seen = frozenset({"content-type", header})
    facts = BackendFacts(
        "127.0.0.1", responses=EndpointStatus.ABSENT, chat=EndpointStatus.PRESENT, headers=seen
    )
    found = match_dialect(facts, all_dialects())
    assert found == DetectedDialect(dialect, f"its answers have the header {header}")


def test_what_several_services_have_left_says_nothing() -> None:
    seen = frozenset({"x-ds-trace-id", "msh-request-id"})
    facts = BackendFacts(
        "127.0.0.1", responses=EndpointStatus.ABSENT, chat=EndpointStatus.PRESENT, headers=seen
    )
    found = match_dialect(facts, all_dialects())
    assert found is not None
    assert found.name == "chat"


@pytest.mark.parametrize("header", ["x-groq-region", "x-ds-trace-id"])
def test_a_header_says_nothing_of_another_endpoint(header: str) -> None:
    facts = BackendFacts("127.0.0.1", responses=HERE, headers=frozenset({header}))
    found = match_dialect(facts, all_dialects())
    assert found is not None
    assert found.name == ("groq" if header == "x-groq-region" else "generic")
