"""How settings are written for people: values, choices, what --help calls them, and the table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, get_args, get_origin

from gateway.config.setting_types import SIZE, written
from gateway.config.settings import FILE_ONLY, LIMITS, Settings, flag, variable
from gateway.upstream.dialect import AUTO, dialect_names

if TYPE_CHECKING:
    from pydantic import BaseModel


def choices(name: str, model: type[BaseModel] = Settings) -> list[str]:
    """Return the values of a field that is a choice; empty for any other field."""
    kind = model.model_fields[name].annotation
    if name == "dialect":
        return [AUTO, *dialect_names()]
    return list(get_args(kind)) if get_origin(kind) is Literal else []


def metavar(name: str) -> str:
    """Return what --help calls a flag's value."""
    field = Settings.model_fields[name]
    if get_origin(field.annotation) is Literal:
        return "|".join(choices(name))
    if SIZE in field.metadata:
        return "SIZE"
    kinds: dict[object, str] = {int: "N", float: "SECONDS"}
    names = {"host": "HOST", "upstream": "URL", "api_keys": "KEY", "allow_origin": "ORIGIN"}
    names |= {"metrics_host": "HOST", "trusted_proxy": "ADDRESS", "passthrough": "PATH"}
    names |= {"redis_url": "URL", "state_dir": "DIR", "keys_file": "FILE"}
    names |= {"tls_cert": "FILE", "tls_key": "FILE"}
    names |= dict.fromkeys(LIMITS.values(), "N")
    return kinds.get(field.annotation) or names.get(name, "NAME")


def shown(name: str, value: Any, model: type[BaseModel] = Settings) -> str:
    """Return a value as a person writes it: 8MiB rather than 8388608.

    Args:
        name: The field.
        value: Its value, in bytes for a size and seconds for a time.
        model: The model that has the field.
    """
    return written(value, size=SIZE in model.model_fields[name].metadata)


def table() -> str:
    """Return the table in docs/settings.md."""
    rows = ["| Flag | Variable | Default | What it does |", "| --- | --- | --- | --- |"]
    for name, field in Settings.model_fields.items():
        if name in FILE_ONLY:
            continue
        option = f"`{flag(name)}`" if flag(name) else "none"
        default = shown(name, field.default)
        rows.append(f"| {option} | `{variable(name)}` | {default} | {field.description} |")
    return "\n".join(rows)


if __name__ == "__main__":
    print(table())  # noqa: T201
