"""docker-compose.yml as Compose reads it, with nothing but its defaults."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final

import yaml  # type: ignore[import-untyped]

ROOT: Final = Path(__file__).parents[2]
DEPLOY: Final = ROOT / "deploy"
#: `${NAME}` and `${NAME:-default}`; the innermost of several.
_VARIABLE: Final = re.compile(r"(?<!\$)\$\{(\w+)(?::-([^${}]*))?\}")
_SECONDS: Final = {"s": 1, "m": 60, "h": 3600}


def read(**environment: str) -> dict[str, Any]:
    """The file, with variables replaced as if these were all there are."""
    content = yaml.safe_load((ROOT / "docker-compose.yml").read_text("utf-8"))
    found: dict[str, Any] = _replaced(content, environment)
    return found


def services(**environment: str) -> dict[str, dict[str, Any]]:
    """The services by name."""
    found: dict[str, dict[str, Any]] = read(**environment)["services"]
    return found


def ours(**environment: str) -> dict[str, list[str]]:
    """The commands of the services that run our image."""
    found = services(**environment)
    return {name: one["command"] for name, one in found.items() if "build" in one}


def environment(service: dict[str, Any]) -> dict[str, str]:
    """What is set in a container; a variable without a value is passed on if there is one."""
    named = service.get("environment", {})
    return {name: value for name, value in named.items() if value is not None}


def seconds(duration: str) -> float:
    """A duration such as 45s or 70m."""
    return float(duration[:-1]) * _SECONDS[duration[-1]]


def _replaced(value: Any, environment: dict[str, str]) -> Any:
    if isinstance(value, dict):
        return {key: _replaced(one, environment) for key, one in value.items()}
    if isinstance(value, list):
        return [_replaced(one, environment) for one in value]
    if not isinstance(value, str):
        return value
    while (found := _VARIABLE.search(value)) is not None:
        known = environment.get(found[1]) or found[2]
        assert known is not None, f"{found[0]} has no default"
        value = value[: found.start()] + known + value[found.end() :]
    return value.replace("$$", "$")
