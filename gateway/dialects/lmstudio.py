"""LM Studio: it requires a `format` in every `text`."""

from __future__ import annotations

from typing import Any

from gateway.upstream.dialect import Dialect
from gateway.upstream.history.replay_form import OPEN_KINDS, ReasoningForm, ReplayForm
from lanes.stream.profile import Profile


def shape(request: dict[str, Any]) -> dict[str, Any]:
    """Add the default `format` to a `text` that has none, and drop an empty `text`."""
    text = request.get("text")
    if not isinstance(text, dict) or text.get("format") is not None:
        return request
    bare = {key: value for key, value in request.items() if key != "text"}
    return bare | {"text": {**text, "format": {"type": "text"}}} if text else bare


DIALECT = Dialect(
    "lmstudio",
    Profile(),
    keeps_nulls=False,
    replay=ReplayForm(OPEN_KINDS, ReasoningForm.OPEN, parts=None),
    shape=shape,
    marks=("organization_owner", "organization-owner"),
)
