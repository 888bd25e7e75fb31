"""The shape of each key of a response object that a request or a backend can set.

It follows `openai.types.responses.Response`, written out because the SDK is a test dependency.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lanes.stream.schema import each, either, of, one_of, record, tagged, values

if TYPE_CHECKING:
    from lanes.stream.schema import Shape

_TEXT, _FLAG, _COUNT, _NUMBER, _OBJECT = of(str), of(bool), of(int), of(int, float), of(dict)
_EFFORT = one_of("none", "minimal", "low", "medium", "high", "xhigh", "max")
_LEVEL = one_of("low", "medium", "high")
_SUMMARY = one_of("auto", "concise", "detailed")
_BARE = record({})

_FORMAT = tagged(
    {
        "text": _BARE,
        "json_object": _BARE,
        "json_schema": record(
            {"name": _TEXT, "schema": _OBJECT}, {"description": _TEXT, "strict": _FLAG}
        ),
    }
)
_NAMED = record({"name": _TEXT})
_HOSTED_CHOICES = (
    *("file_search", "web_search_preview", "web_search_preview_2025_03_11", "computer"),
    *("computer_use_preview", "computer_use", "image_generation", "code_interpreter"),
    *("programmatic_tool_calling", "apply_patch", "shell"),
)
_CHOICE = tagged(
    {
        **dict.fromkeys(_HOSTED_CHOICES, _BARE),
        **dict.fromkeys(("function", "custom"), _NAMED),
        "mcp": record({"server_label": _TEXT}, {"name": _TEXT}),
        "allowed_tools": record({"mode": one_of("auto", "required"), "tools": each(_OBJECT)}),
    }
)
_CALLABLE = {
    **dict.fromkeys(("strict", "defer_loading", "async"), _FLAG),
    **dict.fromkeys(("parameters", "output_schema"), _OBJECT),
    "description": _TEXT,
    "allowed_callers": each(one_of("direct", "programmatic")),
}
_GRAMMAR = record({"definition": _TEXT, "syntax": one_of("lark", "regex")})
_CUSTOM = {
    **{key: _CALLABLE[key] for key in ("description", "defer_loading", "async", "allowed_callers")},
    "format": tagged({"text": _BARE, "grammar": _GRAMMAR}),
}
_SCREEN = one_of("windows", "mac", "linux", "ubuntu", "browser")
_FUNCTIONS = {
    "function": record({"name": _TEXT}, _CALLABLE),
    "custom": record({"name": _TEXT}, _CUSTOM),
}
#: A tool in an echo. Of a hosted one only the required keys are checked.
TOOL = tagged(
    {
        **_FUNCTIONS,
        "mcp": record({"server_label": _TEXT}),
        "file_search": record({"vector_store_ids": each(_TEXT)}),
        "code_interpreter": record({"container": either(_TEXT, tagged({"auto": _BARE}))}),
        "computer_use_preview": record(
            {"display_height": _COUNT, "display_width": _COUNT, "environment": _SCREEN}
        ),
        "namespace": record(
            {"name": _TEXT, "description": _TEXT, "tools": each(tagged(_FUNCTIONS))}
        ),
    },
    others=True,
)
_PART = tagged({"input_text": record({"text": _TEXT})}, others=True)
_MESSAGE = record(
    {
        "role": one_of("user", "assistant", "system", "developer"),
        "content": either(_TEXT, each(_PART)),
    },
    {"type": one_of("message")},
)
_MODERATED = tagged(
    {
        "moderation_result": record(
            {
                "categories": values(_FLAG),
                "category_applied_input_types": values(each(one_of("text", "image"))),
                "category_scores": values(_NUMBER),
                "flagged": _FLAG,
                "model": _TEXT,
            }
        ),
        "error": record({"code": _TEXT, "message": _TEXT}),
    }
)
_REMOVED = record(
    {
        "id": _TEXT,
        "action": one_of("removed"),
        "reason": one_of(
            *("organization_mismatch", "end_user_mismatch", "model_mismatch"),
            *("prefix_mismatch", "turn_boundary"),
        ),
        "type": one_of("reasoning"),
    }
)
_MISS = record(
    {
        "cache_missed_tokens": _COUNT,
        "reason": one_of(
            *("model_changed", "prompt_cache_key_changed", "tools_changed", "text_format_changed"),
            *("reasoning_effort_changed", "verbosity_changed", "context_compacted"),
            *("input_changed", "service_tier_changed"),
        ),
    },
    {"comparison_reusable_tokens": _COUNT},
)
_DRAWN = record({"image_tokens": _COUNT, "text_tokens": _COUNT})
_DRAWING = record(
    {
        **dict.fromkeys(("input_tokens", "output_tokens", "total_tokens"), _COUNT),
        "input_tokens_details": _DRAWN,
    },
    {
        "cached_tokens": _COUNT,
        "cached_tokens_details": record(
            {"cached_image_tokens": _COUNT, "cached_text_tokens": _COUNT}
        ),
        "output_tokens_details": _DRAWN,
    },
)
#: The keys of a response object that a request or a backend can set.
ECHOES: dict[str, Shape] = {
    **dict.fromkeys(("model", "user", "safety_identifier", "prompt_cache_key"), _TEXT),
    **dict.fromkeys(("parallel_tool_calls", "store", "background"), _FLAG),
    **dict.fromkeys(("max_output_tokens", "max_tool_calls", "top_logprobs"), _COUNT),
    **dict.fromkeys(("temperature", "top_p", "presence_penalty", "frequency_penalty"), _NUMBER),
    "previous_response_id": _TEXT,
    "conversation": record({"id": _TEXT}),
    "instructions": either(
        _TEXT, each(either(_MESSAGE, tagged({"message": _MESSAGE}, others=True)))
    ),
    "metadata": values(_TEXT),
    "tools": each(TOOL),
    "tool_choice": either(one_of("none", "auto", "required"), _CHOICE),
    "text": record({"format": _FORMAT}, {"verbosity": _LEVEL}),
    "reasoning": record(
        {},
        {
            **dict.fromkeys(("summary", "generate_summary"), _SUMMARY),
            "effort": _EFFORT,
            "mode": _TEXT,
            "context": one_of("auto", "current_turn", "all_turns"),
        },
    ),
    "service_tier": one_of("auto", "default", "flex", "scale", "priority", "fast", "ultrafast"),
    "truncation": one_of("auto", "disabled"),
    "prompt": record({"id": _TEXT}, {"version": _TEXT, "variables": values(either(_TEXT, _PART))}),
    "prompt_cache_retention": one_of("in_memory", "24h"),
    "prompt_cache_options": record(
        {"mode": one_of("implicit", "explicit"), "ttl": one_of("30m", "12h")},
        {"comparison_response_id": _TEXT},
    ),
    "prompt_cache_diagnostics": tagged(
        {
            **dict.fromkeys(("cache_hit", "comparison_response_not_found", "unavailable"), _BARE),
            "cache_miss": _MISS,
        }
    ),
    "access_programs": record({"cyber": one_of("standard", "daybreak_blue", "daybreak_red")}),
    "image": record({"context_compression": one_of("enabled", "disabled")}),
    "input_transformations": each(_REMOVED),
    "moderation": record({"input": _MODERATED, "output": _MODERATED}),
    "tool_usage": record({"image_gen": _DRAWING, "web_search": record({"num_requests": _COUNT})}),
}
