"""The response object at its start, and its usage at its end."""

from __future__ import annotations

from typing import Any

#: The settings that a response repeats from its request, with their defaults.
DEFAULTS: dict[str, Any] = {
    "background": False,
    "instructions": None,
    "max_output_tokens": None,
    "max_tool_calls": None,
    "parallel_tool_calls": True,
    "previous_response_id": None,
    "prompt_cache_key": None,
    "safety_identifier": None,
    "store": True,
    "temperature": 1.0,
    "tool_choice": "auto",
    "tools": [],
    "top_logprobs": 0,
    "top_p": 1.0,
    "truncation": "disabled",
    "user": None,
    "metadata": {},
}

_OPEN: dict[str, Any] = {
    "completed_at": None,
    "error": None,
    "incomplete_details": None,
    "output": [],
    "usage": None,
    "presence_penalty": 0.0,
    "frequency_penalty": 0.0,
}


def response(request: dict[str, Any], response_id: str, now: int) -> dict[str, Any]:
    """Return the response object at `response.created`.

    Args:
        request: The checked request.
        response_id: The response's id.
        now: The time in seconds since the epoch.
    """
    repeated = {key: request[key] for key in DEFAULTS if request.get(key) is not None}
    tier = request.get("service_tier")
    return {
        "id": response_id,
        "object": "response",
        "created_at": now,
        "status": "in_progress",
        "model": request["model"],
        **_OPEN,
        **DEFAULTS,
        **repeated,
        "reasoning": {"effort": None, "summary": None, **(request.get("reasoning") or {})},
        "service_tier": "default" if tier in (None, "auto") else tier,
        "text": {"format": {"type": "text"}, "verbosity": "medium", **(request.get("text") or {})},
        "tools": [_tool(tool) for tool in request.get("tools") or []],
    }


def usage(words_in: int, words_out: int, reasoned: int) -> dict[str, Any]:
    """Return the usage of a response: one word is one token, and nothing is cached.

    Args:
        words_in: Words of the input.
        words_out: Words of the output, reasoning included.
        reasoned: Words of the reasoning.
    """
    return {
        "input_tokens": words_in,
        "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
        "output_tokens": words_out,
        "output_tokens_details": {"reasoning_tokens": reasoned},
        "total_tokens": words_in + words_out,
    }


def _tool(tool: dict[str, Any]) -> dict[str, Any]:
    if tool["type"] != "function":
        return tool
    return {"description": None, "parameters": None, "strict": True, **tool}
