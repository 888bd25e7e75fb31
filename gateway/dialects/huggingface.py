"""Hugging Face's responses.js, and the router that runs it.

It passes a call in the history to the model as a tool's output, so the gateway describes calls in
messages. It accepts no reasoning.
"""

from __future__ import annotations

from typing import Any

from gateway.upstream.dialect import Dialect
from gateway.upstream.history.replay_form import CLOSED_KINDS, ReasoningForm, ReplayForm
from lanes.stream.profile import Profile


def shape(request: dict[str, Any]) -> dict[str, Any]:
    """Ask for the one kind of reasoning summary that it does not fail on."""
    reasoning = request.get("reasoning")
    if not isinstance(reasoning, dict) or reasoning.get("summary") in ("auto", None):
        return request
    return request | {"reasoning": reasoning | {"summary": "auto"}}


DIALECT = Dialect(
    "huggingface",
    Profile(),
    keeps_nulls=False,
    replay=ReplayForm(
        {kind: CLOSED_KINDS[kind] for kind in ("message", "reasoning")},
        ReasoningForm.NONE,
        text_outputs=True,
        calls_as_text=True,
    ),
    shape=shape,
    hosts=("router.huggingface.co",),  # its endpoints run vLLM, llama.cpp and others
)
