"""How a response really ended, by a backend's terminal event (protocol.md 4)."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from lanes.stream.run_states import RunStep

if TYPE_CHECKING:
    from collections.abc import Mapping

log = logging.getLogger("multilane.run")

#: Why a backend may stop by itself; `steered` counts only where a steer is on its way.
_REASONS = frozenset({"max_output_tokens", "max_messages", "content_filter"})


def verdict(
    kind: str,
    upstream: Mapping[str, Any],
    counted: Mapping[str, Any] | None,
    limit: object,
    *,
    cutting: bool,
) -> tuple[RunStep, str | None]:
    """Return the run's last step and its reason; some backends call failures and cuts completed.

    Args:
        kind: The type of the terminal event.
        upstream: The response object in it.
        counted: Its usage, if it has any.
        limit: The request's `max_output_tokens`, where usage must be compared with it; else None.
        cutting: Whether a steer waits for the end.
    """
    status = upstream.get("status")
    details = upstream.get("incomplete_details")
    reason = details.get("reason") if isinstance(details, dict) else None
    if kind in ("response.failed", "response.cancelled") or upstream.get("error"):
        return RunStep.FAIL, None
    if status in ("failed", "cancelled", "queued"):
        return RunStep.FAIL, None
    if reason == "steered" and cutting:
        return RunStep.STEER, reason
    if kind == "response.incomplete" or status == "incomplete" or reason:
        return RunStep.STOP, _stop_reason(reason)
    if counted and isinstance(limit, int) and counted["output_tokens"] >= limit:
        return RunStep.STOP, "max_output_tokens"
    return RunStep.COMPLETE, None


def _stop_reason(reason: object) -> str | None:
    if not reason:
        return "max_output_tokens"
    if isinstance(reason, str) and reason in _REASONS:
        return reason
    log.warning("unknown reason of an incomplete response, of type %s", type(reason).__name__)
    return None
