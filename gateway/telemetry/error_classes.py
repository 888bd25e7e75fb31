"""The classes of what goes wrong with an upstream, few enough for a label."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from lanes.errors import UpstreamFault

#: `unreachable` before an answer, `broken_off` within one; the last two as the backend says itself.
ERROR_CLASSES: Final = (
    "unreachable",
    "broken_off",
    "timeout",
    "rate_limited",
    "rejected",
    "server_error",
)


def error_class(fault: UpstreamFault, *, begun: bool) -> str:
    """Return the class of a fault.

    Args:
        fault: What went wrong.
        begun: Whether the answer had begun.
    """
    if fault.status in (408, 504):
        return "timeout"
    if not fault.answered:
        return "broken_off" if begun else "unreachable"
    if fault.status == 429:
        return "rate_limited"
    return "server_error" if fault.status >= 500 else "rejected"
