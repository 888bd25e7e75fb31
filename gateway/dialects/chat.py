"""Any backend that only has Chat Completions: requests and streams are translated (D22)."""

from __future__ import annotations

from gateway.upstream.chat.request import shape
from gateway.upstream.chat.stream import converter
from gateway.upstream.dialect import Dialect
from lanes.stream.profile import Profile

DIALECT = Dialect(
    "chat",
    Profile(),
    path="/chat/completions",
    keeps_nulls=False,
    shape=shape,
    converter=converter,
)
