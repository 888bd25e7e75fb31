"""SGLang.

With usable tools declared it holds the text back until the end, so a steer has nothing to cut.
"""

from __future__ import annotations

from typing import Any

from gateway.upstream.dialect import Dialect
from gateway.upstream.history.replay_form import (
    CLOSED_KINDS,
    CUSTOM_KINDS,
    ReasoningForm,
    ReplayForm,
)
from lanes.stream.profile import Profile

_LOGPROBS = "message.output_text.logprobs"


def shape(request: dict[str, Any]) -> dict[str, Any]:
    """Drop the `include` value that it refuses to stream."""
    include = request.get("include")
    if not isinstance(include, list) or _LOGPROBS not in include:
        return request
    return request | {"include": [name for name in include if name != _LOGPROBS]}


DIALECT = Dialect(
    "sglang",
    Profile(ordered_indices=True),
    keeps_nulls=False,
    replay=ReplayForm(
        {**CLOSED_KINDS, **CUSTOM_KINDS}, ReasoningForm.TEXT, needs_id=frozenset({"reasoning"})
    ),
    shape=shape,
    marks=("sglang",),
)
