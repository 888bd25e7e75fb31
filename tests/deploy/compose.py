"""docker-compose.yml as Compose reads it, with nothing but its defaults."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final

import yaml  # type: ignore[import-untyped]

ROOT: Final = Path(__file__).parents[2]
DEPLOY: Final = ROOT / "deploy"
#: `${NAME}`, `${NAME:-default}` and `${NAME:+instead}`; the innermost of several.
_VARIABLE: Final = re.compile(r"(?<!\$)\$\{(\w+)(?::([-+])([^${}]*))?\}")
IMAGE: Final = "multilane:local"
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
    return {name: one["command"] for name, one in by_name.items() if one["image"] == IMAGE}


def environment(service: dict[str, Any], dotenv: str = "") -> dict[str, str]:
    """What is set in a container: by its files, of which `.env` has this content, and by name."""
    found: dict[str, str] = {}
    for file in service.get("env_file", []):
        path = ROOT / file["path"]
        text = dotenv if file["path"] == ".env" else path.read_text("utf-8")
        found |= assignments(text)
    named: dict[str, str] = service.get("environment", {})
    return found | named


def assignments(text: str) -> dict[str, str]:
    """The variables of a file such as `.env`."""
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return dict(line.split("=", 1) for line in lines)


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
        given, sign, other = environment.get(variable[1], ""), variable[2], variable[3]
        assert sign, f"{variable[0]} has no default"
        value_of = (other if given else "") if sign == "+" else given or other
        value = value[: variable.start()] + value_of + value[variable.end() :]
    return value.replace("$$", "$")
