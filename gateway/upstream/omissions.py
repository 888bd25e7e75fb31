"""Says once of each field that an upstream is not sent that it is left out."""

from __future__ import annotations

import logging
import math
from typing import Final

from gateway.logs import ThrottledWarnings

#: What is said once is said for as long as the process runs.
NOTICES: Final = ThrottledWarnings(logging.getLogger("multilane.dialect"), every=math.inf)
#: What the gateway does or shows itself, and what no answer depends on.
_OURS: Final = frozenset(
    {"client_metadata", "context_management", "metadata", "stream_options", "truncation"}
)
#: Values that ask for what happens anyway.
_DEFAULTS: Final[tuple[object, ...]] = (None, "auto", "disabled", [], {})
#: The reference's fields. All others share a line: a client may think of any number.
_KNOWN: Final = frozenset(
    {"access_programs", "background_options", "image", "include", "instructions"}
    | {"max_output_tokens", "max_tool_calls", "moderation", "multi_agent"}
    | {"parallel_tool_calls", "prompt", "prompt_cache_key", "prompt_cache_options"}
    | {"prompt_cache_retention", "reasoning", "safety_identifier", "service_tier", "temperature"}
    | {"text", "tool_choice", "tools", "top_logprobs", "top_p", "user"}
)


def field_left_out(place: str, key: str, value: object) -> None:
    """Log that a field goes to no backend there, if that changes anything.

    Args:
        place: The upstream and its dialect.
        key: The field.
        value: Its value.
    """
    if key in _OURS or any(value is one or value == one for one in _DEFAULTS):
        return
    kind = key if key in _KNOWN else "other fields"
    NOTICES.warning(f"{place} {kind}", f"{place} does nothing about {key:.64}; left out")
