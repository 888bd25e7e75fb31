"""What an error says that its backend refuses: in the words of the servers that refuse."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai.types.chat import completion_create_params as chat_params

from gateway.dialects.chat import DIALECT
from gateway.upstream.chat.keys import EXTRAS, KNOWN
from gateway.upstream.refused.memory import RefusedKeys
from gateway.upstream.refused.reading import MEANT, refusal_in
from gateway.upstream.refused.request import DEMANDED, Refusal, without
from gateway.upstream.transport.faults import answer_fault
from lanes.codec import encode
from lanes.history.makers import Maker
from tests.dialects.chat_judge import refuses

CHAT: dict[str, Any] = {
    "model": "m",
    "messages": [{"role": "system", "content": "s"}, {"role": "user", "content": "hi"}],
    "stream": True,
    "stream_options": {"include_usage": True},
    "max_tokens": 9,
    "temperature": 0.2,
    "top_p": 0.5,
    "logprobs": True,
    "top_logprobs": 2,
    "parallel_tool_calls": False,
    "reasoning_effort": "minimal",
    "response_format": {"type": "json_object"},
    "metadata": {"a": "b"},
    "user": "u",
    "seed": 1,
    "stop": ["x"],
    "presence_penalty": 1,
    "tool_choice": "auto",
    "tools": [{"type": "function", "function": {"name": "f", "strict": True, "parameters": {}}}],
}
RESPONSES: dict[str, Any] = {
    "model": "m",
    "input": [{"role": "developer", "content": "s"}, {"role": "user", "content": "hi"}],
    "stream": True,
    "store": False,
    "max_output_tokens": 9,
    "temperature": 0.2,
    "reasoning": {"effort": "minimal", "summary": "auto"},
    "text": {"format": {"type": "json_schema", "schema": {}}, "verbosity": "low"},
    "include": ["reasoning.encrypted_content"],
    "client_metadata": {"a": "b"},
    "parallel_tool_calls": True,
    "tools": [{"type": "function", "name": "f", "strict": True}],
}


def openai(message: str, param: str | None = None, code: str | None = None) -> Any:
    return {"error": {"message": message, "type": "invalid_request_error", "param": param,
                      "code": code}}  # fmt: skip


def extra(*loc: Any, **more: Any) -> Any:
    told = {"type": "extra_forbidden", "loc": ["body", *loc], "input": {}, **more}
    return {"detail": [told]}


def found(status: int, body: Any, request: dict[str, Any]) -> Refusal | None:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    fault = answer_fault(status, {"content-type": "application/json"}, data)
    return refusal_in(fault, request)


NOT_PERMITTED = "Extra inputs are not permitted"
IN_CHAT: list[tuple[Any, str]] = [
    # OpenAI and Azure
    (openai("Unrecognized request argument supplied: stream_options"), "stream_options"),
    (openai("Unrecognized request arguments supplied: seed, user"), "seed"),
    (openai("Unrecognized request argument supplied: user"), "user"),
    (
        openai("Unsupported parameter: 'max_tokens' is not supported with this model. Use "
               "'max_completion_tokens' instead.", "max_tokens", "unsupported_parameter"),
        "max_tokens",
    ),
    (
        openai("Unsupported parameter: 'max_tokens' is not supported with this model. Use "
               "'max_completion_tokens' instead.", None, "invalid_request_body"),
        "max_tokens",
    ),
    (openai("Unsupported parameter: 'parallel_tool_calls' is not supported with this model.",
            "parallel_tool_calls", "unsupported_parameter"), "parallel_tool_calls"),
    (openai("Unknown parameter: 'tools[0].function.strict'.", "tools[0].function.strict",
            "unknown_parameter"), "strict"),
    (openai("Unknown parameter: 'metadata'.", "metadata", "unknown_parameter"), "metadata"),
    (openai("The 'metadata' parameter is only allowed when 'store' is enabled.", "metadata"),
     "metadata"),
    (openai("logprobs are not supported with reasoning models.", "logprobs"), "logprobs"),
    (openai("'logprobs' is not supported with reasoning models."), "logprobs"),
    (openai("Additional properties are not allowed ('seed' was unexpected)"), "seed"),
    # FastAPI and pydantic, in all of their wrappings
    (extra("stream_options", msg=NOT_PERMITTED), "stream_options"),
    (extra("stream_options"), "stream_options"),
    (extra("user", msg=NOT_PERMITTED), "user"),
    (extra("tools", 0, "function", "strict", msg=NOT_PERMITTED), "strict"),
    ({"detail": [{"loc": ["body", "seed"], "msg": "extra fields not permitted",
                  "type": "value_error.extra"}]}, "seed"),
    ({"object": "error", "message": extra("parallel_tool_calls", msg=NOT_PERMITTED),
      "type": "invalid_request_error", "param": None, "code": None}, "parallel_tool_calls"),
    ({"object": "error", "message": "[{'type': 'extra_forbidden', 'loc': ('body', "
      "'reasoning_effort'), 'msg': 'Extra inputs are not permitted', 'input': 'low'}]",
      "type": "BadRequestError", "code": 400}, "reasoning_effort"),
    (openai("1 validation error: {'type': 'extra_forbidden', 'loc': ('body', 'user')}"), "user"),
    (openai("Extra inputs are not permitted, field: 'stream_options'"), "stream_options"),
    (openai("stream_options: Extra inputs are not permitted"), "stream_options"),
    # Groq and Cerebras
    (openai("property 'stream_options' is unsupported, did you mean 'stream'?"), "stream_options"),
    (openai("property 'user' is unsupported"), "user"),
    (openai("'tools.0.function' : property 'strict' is unsupported"), "strict"),
    ({"message": "body.seed: property 'body.seed' is unsupported", "code": "wrong_api_format"},
     "seed"),
    # Go, Rust, Google, xAI, and others
    ({"error": 'json: unknown field "stream_options"'}, "stream_options"),
    (openai("Failed to deserialize the JSON body: unknown field `top_logprobs`, expected one of "
            "`model`, `messages`, `seed`, `temperature`"), "top_logprobs"),
    ([{"error": {"code": 400, "message": 'Invalid JSON payload received. Unknown name '
                 '"presence_penalty": Cannot find field.', "status": "INVALID_ARGUMENT"}}],
     "presence_penalty"),
    ([{"error": {"code": 400, "message": 'Invalid JSON payload received. Unknown name "strict" '
                 "at 'tools[0].function': Cannot find field."}}], "strict"),
    ({"code": "Client specified an invalid argument",
      "error": "Argument not supported on this model: presencePenalty"}, "presence_penalty"),
    ({"error": "Model m does not support parameter reasoningEffort."}, "reasoning_effort"),
    ({"detail": "Unsupported parameter: parallel_tool_calls"}, "parallel_tool_calls"),
    ({"message": "`temperature` is deprecated for this model."}, "temperature"),
    (openai("This model doesn't support the response_format parameter"), "response_format"),
    (b"parallel_tool_calls=False is not supported on this backend.", "parallel_tool_calls"),
    ([{"error": {"code": 400, "message": "Parallel tool calls are not supported.",
                 "status": "INVALID_ARGUMENT"}}], "parallel_tool_calls"),
    ({"error": {"message": "Provider returned error", "code": 400, "metadata": {
        "raw": json.dumps({"detail": "Unsupported parameter: seed"}), "provider_name": "x"}}},
     "seed"),
    (openai("extraneous key [metadata] is not permitted"), "metadata"),
]  # fmt: skip


@pytest.mark.parametrize("status", [400, 422])
@pytest.mark.parametrize(("body", "key"), IN_CHAT)
def test_a_refused_key_of_chat(status: int, body: Any, key: str) -> None:
    assert found(status, body, CHAT) == Refusal(key)
    assert found(401, body, CHAT) is None


def test_c71_a_form_of_answer_that_a_server_lacks() -> None:
    told = {"error": "'response_format.type' must be 'json_schema' or 'text'"}
    assert found(400, told, CHAT) == Refusal("response_format")
    told = openai("response_format` does not support streaming")  # C72
    assert found(400, told, CHAT) == Refusal("response_format")


IN_RESPONSES: list[tuple[Any, Refusal]] = [
    ({"detail": "Unsupported parameter: max_output_tokens"}, Refusal("max_output_tokens")),
    (openai("Unknown parameter: 'client_metadata'.", "client_metadata", "unknown_parameter"),
     Refusal("client_metadata")),
    (openai("Unsupported parameter: 'reasoning.summary' is not supported with this model.",
            "reasoning.summary", "unsupported_parameter"), Refusal("reasoning.summary")),
    (openai("Unsupported value: 'reasoning.effort' does not support 'minimal' with this model. "
            "Supported values are: 'low'.", "reasoning.effort", "unsupported_value"),
     Refusal("reasoning.effort", '"minimal"')),
    (extra("store", msg=NOT_PERMITTED), Refusal("store")),
    (extra("text", "verbosity", msg=NOT_PERMITTED), Refusal("text.verbosity")),
    (extra("tools", 0, "strict", msg=NOT_PERMITTED), Refusal("strict")),
    (openai("Unsupported value: 'developer' is not a supported role", "input[0].role"),
     Refusal("developer")),
    (openai("property 'include' is unsupported"), Refusal("include")),
]  # fmt: skip


@pytest.mark.parametrize(("body", "refusal"), IN_RESPONSES)
def test_a_refused_key_of_responses(body: Any, refusal: Refusal) -> None:
    assert found(400, body, RESPONSES) == refusal


VALUES: list[tuple[Any, Refusal]] = [
    (openai("Unsupported value: 'temperature' does not support 0.2 with this model. Only the "
            "default (1) value is supported.", "temperature", "unsupported_value"),
     Refusal("temperature", "0.2")),
    (openai("`reasoning_effort` must be one of `none` or `default`"),
     Refusal("reasoning_effort", '"minimal"')),
]  # fmt: skip


@pytest.mark.parametrize(("body", "refusal"), VALUES)
def test_one_value_is_refused_and_no_other(body: Any, refusal: Refusal) -> None:
    assert found(400, body, CHAT) == refusal
    assert refusal.key not in without(CHAT, {refusal})
    other = CHAT | {refusal.key: "other"}
    assert without(other, {refusal}) == other


#: Errors that the client has to get.
OTHERS: list[Any] = [
    openai("Invalid value for 'temperature': must be at most 2.", "temperature"),
    openai("This model's maximum context length is 4096 tokens. However, you requested 5000 "
           "(in 'messages', 'max_tokens'), which is not supported."),
    openai("Unsupported parameter: 'tools' is not supported with this model.", "tools"),
    openai("Unknown parameter: 'messages'.", "messages"),
    openai("property 'stop' is unsupported"),
    openai("The model `m` does not support images."),
    openai("Invalid schema for function 'f': unknown keyword"),
    openai("unknown user"),
    {"detail": [{"loc": ["body", "messages", 0, "content"], "msg": "Field required"}]},
    b"no",
]  # fmt: skip


@pytest.mark.parametrize("body", OTHERS)
def test_other_errors_are_the_clients(body: Any) -> None:
    assert found(400, body, CHAT) is None


def test_what_the_client_must_get_is_never_left_out() -> None:
    form = {"type": "json_schema", "json_schema": {"name": "n", "schema": {}}}
    refused = openai("'response_format' is not supported", "response_format")
    assert found(400, refused, CHAT | {"response_format": form}) is None
    forced = openai("tool_choice is not supported", "tool_choice")
    assert found(400, forced, CHAT) == Refusal("tool_choice")
    assert found(400, forced, CHAT | {"tool_choice": "required"}) is None
    assert found(400, openai("Unknown parameter: 'text'", "text"), RESPONSES) is None
    for key in MEANT:
        assert found(400, openai(f"Unknown parameter: '{key}'", key), CHAT | {key: 1}) is None


IN_MESSAGES: list[tuple[Any, str]] = [
    (
        openai("'messages.2' : for 'role:assistant' the following must be true[('messages.2' : "
               "property 'reasoning_content' is unsupported)]"),
        "reasoning_content",
    ),
    (extra("messages", 2, "assistant", "reasoning", msg=NOT_PERMITTED), "reasoning"),
    (openai("Unknown parameter: 'messages[1].reasoning_details'.",
            "messages[1].reasoning_details", "unknown_parameter"), "reasoning_details"),
    ([{"error": {"message": 'Unknown name "extra_content" at \'messages[1].tool_calls[0]\': '
                 "Cannot find field."}}], "extra_content"),
]  # fmt: skip


@pytest.mark.parametrize(("body", "key"), IN_MESSAGES)
def test_a_refused_key_of_messages(body: Any, key: str) -> None:
    assert found(400, body, CHAT) == Refusal("messages", key)
    call = {"id": "c", "type": "function", "function": {"name": "f"}}
    said = {"role": "assistant", "content": "", "tool_calls": [call | {key: {}}], key: "x"}
    (made,) = without({"messages": [said]}, {Refusal("messages", key)})["messages"]
    assert made == {"role": "assistant", "content": "", "tool_calls": [call]}


DEMANDS: list[tuple[Any, str]] = [
    (openai("Param Incorrect", "The reasoning_content in the thinking mode must be passed back to "
            "the API.", "400"), "reasoning_content"),
    ("the reasoning content from the previous turn must be passed back in thinking mode",
     "reasoning_content"),
    ("The `reasoning_content` in the thinking mode must be passed back to the API.",
     "reasoning_content"),
    ("thinking is enabled but reasoning_content is missing in assistant tool call message 2",
     "reasoning_content"),
    ("Missing `reasoning_content` field in the assistant message at message index 1.",
     "reasoning_content"),
    ("messages.1.reasoning_content: Field required", "reasoning_content"),
    ("messages[1].reasoning_text is required when thinking is enabled", "reasoning_text"),
    ("The reasoning of earlier turns must be provided in 'reasoning'.", "reasoning"),
]  # fmt: skip


@pytest.mark.parametrize(("message", "key"), DEMANDS)
def test_c55_a_key_that_messages_must_have(message: Any, key: str) -> None:
    maker = Maker("", "chat")
    memory, request = RefusedKeys("", maker), encode(CHAT)
    body = openai(message) if isinstance(message, str) else message
    fault = answer_fault(400, {"content-type": "application/json"}, encode(body))
    first = memory.conceding(DIALECT, fault, request)
    assert first is not None
    second = memory.conceding(first, fault, request)
    assert second is not None
    assert memory.conceding(second, fault, request) is None
    assert maker.reasoning_key == key
    said: list[dict[str, Any]] = [
        {"role": "user", "content": "a"},
        {"role": "assistant", "content": "b"},
        {"role": "assistant", "content": "c", key: "d"},
    ]
    for dialect, empty in ((first, ""), (second, " ")):
        made = without({"messages": said}, dialect.refuses)["messages"]
        assert made == [said[0], said[1] | {key: empty}, said[2]]


@pytest.mark.parametrize(
    "message", ["reasoning_content must be empty", "reasoning_content must not be set"]
)
def test_a_key_that_messages_must_not_have_is_not_demanded(message: str) -> None:
    refusal = found(400, openai(message), CHAT)
    assert refusal is None or not refusal.value.startswith(DEMANDED)


ORDERS: list[tuple[int, str, str]] = [
    (400, "Conversation roles must alternate user/assistant/user/assistant/...", "turns"),
    (500, "Jinja Exception: conversation roles must alternate user and assistant", "turns"),
    (400, "After the optional system message, conversation roles must alternate", "turns"),
    (400, "A conversation must alternate between user and assistant roles.", "turns"),
    (400, "System role not supported", "system"),
    (400, "Only user and assistant roles are supported!", "system"),
    (400, "'messages[0].role' does not support 'system' with this model.", "system"),
    (422, "Unexpected role 'user' after role 'tool'", "user after tool"),
    (400, "Tool call id was call_1 but must be a-z, A-Z, 0-9, with a length of 9.", "call ids"),
    (500, "Tool call IDs should be alphanumeric strings with length 9!", "call ids"),
]  # fmt: skip


@pytest.mark.parametrize(("status", "message", "order"), ORDERS)
def test_a_template_that_refuses_an_order(status: int, message: str, order: str) -> None:
    assert found(status, {"error": {"message": message}}, CHAT) == Refusal("messages", order)
    told = found(status, {"error": {"message": message}}, RESPONSES)
    assert told == (Refusal("input", order) if order in ("turns", "system") else None)


def test_without() -> None:
    assert without(CHAT, {Refusal("seed")}) == {k: v for k, v in CHAT.items() if k != "seed"}
    renamed = without(CHAT, {Refusal("max_tokens")})
    assert "max_tokens" not in renamed
    assert renamed["max_completion_tokens"] == 9
    newer = {"max_completion_tokens": 9, "messages": []}
    assert without(newer, {Refusal("max_completion_tokens")})["max_tokens"] == 9
    both = {Refusal("max_tokens"), Refusal("max_completion_tokens")}
    assert not without(CHAT, both).keys() & {"max_tokens", "max_completion_tokens"}
    assert not without(CHAT, {Refusal("logprobs")}).keys() & {"logprobs", "top_logprobs"}
    assert without(RESPONSES, {Refusal("reasoning.effort")})["reasoning"] == {"summary": "auto"}
    nested = {Refusal("reasoning.effort"), Refusal("reasoning.summary")}
    assert "reasoning" not in without(RESPONSES, nested)
    assert "strict" not in json.dumps(without(CHAT, {Refusal("strict")}))
    assert "strict" not in json.dumps(without(RESPONSES, {Refusal("strict")}))
    bare = without(RESPONSES, {Refusal("developer")})
    assert bare["input"][0] == {"role": "system", "content": "s"}
    told = without(CHAT, {Refusal("messages", "system")})["messages"]
    assert told == [{"role": "user", "content": "s\n\nhi"}]
    assert without({}, {Refusal("x"), Refusal("reasoning.x"), Refusal("strict")}) == {}


@given(st.sets(st.sampled_from([*CHAT, "strict", "reasoning_effort"]), max_size=6))
def test_a_request_without_any_keys_is_still_one_of_chat(keys: set[str]) -> None:
    gone = {Refusal(key) for key in keys - MEANT - {"stream_options", "tool_choice"}}
    made = without(CHAT, gone)
    assert refuses(made) is None, refuses(made)
    assert not made.keys() & {refusal.key for refusal in gone}


# The keys of Chat Completions


def test_the_keys_are_those_of_the_official_client() -> None:
    own = set(chat_params.CompletionCreateParamsBase.__annotations__) | {"stream"}
    assert own == KNOWN
    assert not KNOWN & (EXTRAS - {"logit_bias"})


def test_no_other_key_is_sent(warnings: Any) -> None:
    body = {
        **{"client_metadata": {"a": 1}, "image": {}, "zebra": 1, "top_k": 5, "seed": 1},
        **{"multi_agent": {}, "access_programs": [], "prompt": {"id": "p"}},
    }
    made = json.loads(DIALECT.request({"model": "m", **body}, [encode({"role": "user"})]))
    assert made.keys() <= KNOWN | EXTRAS
    assert (made["top_k"], made["seed"]) == (5, 1)
    assert "zebra" in " ".join(warnings())
