"""Reads along with the clerk: what is written down of every steer."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from steering.clerk import Clerk

if TYPE_CHECKING:
    from collections.abc import Sequence

    import anyio
    import pytest


@dataclass
class Books:
    """What was written down of every steer: its states in order, reasons and successors."""

    states: dict[str, list[str]] = field(default_factory=dict)
    reasons: dict[str, str | None] = field(default_factory=dict)
    successors: dict[str, str | None] = field(default_factory=dict)
    inputs: dict[str, bytes] = field(default_factory=dict)


def books(monkeypatch: pytest.MonkeyPatch, gate: anyio.Event | None = None) -> Books:
    """Read along with the clerk; a record is written only once `gate` is open."""
    kept = Books()
    append, settle = Clerk.append, Clerk.settle

    async def appending(clerk: Clerk, record: Any) -> None:
        if gate is not None:
            await gate.wait()
        await append(clerk, record)
        kept.states[record.id] = [str(record.state)]
        kept.inputs[record.id] = record.input

    def settling(
        clerk: Clerk,
        target: str,
        ids: Sequence[str],
        state: Any,
        reason: str | None,
        successor: str | None,
    ) -> None:
        settle(clerk, target, ids, state, reason, successor)
        for name in ids:
            kept.states.setdefault(name, []).append(str(state))
            kept.reasons[name], kept.successors[name] = reason, successor

    monkeypatch.setattr(Clerk, "append", appending)
    monkeypatch.setattr(Clerk, "settle", settling)
    return kept
