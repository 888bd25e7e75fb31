"""The results of a check: one finding for each probe."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any, Final

from gateway.tools.check.repairs import RULES

#: The version of the shape that `--json` prints; removing or redefining a key raises it.
VERSION: Final = 1
#: Without these there are no lanes or no steering.
ESSENTIAL: Final = ("dialect", "text", "replay", "steering")


class SupportLevel(StrEnum):
    """How far the backend supports something."""

    YES = "yes"
    PARTLY = "partly"
    NO = "no"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Finding:
    """One row: what a probe tried, its verdict, and what shows it."""

    name: str
    verdict: SupportLevel
    detail: str
    seconds: float = 0.0


@dataclass(slots=True)
class CheckReport:
    """The whole result of a check. `dialect` is None where it could not be detected."""

    url: str
    dialect: str | None = None
    reason: str = ""
    model: str | None = None
    findings: list[Finding] = field(default_factory=list)
    repairs: dict[str, int] = field(default_factory=dict)

    @property
    def works(self) -> bool:
        """Whether lanes and steering work on this backend."""
        good = {
            one.name
            for one in self.findings
            if one.verdict in (SupportLevel.YES, SupportLevel.PARTLY)
        }
        return good.issuperset(ESSENTIAL)

    def numbers(self) -> dict[str, Any]:
        """Return the object that `--json` prints (docs/check.md)."""
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
