"""The bytes of a request -> a checked request, with the hosted API's refusals."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from gateway.tools.rehearse.items import check_items
from gateway.tools.rehearse.refusals import RequestRefused, check_choice, check_type, missing

if TYPE_CHECKING:
    from collections.abc import Mapping

#: Every top-level key of the public API and the types of its value; all but `model` may be null.
#: The keys of the WebSocket envelope (type, generate, stream_id) are unknown here on purpose.
KEYS: Mapping[str, tuple[type, ...]] = {
    "access_programs": (dict,),
    "background": (bool,),
    "client_metadata": (dict,),
    "context_management": (list,),
    "conversation": (str, dict),
    "image": (dict,),
    "include": (list,),
    "input": (str, list),
    "instructions": (str,),
    "max_output_tokens": (int,),
    "max_tool_calls": (int,),
    "metadata": (dict,),
    "model": (str,),
    "moderation": (dict,),
    "parallel_tool_calls": (bool,),
    "previous_response_id": (str,),
    "prompt": (dict,),
    "prompt_cache_key": (str,),
    "prompt_cache_options": (dict,),
    "prompt_cache_retention": (str,),
    "reasoning": (dict,),
    "safety_identifier": (str,),
    "service_tier": (str,),
    "store": (bool,),
    "stream": (bool,),
    "stream_options": (dict,),
    "temperature": (float, int),
    "text": (dict,),
    "tool_choice": (str, dict),
    "tools": (list,),
    "top_logprobs": (int,),
    "top_p": (float, int),
    "truncation": (str,),
    "user": (str,),
}

_CHOICES: Mapping[str, tuple[str, ...]] = {
    "truncation": ("auto", "disabled"),
    "service_tier": ("auto", "default", "flex", "scale", "priority", "fast", "ultrafast"),
    "prompt_cache_retention": ("in_memory", "24h"),
    "reasoning.effort": ("none", "minimal", "low", "medium", "high", "xhigh", "max"),
    "reasoning.summary": ("auto", "concise", "detailed"),
    "text.verbosity": ("low", "medium", "high"),
}

_TOOLS = (
    *("function", "custom", "apply_patch", "code_interpreter", "computer", "computer_use_preview"),
    *("file_search", "image_generation", "local_shell", "mcp", "namespace", "shell"),
    *("programmatic_tool_calling", "tool_search", "web_search", "web_search_2025_08_26"),
    *("web_search_preview", "web_search_preview_2025_03_11"),
)
_TOOL_KEYS: dict[str, dict[str, tuple[type, ...]]] = {
    "function": {"parameters": (dict,), "strict": (bool,), "description": (str,)},
    "custom": {"format": (dict,), "description": (str,)},
}


def read(body: bytes) -> dict[str, Any]:
    """Decode and check a request.

    Raises:
        RequestRefused: The hosted API would answer with a 4xx.
    """
    try:
        request = msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError) as error:
        message = f"We could not parse the JSON body of your request. ({error})"
        raise RequestRefused(message) from error
    if not isinstance(request, dict):
        raise RequestRefused("The body of your request is not a JSON object.")
    _check_keys(request)
    _check_state(request)
    _check_tools(request)
    if isinstance(request["input"], list):
        check_items(request["input"])
    return request


def _check_keys(request: dict[str, Any]) -> None:
    for key, value in request.items():
        if key not in KEYS:
            raise RequestRefused(
                f"Unknown parameter: '{key}'.", param=key, code="unknown_parameter"
            )
        if value is not None:
            check_type(key, value, KEYS[key])
    if request.get("model") is None:
        raise missing("model")
    _check_values(request)


def _check_values(request: dict[str, Any]) -> None:
    _check_format(request)
    for path, choices in _CHOICES.items():
        check_choice(path, request, choices)
    for key, value in (request.get("metadata") or {}).items():
        check_type(f"metadata.{key}", value, (str,))
    limit = request.get("max_output_tokens")
    if limit is not None and limit < 1:
        raise RequestRefused(
            f"Invalid 'max_output_tokens': integer below minimum value, got {limit} instead.",
            param="max_output_tokens",
            code="integer_below_min_value",
        )


def _check_state(request: dict[str, Any]) -> None:
    """Refuse every reference to earlier requests, as this backend keeps nothing between them."""
    parent = request.get("previous_response_id")
    if parent is not None:
        raise RequestRefused(
            f"Previous response with id '{parent}' not found.",
            param="previous_response_id",
            code="previous_response_not_found",
        )
    for key in ("conversation", "prompt"):
        if request.get(key) is not None:
            raise RequestRefused(f"The {key} was not found.", param=key, status=404)
    if request.get("background"):
        raise RequestRefused("Nothing runs in the background here.", param="background")
    if request.get("input") in (None, []):
        raise missing("input")


def _check_tools(request: dict[str, Any]) -> None:
    """Refuse the first tool that the hosted API would not accept."""
    for index, tool in enumerate(request.get("tools") or []):
        at = f"tools[{index}]"
        check_type(at, tool, (dict,))
        _need(at, tool, "type", (str,))
        check_choice("type", tool, _TOOLS, within=f"{at}.")
        if tool["type"] in _TOOL_KEYS or tool["type"] == "namespace":
            _need(at, tool, "name", (str,))
        for key, types in _TOOL_KEYS.get(tool["type"], {}).items():
            if tool.get(key) is not None:
                check_type(f"{at}.{key}", tool[key], types)
    choice = request.get("tool_choice")
    if isinstance(choice, dict):
        _need("tool_choice", choice, "type", (str,))
    else:
        check_choice("tool_choice", request, ("none", "auto", "required"))


def _check_format(request: dict[str, Any]) -> None:
    """Refuse a `text.format` that the hosted API would not accept."""
    shape = (request.get("text") or {}).get("format")
    if shape is None:
        return
    check_type("text.format", shape, (dict,))
    _need("text.format", shape, "type", (str,))
    check_choice("text.format.type", request, ("text", "json_object", "json_schema"))
    if shape["type"] == "json_schema":
        _need("text.format", shape, "name", (str,))
        _need("text.format", shape, "schema", (dict,))


def _need(at: str, where: dict[str, Any], key: str, types: tuple[type, ...]) -> None:
    if where.get(key) is None:
        raise missing(f"{at}.{key}")
    check_type(f"{at}.{key}", where[key], types)
