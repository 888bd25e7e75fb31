"""Reads the tables `[[upstreams]]` of multilane.toml into the settings of each upstream.

`python -m gateway.config.upstream_tables` prints the table of their keys in docs/backends.md.
"""

from __future__ import annotations

import difflib
import os
import re
from typing import TYPE_CHECKING, Any, Final

from pydantic import ValidationError

from gateway.config import key_files
from gateway.config.configured_upstreams import inherited
from gateway.config.error_messages import allowed, shape, unknown
from gateway.config.setting_types import KEY_PLACES
from gateway.config.setting_words import shown
from gateway.config.settings import Settings, flag
from gateway.config.upstream_settings import UpstreamSettings
from gateway.upstream.routing.model_names import ModelClaims, ModelTaken

if TYPE_CHECKING:
    from collections.abc import Sequence

#: The keys of a table: all fields but the API key itself.
KEYS: Final = tuple(name for name in UpstreamSettings.model_fields if name != "key")


class BadTable(ValueError):
    """A table is invalid; the message begins with the place: `[2].fallbacks: …`, no secrets."""


def variables(tables: object) -> set[str]:
    """Return the names of the variables that hold keys, also from tables not yet validated."""
    items = tables if isinstance(tables, list) else []
    names = (table.get("key_env") for table in items if isinstance(table, dict))
    return {name for name in names if isinstance(name, str)}


def read(tables: object, settings: Settings) -> tuple[UpstreamSettings, ...]:
    """Read all tables; `settings` supplies what a table leaves out.

    Raises:
        BadTable: A table is invalid, or two contradict each other.
    """
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        raise BadTable(": must be tables, each beginning with [[upstreams]]")
    upstreams = [_one(f"[{at}]", table, settings) for at, table in enumerate(tables)]
    _check_names(upstreams)
    try:
        claims = ModelClaims(upstreams)
    except ModelTaken as taken:
        raise BadTable(f"[{taken.at}].{taken.field}: {taken}") from None
    _check_default(upstreams, claims, settings)
    return tuple(upstreams)


def _one(at: str, table: dict[str, Any], settings: Settings) -> UpstreamSettings:
    if "key" in table:
        raise BadTable(f"{at}.key: is a secret and is not read from here; {KEY_PLACES}")
    for name in table:
        if name not in KEYS:
            raise BadTable(f"{at}.{unknown(name, KEYS, 'a key of [[upstreams]]')}")
    try:
        upstream = UpstreamSettings(**{**inherited(settings), **table})
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        # Not chained: the library's own report shows input.
        raise BadTable(_line(at, first["loc"], first.get("ctx", {}), table)) from None
    return upstream.model_copy(update={"key": _key(at, upstream)})


def _line(at: str, loc: Sequence[int | str], context: dict[str, Any], table: dict[str, Any]) -> str:
    name = str(loc[0])
    place = f"{at}.{name}" + "".join(f"[{part}]" for part in loc[1:2] if isinstance(part, int))
    own = str(context.get("error", ""))
    if own:
        return f"{place}: {own}"
    if name not in table:
        return f"{place}: is missing"
    if table[name] == "" or len(loc) > 1:
        wanted = f"must be {allowed(name, UpstreamSettings)}" if len(loc) > 1 else ""
        return f"{place}: {wanted or 'must not be empty'}"
    silent = name in ("url", "headers", "key_env")
    value = "" if silent else f", not {shape(table[name])}"
    return f"{place}: must be {allowed(name, UpstreamSettings)}{value}"


def _key(at: str, upstream: UpstreamSettings) -> Any:
    """Return the API key from where the table says it is, validated like any other."""
    if upstream.key_env is not None and upstream.key_file is not None:
        raise BadTable(f"{at}.key_file: set either this or key_env, not both")
    if upstream.key_env is not None:
        place, variable = f"{at}.key_env", upstream.key_env
        key = os.environ.get(variable)
        if not key:
            # A key put here by mistake is not repeated; only plain variable names are.
            name = variable if re.fullmatch(r"[A-Z][A-Z0-9_]*", variable) else "a variable"
            raise BadTable(f"{place}: {name} is not set, or empty")
    elif upstream.key_file is not None:
        place = f"{at}.key_file"
        try:
            [key] = key_files.read(upstream.key_file, one=True)
        except ValueError as error:
            raise BadTable(f"{place}: {error}") from None
    else:
        return None
    try:
        return UpstreamSettings(name="key", url="http://key.invalid", key=key).key
    except ValidationError:
        raise BadTable(
            f"{place}: a key must be visible ASCII characters without spaces, at least one"
        ) from None


def _check_names(upstreams: Sequence[UpstreamSettings]) -> None:
    names = [one.name for one in upstreams]
    for at, one in enumerate(upstreams):
        if one.name in names[:at]:
            raise BadTable(f"[{at}].name: {one.name!r} is another upstream's already")
        for name in one.fallbacks:
            if name == one.name:
                raise BadTable(f"[{at}].fallbacks: {name!r} is this upstream itself")
            if name not in names:
                near = difflib.get_close_matches(name, names, n=1)
                meant = f"; did you mean {near[0]}?" if near else ""
                raise BadTable(f"[{at}].fallbacks: {name!r} is no upstream{meant}")


def _check_default(
    upstreams: Sequence[UpstreamSettings], claims: ModelClaims, settings: Settings
) -> None:
    """Check that a create without a model goes to the table with the default."""
    if settings.model is not None:
        return
    for at, one in enumerate(upstreams):
        if one.default is not None:
            taker = claims.find(one.default)
            if taker not in (None, at):
                raise BadTable(
                    f"[{at}].default: {one.default!r} is what {upstreams[taker].name} takes"
                )
            return


def table() -> str:
    """Return the table of keys in docs/backends.md."""
    rows = ["| Key | Default | What it does |", "| --- | --- | --- |"]
    shared = inherited(Settings())
    for name in KEYS:
        field = UpstreamSettings.model_fields[name]
        default = shown(name, field.get_default(call_default_factory=True), UpstreamSettings)
        if name in shared:
            default = f"as `{flag(name)}`"
        elif field.is_required():
            default = "required"
        rows.append(f"| `{name}` | {default} | {field.description} |")
    return "\n".join(rows)


if __name__ == "__main__":
    print(table())  # noqa: T201
