"""The response object: what the request asked for, and how far it has come."""

from __future__ import annotations

from typing import Any

#: What a request may set and a response repeats, with what holds where it does not.
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


def response(request: dict[str, Any], own: str, now: int) -> dict[str, Any]:
    """The object as it stands at `response.created`."""
    repeated = {key: request[key] for key in DEFAULTS if request.get(key) is not None}
    tier = request.get("service_tier")
    return {
        "id": own,
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
    """One word is one token; nothing is ever cached."""
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
