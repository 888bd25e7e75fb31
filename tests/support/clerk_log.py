"""A log of all that the clerk of a gateway writes about submissions."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from steering.clerk import Clerk

if TYPE_CHECKING:
    import anyio
    import pytest

    from steering.stores.base import Verdict


@dataclass
class ClerkLog:
    """What the clerk wrote, by submission id; `states` in order, the others the latest."""

    states: dict[str, list[str]] = field(default_factory=dict)
    reasons: dict[str, str | None] = field(default_factory=dict)
    successors: dict[str, str | None] = field(default_factory=dict)
    inputs: dict[str, bytes] = field(default_factory=dict)


def log_clerk(monkeypatch: pytest.MonkeyPatch, gate: anyio.Event | None = None) -> ClerkLog:
    """Return a log of every clerk from now on; records wait until `gate` is open."""
    log = ClerkLog()
    append, settle = Clerk.append, Clerk.settle

    async def logged_append(clerk: Clerk, record: Any) -> None:
        if gate is not None:
            await gate.wait()
        await append(clerk, record)
        log.states[record.id] = [str(record.state)]
        log.inputs[record.id] = record.input

    def logged_settle(clerk: Clerk, key_id: str, verdict: Verdict) -> None:
        settle(clerk, key_id, verdict)
        for name in verdict.ids:
            log.states.setdefault(name, []).append(str(verdict.state))
            log.reasons[name], log.successors[name] = verdict.reason, verdict.successor

    monkeypatch.setattr(Clerk, "append", logged_append)
    monkeypatch.setattr(Clerk, "settle", logged_settle)
    return log
