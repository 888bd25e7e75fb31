"""What the probes of a check ask for, and what they share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from gateway.tools.check.backend_under_test import BackendUnderTest, CheckedAnswer
    from gateway.tools.check.findings import Finding

    Probe = Callable[["ProbeContext"], Awaitable[Finding]]

#: The smallest token limit that the reference accepts.
FEW: Final = 16
#: A text is in full flow after this many deltas.
FLOWING: Final = 3
#: Its answer is long enough to be cut, left or overtaken.
LONG: Final = "Tell me a long story about the sea in 200 words."
WEATHER: Final = {
    "type": "function",
    "name": "get_weather",
    "description": "The weather of one city.",
    "parameters": {
        "type": "object",
        "properties": {"city": {"type": "string"}},
        "required": ["city"],
        "additionalProperties": False,
    },
}


@dataclass
class ProbeContext:
    """The backend, and what earlier probes leave for later ones."""

    subject: BackendUnderTest
    first: CheckedAnswer | None = None
    calls: CheckedAnswer | None = None
    #: The answer to a question that was to be reasoned about, if reasoning came.
    reasoned: CheckedAnswer | None = None
    at_once: bool | None = None
    #: Seconds that a second answer took to begin beside a first one.
    waited: float = 0.0
