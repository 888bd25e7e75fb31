"""LM Studio."""

from __future__ import annotations

from typing import Any

from gateway.upstream.dialect import Dialect
from gateway.upstream.history.forms import Reasoning
from gateway.upstream.history.replay import OPEN_KINDS, Replay
from lanes.stream.profile import Profile


def shape(request: dict[str, Any]) -> dict[str, Any]:
    """It misses the `format` of a `text` that has none."""
    text = request.get("text")
    if not isinstance(text, dict) or text.get("format") is not None:
        return request
    bare = {key: value for key, value in request.items() if key != "text"}
    return bare | {"text": {**text, "format": {"type": "text"}}} if text else bare


DIALECT = Dialect(
    "lmstudio",
    Profile(),
    keeps_nulls=False,
    replay=Replay(OPEN_KINDS, Reasoning.OPEN, parts=None),
    shape=shape,
    marks=("organization_owner", "organization-owner"),
)
