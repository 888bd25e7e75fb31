"""The `multilane check` command: its arguments and exit codes."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click
import msgspec
from click.shell_completion import CompletionItem
from rich.console import Console

from gateway.config.configured_upstreams import from_flags
from gateway.config.loading import BadStart, load
from gateway.config.setting_words import choices
from gateway.process.start_refused import StartRefused
from gateway.tools.check.examination import examine
from gateway.tools.check.report import render
from gateway.upstream.dialect import AUTO
from lanes.errors import UpstreamFault

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gateway.config.upstream_settings import UpstreamSettings
    from gateway.tools.check.findings import CheckReport

_LACKING: Final = 1
_HELP: Final = """Try what the backend at URL supports, with some 20 tiny requests.

URL is the base URL of its clients (http://127.0.0.1:8000/v1). The check sends the key that
MULTILANE_UPSTREAM_KEY holds, or the file that MULTILANE_UPSTREAM_KEY_FILE names. Exit code 0: lanes
and steering work there; 1: something they need does not; 2: nothing answers at URL.
"""


def _dialects(
    _ctx: click.Context, _param: click.Parameter, typed: str
) -> list[CompletionItem[str]]:
    return [CompletionItem(one) for one in choices("dialect") if one.startswith(typed.lower())]


@click.command(help=_HELP)
@click.argument("url")
@click.option(
    "--dialect",
    default=AUTO,
    show_default=True,
    metavar="NAME",
    shell_complete=_dialects,
    help="How the backend speaks; auto detects it.",
)
@click.option(
    "--transport",
    type=click.Choice(["http", "websocket"], case_sensitive=False),
    default="http",
    show_default=True,
    help="How to reach it; websocket if it speaks this protocol.",
)
@click.option("--model", metavar="NAME", help="[default: the first that the backend lists]")
@click.option(
    "--timeout",
    type=click.FloatRange(min=0, min_open=True),
    metavar="SECONDS",
    default=60.0,
    show_default=True,
    help="Seconds for each answer.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object and no tables.")
def check(
    url: str, dialect: str, transport: str, model: str | None, timeout: float, *, as_json: bool
) -> None:
    """Run a check, print its report and exit with its code.

    Args:
        url: The backend's base URL.
        dialect: The dialect to use, `auto` to detect it.
        transport: How to reach it.
        model: The model to ask for.
        timeout: The limit of each answer, in seconds.
        as_json: Print JSON and no tables.
    """
    settings = _settings({"upstream": url, "dialect": dialect, "upstream_transport": transport})
    settings = settings.model_copy(update={"default": model})
    try:
        report = _run(settings, timeout, live=not as_json)
    except UpstreamFault as fault:
        raise StartRefused(f"{url}: {fault.message}") from None
    numbers = report.numbers()
    if as_json:
        click.echo(msgspec.json.encode(numbers).decode())
    else:
        render(Console(), numbers)
    sys.exit(0 if report.works else _LACKING)


def _settings(flags: dict[str, str]) -> UpstreamSettings:
    """Read the settings as `multilane serve` would without a config file."""
    try:
        return from_flags(load(flags, Path(os.devnull)))
    except BadStart as refused:
        line = str(refused).replace("--upstream-transport:", "--transport:", 1)
        raise StartRefused(line.replace("--upstream:", "URL:", 1)) from None


def _run(settings: UpstreamSettings, timeout: float, *, live: bool) -> CheckReport:
    console = Console(stderr=True)
    with _silent():
        if not (live and console.is_terminal):
            return asyncio.run(examine(settings, timeout, lambda _: None))
        with console.status("looking at the backend") as status:
            return asyncio.run(examine(settings, timeout, lambda name: status.update(f"{name} …")))


@contextmanager
def _silent() -> Iterator[None]:
    """Log nothing: an error here becomes a finding."""
    log = logging.getLogger("multilane")
    before = log.level
    log.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        log.setLevel(before)
