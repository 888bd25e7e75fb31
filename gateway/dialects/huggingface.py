"""Hugging Face's responses.js and the router that runs it.

It sends a call of the history on as the output of a tool, so calls are told in words; its reasoning
it takes not at all.
"""

from __future__ import annotations

from typing import Any

from gateway.upstream.dialect import Dialect
from gateway.upstream.history.forms import Reasoning
from gateway.upstream.history.replay import CLOSED_KINDS, Replay
from lanes.stream.profile import Profile


def shape(request: dict[str, Any]) -> dict[str, Any]:
    """With the one summary of reasoning that it does not fail on."""
    reasoning = request.get("reasoning")
    if not isinstance(reasoning, dict) or reasoning.get("summary") in ("auto", None):
        return request
    return request | {"reasoning": reasoning | {"summary": "auto"}}


DIALECT = Dialect(
    "huggingface",
    Profile(),
    keeps_nulls=False,
    replay=Replay(
        {kind: CLOSED_KINDS[kind] for kind in ("message", "reasoning")},
        Reasoning.NONE,
        text_outputs=True,
        tells_calls=True,
    ),
    shape=shape,
    hosts=("router.huggingface.co",),  # its endpoints run vLLM, llama.cpp and others
)
