"""Loads settings: flag > environment > file > default. A refused start is one clear line."""

from __future__ import annotations

import os
import re
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pydantic import ValidationError
from pydantic_settings import EnvSettingsSource

from gateway.config import key_files, upstream_tables
from gateway.config.error_messages import allowed, shape, unknown
from gateway.config.settings import FILE_ONLY, PREFIX, Settings, flag, variable

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from pydantic_core import ErrorDetails

DEFAULT_FILE: Final = Path("multilane.toml")
#: Read from the environment, or from the file that the variable + `_FILE` names.
SECRETS: Final = ("api_keys", "upstream_key", "compaction_keys")
#: Our variables that are not settings: the key that `multilane load` shows.
OTHERS: Final = (f"{PREFIX}LOAD_KEY",)
#: Kubernetes sets these in every pod if a Service is called `multilane`.
SERVICE_LINK: Final = re.compile(
    PREFIX + r"(SERVICE_(HOST|PORT(_\w+)?)|PORT_\d+_(TCP|UDP|SCTP)(_\w+)?)"
)


class BadStart(Exception):
    """A setting is invalid; one line says which one, and what is allowed."""


def load(flags: Mapping[str, Any] | None = None, config: Path | None = None) -> Settings:
    """Load every setting.

    Args:
        flags: Field -> value, as given on the command line.
        config: The file to read instead of ./multilane.toml.

    Raises:
        BadStart: A setting is invalid; the message never holds a secret.
    """
    # One dictionary of field -> (name of its origin, value) per source, weakest first.
    given: dict[str, tuple[str, Any]] = {}
    given |= _file(config)
    upstreams = given.pop("upstreams", None)
    key_variables = upstream_tables.variables(upstreams[1]) if upstreams is not None else set()
    given |= _environment(key_variables)
    given |= _secret_files()
    given |= {name: (flag(name) or name, value) for name, value in (flags or {}).items()}
    try:
        settings = Settings(**{name: value for name, (_, value) in given.items()})
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        # Not chained: the library's own report shows input.
        raise BadStart(_line(first, given)) from None
    if upstreams is None:
        return settings
    for name in ("upstream", "upstream_key"):
        # A table may name the variable of that key, too.
        if name in given and variable(name) not in key_variables:
            raise BadStart(f"{given[name][0]}: cannot go with [[upstreams]], which have their own")
    try:
        tables = upstream_tables.read(upstreams[1], settings)
    except upstream_tables.BadTable as bad:
        raise BadStart(f"{upstreams[0]}{bad}") from None
    return settings.model_copy(update={"upstreams": tables})


def _file(config: Path | None) -> dict[str, tuple[str, Any]]:
    path = config or DEFAULT_FILE
    if config is None and not path.exists():
        return {}
    try:
        content = tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        raise BadStart(f"{path}: cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise BadStart(f"{path}: is not TOML: {error}") from None
    except RecursionError:
        raise BadStart(f"{path}: is not TOML: nested too deeply") from None
    for name in content:
        if name in SECRETS:
            ways = f"{variable(name)} or {variable(name)}_FILE"
            raise BadStart(f"{path}: {name} is a secret and is not read from here; set {ways}")
        if name not in Settings.model_fields:
            raise BadStart(f"{path}: {unknown(name, Settings.model_fields)}")
    return {name: (f"{path}: {name}", value) for name, value in content.items()}


def _environment(others: Collection[str]) -> dict[str, tuple[str, Any]]:
    """Return what the environment sets; `others` are variables that may exist besides."""
    names = {variable(name) for name in Settings.model_fields if name not in FILE_ONLY}
    names |= {f"{variable(name)}_FILE" for name in SECRETS}
    linked = PREFIX + "SERVICE_HOST" in os.environ
    for name in os.environ:
        ours = name.startswith(PREFIX) and not (linked and SERVICE_LINK.fullmatch(name))
        if ours and name not in names and name not in (*OTHERS, *others):
            raise BadStart(unknown(name, names))
    values = EnvSettingsSource(Settings)()
    if linked and os.environ.get(variable("port"), "").startswith(("tcp://", "udp://", "sctp://")):
        del values["port"]
    return {name: (variable(name), value) for name, value in values.items()}


def _secret_files() -> dict[str, tuple[str, Any]]:
    secrets: dict[str, tuple[str, Any]] = {}
    for name in SECRETS:
        place = f"{variable(name)}_FILE"
        path = os.environ.get(place)
        if path is None:
            continue
        if variable(name) in os.environ:
            raise BadStart(f"{place}: set either this or {variable(name)}, not both")
        try:
            keys = key_files.read(path, one=name == "upstream_key")
        except ValueError as error:
            raise BadStart(f"{place}: {error}") from None
        secrets[name] = (place, keys[0] if name == "upstream_key" else keys)
    return secrets


def _line(error: ErrorDetails, given: Mapping[str, tuple[str, Any]]) -> str:
    # An error without a field is about where the gateway listens.
    name = str(error["loc"][0]) if error["loc"] else "host"
    origin, value = given.get(name, (name, None))
    own = str(error.get("ctx", {}).get("error", ""))
    if own:
        return f"{origin}: {own}"
    if name in SECRETS:
        return f"{origin}: must be keys of visible ASCII characters"
    if value == "":
        wanted = allowed(name)
        return f"{origin}: must not be empty" + (f": {wanted}" if wanted != "text" else "")
    tables_meant = name == "upstream" and isinstance(value, list | dict)
    hint = "; tables begin with [[upstreams]]" if tables_meant else ""
    return f"{origin}: must be {allowed(name)}, not {shape(value)}{hint}"
