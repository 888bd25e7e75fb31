"""Where settings come from: flag > environment > file > default. A bad start is one clear line."""

from __future__ import annotations

import difflib
import os
import re
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, get_origin

from annotated_types import Ge, Gt, Le
from pydantic import ValidationError
from pydantic_settings import EnvSettingsSource

from gateway.settings import PREFIX, Settings, choices, flag, shown, variable
from gateway.values import SIZE

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pydantic_core import ErrorDetails

DEFAULT_FILE: Final = Path("multilane.toml")
#: Come from the environment, or from the file that the variable + `_FILE` names.
SECRETS: Final = ("api_keys", "upstream_key")
#: Variables of our own that are no settings: the key that `multilane load` shows.
OTHERS: Final = (f"{PREFIX}LOAD_KEY",)
#: Kubernetes sets these in every pod when there is a Service called `multilane`.
SERVICE_LINK: Final = re.compile(
    PREFIX + r"(SERVICE_(HOST|PORT(_\w+)?)|PORT_\d+_(TCP|UDP|SCTP)(_\w+)?)"
)


class BadStart(Exception):
    """A setting that cannot be started with, in one line: which one, and what is allowed."""


def load(flags: Mapping[str, Any] | None = None, config: Path | None = None) -> Settings:
    """Settle every setting. Raises BadStart; its text never holds a secret."""
    # One dictionary of field -> (what to call its origin, value) per place, weakest first.
    found: dict[str, tuple[str, Any]] = {}
    found |= _file(config)
    found |= _environment()
    found |= _secret_files()
    found |= {name: (flag(name) or name, value) for name, value in (flags or {}).items()}
    try:
        return Settings(**{name: value for name, (_, value) in found.items()})
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        # Not chained: the library's own report shows input.
        raise BadStart(_line(first, found)) from None


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
    for name in content:
        if name in SECRETS:
            ways = f"{variable(name)} or {variable(name)}_FILE"
            raise BadStart(f"{path}: {name} is a secret and is not read from here; set {ways}")
        if name not in Settings.model_fields:
            raise BadStart(f"{path}: {_unknown(name, Settings.model_fields)}")
    return {name: (f"{path}: {name}", value) for name, value in content.items()}


def _environment() -> dict[str, tuple[str, Any]]:
    known = {variable(name) for name in Settings.model_fields}
    known |= {f"{variable(name)}_FILE" for name in SECRETS}
    linked = PREFIX + "SERVICE_HOST" in os.environ
    for name in os.environ:
        ours = name.startswith(PREFIX) and not (linked and SERVICE_LINK.fullmatch(name))
        if ours and name not in known and name not in OTHERS:
            raise BadStart(_unknown(name, known))
    values = EnvSettingsSource(Settings)()
    if linked and os.environ.get(variable("port"), "").startswith(("tcp://", "udp://", "sctp://")):
        del values["port"]
    return {name: (variable(name), value) for name, value in values.items()}


def _secret_files() -> dict[str, tuple[str, Any]]:
    found: dict[str, tuple[str, Any]] = {}
    for name in SECRETS:
        place = f"{variable(name)}_FILE"
        path = os.environ.get(place)
        if path is None:
            continue
        if variable(name) in os.environ:
            raise BadStart(f"{place}: set either this or {variable(name)}, not both")
        try:
            lines = [line.strip() for line in Path(path).read_text("utf-8").splitlines()]
        except OSError as error:
            raise BadStart(f"{place}: {path!r} cannot be read: {error.strerror}") from None
        except ValueError:
            raise BadStart(f"{place}: {path!r} is not a text file in UTF-8") from None
        keys = [line for line in lines if line]
        if not keys or (name == "upstream_key" and len(keys) > 1):
            wanted = "one key" if name == "upstream_key" else "keys, one per line"
            raise BadStart(f"{place}: {path!r} must hold {wanted}; it has {len(keys)}")
        found[name] = (place, keys if name == "api_keys" else keys[0])
    return found


def _unknown(name: str, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.8)
    return f"{name} is not a setting" + (f"; did you mean {near[0]}?" if near else "")


def _line(error: ErrorDetails, found: Mapping[str, tuple[str, Any]]) -> str:
    # An error of no one field is about where the gateway listens.
    name = str(error["loc"][0]) if error["loc"] else "host"
    origin, value = found.get(name, (name, None))
    own = str(error.get("ctx", {}).get("error", ""))
    if own:
        return f"{origin}: {own}"
    if name in SECRETS:
        return f"{origin}: must be keys of visible ASCII characters"
    if value == "":
        allowed = _allowed(name)
        return f"{origin}: must not be empty" + (f": {allowed}" if allowed != "text" else "")
    return f"{origin}: must be {_allowed(name)}, not {str(value)[:40]!r}"


def _allowed(name: str) -> str:
    """What a field takes, in words."""
    field = Settings.model_fields[name]
    if SIZE in field.metadata:
        return "a size such as 8MiB, 512KiB or 1048576 (bytes)" + _bounds(name)
    kind = field.annotation
    if named := choices(name):
        return f"{', '.join(named[:-1])} or {named[-1]}"
    if get_origin(kind) is tuple:
        return "a list of text"
    kinds: dict[object, str] = {bool: "true or false", int: "an integer", float: "seconds"}
    return kinds.get(kind, "text") + _bounds(name)


def _bounds(name: str) -> str:
    found = {type(bound): bound for bound in Settings.model_fields[name].metadata}
    match found.get(Ge), found.get(Gt), found.get(Le):
        case Ge(ge=least), None, Le(le=most):
            return f" from {shown(name, least)} to {shown(name, most)}"
        case None, Gt(gt=below), Le(le=most):
            return f", more than {shown(name, below)} and up to {shown(name, most)}"
        case Ge(ge=least), None, None:
            return f", at least {shown(name, least)}"
        case _:
            return ""
