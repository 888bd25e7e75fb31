"""`multilane key`: makes, takes over, lists and revokes the keys of a keys file."""

from __future__ import annotations

import os
import re
import sys
import time
import tomllib
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from gateway.config.loading import DEFAULT_FILE
from gateway.config.settings import variable
from gateway.keys import editing, watch
from gateway.keys.keys_file import (
    BadKeysFile,
    NamedKey,
    digest_of,
    key_id,
    models_of,
    parse_line,
    read_time,
    shown_time,
)
from gateway.limits.limits import UNLIMITED, read_limit, shown_limit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from gateway.limits.limits import GivenLimits

_SPAN: Final = re.compile(r"([1-9][0-9]{0,8})([smhd])")
_SECONDS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86400}
#: The limits of a tenant, as --help explains them.
_LIMITS: Final = {
    "connections": "WebSockets that its tenant may have open",
    "running": "Responses that its tenant may run at a time",
    "creates": "Creates a minute of its tenant",
    "tokens": "Tokens a minute of its tenant",
}
_EPILOG: Final = "The gateway reads the file again by itself, within seconds."


def _file(_context: click.Context, _option: click.Parameter, given: str | None) -> str:
    """Return the file that was named, or the one that the gateway would read here."""
    given = given or os.environ.get(variable("keys_file"))
    if given is None and DEFAULT_FILE.exists():
        try:
            given = tomllib.loads(DEFAULT_FILE.read_text("utf-8")).get("keys_file")
        except (OSError, ValueError) as error:
            raise click.ClickException(f"{DEFAULT_FILE}: cannot be read: {error}") from None
    if not isinstance(given, str):
        raise click.UsageError(f"name the keys file: --keys-file, or {variable('keys_file')}")
    return given


def _on_file(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command its --keys-file."""
    return click.option(
        "--keys-file",
        "path",
        metavar="FILE",
        callback=_file,
        help="The keys file; by default the one that serve would read here.",
    )(command)


def _described(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options of a key."""
    for option in (
        click.option(
            "--model",
            "models",
            multiple=True,
            metavar="MODEL",
            help="A model that it may ask for, repeatable; a `*` may end it [all].",
        ),
        click.option(
            "--expires",
            metavar="TIME",
            help="When it expires: 2027-01-31, 2027-01-31T12:00:00Z, or 90d, 12h from now.",
        ),
        *(
            click.option(
                f"--{name}",
                metavar="N",
                help=f"{text}; or {UNLIMITED} [as --tenant-{name} of serve].",
            )
            for name, text in reversed(_LIMITS.items())
        ),
        click.option("--tenant", metavar="NAME", help="Whose it is [the name of the key]."),
        click.argument("name"),
    ):
        command = option(command)
    return _on_file(command)


@click.group(help="Make, list and revoke the keys that clients show.", epilog=_EPILOG)
def key() -> None:
    """Make, list and revoke the keys that clients show."""


@key.command(help="Make a key called NAME, and print it: only its hash is kept.", epilog=_EPILOG)
@_described
def new(path: str, name: str, **options: Any) -> None:
    """Make a key and print it.

    Args:
        path: The keys file.
        name: Name of the key.
        options: Whose it is, and what it may do.
    """
    secret = editing.new_key()
    with _refusals(path):
        editing.add(Path(path).expanduser(), _described_key(name, secret, (), **options))
    click.echo(secret)


@key.command(
    help="Take over a key that exists, read from standard input, and what was stored under it.",
    epilog=_EPILOG,
)
@_described
def add(path: str, name: str, **options: Any) -> None:
    """Put a key that exists into the file.

    Args:
        path: The keys file.
        name: Name of the key.
        options: Whose it is, and what it may do.
    """
    secret = _shown_key()
    if not re.fullmatch(r"[!-~]+", secret):
        raise click.ClickException("a key must be visible ASCII characters without spaces")
    with _refusals(path):
        described = _described_key(name, secret, (key_id(secret),), **options)
        editing.add(Path(path).expanduser(), described)


@key.command("list", help="List the keys.")
@_on_file
def list_keys(path: str) -> None:
    """List the keys of a file."""
    with _refusals(path):
        keys = watch.read(path)
    rows = [("NAME", "TENANT", "EXPIRES", "MODELS", "LIMITS")]
    for one in keys:
        until = "never" if one.expires is None else shown_time(one.expires)
        state = f"{until} (over)" if one.expired(time.time()) else until
        limits = [f"{name}={shown_limit(most)}" for name, most in one.limits]
        models = ",".join(one.models) or "all"
        rows.append((one.name, one.tenant, state, models, ",".join(limits) or "default"))
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    for row in rows:
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=False)]
        click.echo("  ".join([*cells, row[4]]))


@key.command(help="Revoke the key called NAME: what is open under it ends.", epilog=_EPILOG)
@click.argument("name")
@_on_file
def revoke(path: str, name: str) -> None:
    """Take a key out of a file."""
    with _refusals(path):
        editing.remove(Path(path).expanduser(), name)


def _shown_key() -> str:
    """Return the key on standard input; at a terminal it is asked for, and not echoed."""
    if sys.stdin.isatty():
        asked: str = click.prompt("Key", hide_input=True, err=True)
        return asked.strip()
    return sys.stdin.buffer.read().decode("latin-1").strip()


def _described_key(
    name: str,
    secret: str,
    formerly: tuple[str, ...],
    tenant: str | None,
    expires: str | None,
    models: tuple[str, ...],
    **limits: str | None,
) -> NamedKey:
    """Return a key as its line will be read."""
    made = NamedKey(
        name,
        digest_of(secret.encode()),
        tenant or name,
        None if expires is None else _time(expires),
        models_of(",".join(models)),
        formerly,
        _given(limits),
    )
    return parse_line(made.line())


def _given(limits: Mapping[str, str | None]) -> GivenLimits:
    try:
        named = ((name, text) for name, text in limits.items() if text is not None)
        return tuple((name, read_limit(name, text)) for name, text in named)
    except ValueError as bad:
        raise BadKeysFile(f"--{bad}".replace("=", "", 1)) from None


def _time(text: str) -> float:
    span = _SPAN.fullmatch(text)
    if span is None:
        return read_time(text)
    seconds = time.time() + int(span[1]) * _SECONDS[span[2]]
    try:
        return datetime.fromtimestamp(seconds, UTC).replace(microsecond=0).timestamp()
    except (ValueError, OverflowError):
        return read_time(text)  # which refuses it


@contextmanager
def _refusals(path: str) -> Iterator[None]:
    try:
        yield
    except BadKeysFile as bad:
        message = str(bad)
        shown = message if message.startswith(repr(path)) else f"{path!r}: {message}"
        raise click.ClickException(shown) from None
    except OSError as error:
        why = f"{path!r} cannot be read or written: {error.strerror}"
        raise click.ClickException(why) from None
