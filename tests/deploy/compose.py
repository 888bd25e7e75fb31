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
    replaced: dict[str, Any] = _replaced(content, environment)
    return replaced


def services(**environment: str) -> dict[str, dict[str, Any]]:
    """The services by name."""
    by_name: dict[str, dict[str, Any]] = read(**environment)["services"]
    return by_name


def ours(**environment: str) -> dict[str, list[str]]:
    """The commands of the services that run our image."""
    by_name = services(**environment)
    return {name: one["command"] for name, one in by_name.items() if "build" in one}


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
    while (variable := _VARIABLE.search(value)) is not None:
        value_of = environment.get(variable[1]) or variable[2]
        assert value_of is not None, f"{variable[0]} has no default"
        value = value[: variable.start()] + value_of + value[variable.end() :]
    return value.replace("$$", "$")
