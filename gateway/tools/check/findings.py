"""What a check has found: one row for each thing that was tried."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any, Final

from gateway.tools.check.repairs import RULES

#: What `--json` prints has this shape; a key that goes or changes its meaning makes it another.
VERSION: Final = 1
#: Without these there are no lanes or no steering.
ESSENTIAL: Final = ("dialect", "text", "replay", "steering")


class Verdict(StrEnum):
    """How far something is supported."""

    YES = "yes"
    PARTLY = "partly"
    NO = "no"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Finding:
    """One row: what was tried, how it went, and what shows it."""

    name: str
    verdict: Verdict
    detail: str
    seconds: float = 0.0


@dataclass(slots=True)
class CheckReport:
    """All of a check. `dialect` is None where the backend let nobody see what it is."""

    url: str
    dialect: str | None = None
    reason: str = ""
    model: str | None = None
    findings: list[Finding] = field(default_factory=list)
    repairs: dict[str, int] = field(default_factory=dict)

    @property
    def works(self) -> bool:
        """Whether lanes and steering work on this backend."""
        good = {one.name for one in self.findings if one.verdict in (Verdict.YES, Verdict.PARTLY)}
        return good.issuperset(ESSENTIAL)

    def numbers(self) -> dict[str, Any]:
        """The object that `--json` prints (docs/check.md)."""
        return {
            "version": VERSION,
            "url": self.url,
            "dialect": self.dialect,
            "reason": self.reason,
            "model": self.model,
            "works": self.works,
            "checks": [
                {
                    **asdict(one),
                    "seconds": round(one.seconds, 3),
                    "essential": one.name in ESSENTIAL,
                }
                for one in self.findings
            ],
            "repairs": [
                {"name": name, "count": self.repairs[name], "what": what}
                for name, what in RULES.items()
                if self.repairs.get(name)
            ],
        }
