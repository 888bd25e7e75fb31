"""A strict Chat Completions server, as far as it looks at requests: pickier than any real one."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

_FOREIGN = frozenset(
    {"input", "instructions", "include", "truncation", "previous_response_id", "store", "text"}
    | {"background", "prompt", "conversation", "max_tool_calls", "context_management", "reasoning"}
    | {"max_output_tokens", "type", "stream_id", "generate"}
)
_MESSAGE_KEYS = {
    "system": {"role", "content"},
    "user": {"role", "content"},
    "assistant": {"role", "content", "tool_calls"},
    "tool": {"role", "content", "tool_call_id"},
}
_PARTS = {"text": str, "image_url": dict, "input_audio": dict, "file": dict, "video_url": dict}
#: What is under these is the client's own, nulls included.
_FREE = frozenset({"parameters", "schema", "metadata"})


class _Refusal(Exception):
    pass


def refuses(body: dict[str, Any], *, own: frozenset[str] = frozenset()) -> str | None:
    """Why this request gets a 400; None if it gets an answer.

    `own` are the keys of its own that the server wants back on the assistant's messages and calls.
    """
    try:
        _check(_plain(body, own))
    except _Refusal as refusal:
        return str(refusal)
    return None


def _plain(body: dict[str, Any], own: frozenset[str]) -> dict[str, Any]:
    """The request without the keys of the server's own, none of which may be empty."""
    if not own or not isinstance(body.get("messages"), list):
        return body
    return {**body, "messages": [_plain_message(message, own) for message in body["messages"]]}


def _plain_message(message: dict[str, Any], own: frozenset[str]) -> dict[str, Any]:
    if message.get("role") != "assistant":
        return message
    for holder in (message, *message.get("tool_calls", ())):
        _need(all(holder[key] for key in own & holder.keys()), "nothing under a key of its own")
    bare = {key: value for key, value in message.items() if key not in own}
    calls = [
        {key: value for key, value in call.items() if key not in own}
        for call in message.get("tool_calls", ())
    ]
    return {**bare, "tool_calls": calls} if calls else bare


def _need(holds: object, why: str) -> None:
    if not holds:
        raise _Refusal(why)


def _check(body: dict[str, Any]) -> None:
    foreign = _FOREIGN & body.keys()
    _need(not foreign, f"unknown keys: {sorted(foreign)}")
    _need(body.get("model"), "model is missing")
    nulls = list(_nulls(body, "body"))
    _need(not nulls, f"nulls: {nulls}")
    _need(body.get("stream") is True, "no stream asked for")
    _need(body.get("stream_options") == {"include_usage": True}, "no usage asked for")
    _need("max_tokens" not in body or "max_completion_tokens" not in body, "two limits")
    _need("top_logprobs" not in body or body.get("logprobs") is True, "top_logprobs alone")
    _check_tools(body)
    _check_format(body.get("response_format", {"type": "text"}))
    messages = body.get("messages")
    _need(isinstance(messages, list) and messages, "no messages")
    for message in messages or ():
        _check_message(message)
    _check_order(messages or [])


def _nulls(value: Any, path: str) -> Iterator[str]:
    if value is None:
        yield path
    elif isinstance(value, dict | list):
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            if key not in _FREE:
                yield from _nulls(inner, f"{path}.{key}")


def _check_tools(body: dict[str, Any]) -> None:
    tools, choice = body.get("tools"), body.get("tool_choice")
    if tools is None:
        _need(choice is None and "parallel_tool_calls" not in body, "a choice without tools")
        return
    _need(isinstance(tools, list) and tools, "tools are empty")
    for tool in tools:
        _need(tool.keys() == {"type", "function"} and tool["type"] == "function", "odd tool")
        known = {"name", "description", "parameters", "strict"}
        _need(tool["function"].keys() <= known, f"odd function {tool['function'].keys()}")
        _need(isinstance(tool["function"].get("name"), str), "a function without a name")
        _need(isinstance(tool["function"].get("parameters"), dict), "no parameters")
    names = [tool["function"]["name"] for tool in tools]
    if isinstance(choice, dict):
        _need(choice.keys() == {"type", "function"}, "odd tool_choice")
        _need(choice["function"]["name"] in names, "the chosen function is not there")
    else:
        _need(choice in (None, "none", "auto", "required"), f"odd tool_choice {choice}")


def _check_format(form: dict[str, Any]) -> None:
    kind = form.get("type")
    _need(kind in ("text", "json_object", "json_schema"), f"odd response_format {kind}")
    schema = form.get("json_schema", {})
    if kind == "json_schema":
        _need(schema.keys() >= {"name", "schema"}, "json_schema without name or schema")
    _need(form.keys() <= {"type", "json_schema"}, "odd keys in response_format")


def _check_message(message: dict[str, Any]) -> None:
    role, content = message.get("role"), message.get("content")
    _need(role in _MESSAGE_KEYS, f"unknown role {role}")
    odd = message.keys() - _MESSAGE_KEYS[str(role)]
    _need(not odd, f"odd keys in a {role} message: {odd}")
    if role == "user" and isinstance(content, list):
        _need(content, "an empty list of parts")
        for part in content:
            kind = part.get("type")
            _need(kind in _PARTS and part.keys() == {"type", kind}, f"odd part {part}")
            _need(isinstance(part[kind], _PARTS[kind]), f"odd part {part}")
        return
    _need(isinstance(content, str), f"content of a {role} message: {content!r}")
    _need(role != "assistant" or content or message.get("tool_calls"), "an empty message")
    for call in message.get("tool_calls", ()):
        _check_call(call)


def _check_call(call: dict[str, Any]) -> None:
    _need(call.keys() == {"id", "type", "function"}, "odd call")
    _need(call["id"] and isinstance(call["id"], str), "a call without an id")
    function = call["function"]
    _need(call["type"] == "function" and function.keys() == {"name", "arguments"}, "odd call")
    _need(function["name"], "a call without a name")
    _need(isinstance(json.loads(function["arguments"]), dict), "arguments are no object")


def _check_order(messages: list[dict[str, Any]]) -> None:
    open_calls: list[str] = []
    before = ""
    for message in messages:
        role = message["role"]
        _need(role != "system" or not before, "the system speaks later")
        _need(role != "user" or before != "user", "two user messages in a row")
        _need(role != "assistant" or before not in ("", "system"), "the user does not begin")
        if role == "tool":
            _need(message["tool_call_id"] in open_calls, "an output without its call")
            open_calls.remove(message["tool_call_id"])
        else:
            _need(not open_calls, f"calls without outputs: {open_calls}")
            open_calls = [call["id"] for call in message.get("tool_calls", ())]
            _need(len({*open_calls}) == len(open_calls), "a call id twice")
        _need(role != "assistant" or before != "assistant", "two assistant messages in a row")
        before = role
    _need(not open_calls, f"calls without outputs: {open_calls}")
    _need(before in ("user", "tool"), f"the {before} has the last word")
