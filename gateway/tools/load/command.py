"""The `multilane load` command: its arguments and exit codes."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING, Any

import click
import msgspec
from rich.console import Console
from rich.live import Live

from gateway.process.start_refused import StartRefused
from gateway.tools.load.client import ConnectRefused
from gateway.tools.load.load_run import LoadRun
from gateway.tools.load.plan import LoadPlan, slow_count, socket_url
from gateway.tools.load.report import progress, render, summary
from gateway.tools.load.tally import Tally

if TYPE_CHECKING:
    from collections.abc import Callable

_VIOLATED, _INTERRUPTED = 1, 130

_AT_LEAST_0 = click.IntRange(min=0)
_AT_LEAST_1 = click.IntRange(min=1)
_NOT_NEGATIVE = click.FloatRange(min=0)

_HELP = """Drive the gateway at URL with many lanes, measure it and check every answer.

URL is ws://…/v1/responses, wss://…/v1/responses or http(s)://…/v1. Exit code 1: an answer broke
the protocol; 2: no connection. Errors that the gateway sends are counted, not violations.
"""


@click.command(help=_HELP)
@click.argument("url")
@click.option(
    "--connections",
    type=_AT_LEAST_1,
    metavar="N",
    default=LoadPlan.connections,
    show_default=True,
    help="Sockets.",
)
@click.option(
    "--lanes",
    type=_AT_LEAST_1,
    metavar="N",
    default=LoadPlan.lanes,
    show_default=True,
    help="Per connection.",
)
@click.option(
    "--responses",
    type=_AT_LEAST_0,
    metavar="N",
    default=LoadPlan.responses,
    show_default=True,
    help="Per lane; 0: without limit, for --duration or until Ctrl-C.",
)
@click.option(
    "--rate",
    type=_NOT_NEGATIVE,
    metavar="N",
    default=LoadPlan.rate,
    help="New responses a second, over all lanes. [default: as fast as the lanes allow]",
)
@click.option(
    "--fork-share",
    type=click.FloatRange(0, 1),
    metavar="SHARE",
    default=LoadPlan.fork_share,
    show_default=True,
    help="Share of the creates that fork from another lane's response.",
)
@click.option(
    "--steer-share",
    type=click.FloatRange(0, 1),
    metavar="SHARE",
    default=LoadPlan.steer_share,
    show_default=True,
    help="Share of the responses, successors too, that are steered once while their text flows.",
)
@click.option(
    "--slow-readers",
    type=_NOT_NEGATIVE,
    metavar="N",
    default=0.0,
    help="Connections that read twice a second only: a number, or a share below 1.",
)
@click.option("--ahead", is_flag=True, help="Send a lane's next create while it still streams.")
@click.option(
    "--duration",
    type=_NOT_NEGATIVE,
    metavar="SECONDS",
    default=LoadPlan.duration,
    help="Seconds to start new responses for.",
)
@click.option(
    "--timeout",
    type=click.FloatRange(min=0, min_open=True),
    metavar="SECONDS",
    default=LoadPlan.timeout,
    show_default=True,
    help="Seconds without an event after which a lane counts as unanswered.",
)
@click.option("--model", metavar="NAME", help="[default: the gateway's]")
@click.option("--key", metavar="KEY", envvar="MULTILANE_LOAD_KEY", help="[env: MULTILANE_LOAD_KEY]")
@click.option(
    "--input",
    "text",
    metavar="TEXT",
    default=LoadPlan.text,
    show_default=True,
    help="Text of every create; {marker}, {lane} and {turn} are filled in.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object and no tables.")
def load(url: str, connections: int, slow_readers: float, *, as_json: bool, **options: Any) -> None:
    """Run a load, print its results and exit with their code.

    Args:
        url: The gateway's address.
        connections: The number of sockets.
        slow_readers: How many of them read slowly: a number, or a share below 1.
        as_json: Print JSON and no tables.
        options: The other fields of `LoadPlan`.
    """
    try:
        address = socket_url(url)
    except ValueError as error:
        raise StartRefused(f"URL: {error}") from None
    slow = slow_count(slow_readers, connections)
    plan = LoadPlan(url=address, connections=connections, slow_readers=slow, **options)
    tally = Tally()
    try:
        interrupted = _drive(plan, tally, live=not as_json)
    except ConnectRefused as error:
        raise StartRefused(f"{address}: {error}") from None
    numbers = summary(plan, tally, interrupted=interrupted)
    if as_json:
        click.echo(msgspec.json.encode(numbers).decode())
    else:
        render(Console(), numbers)
    sys.exit(_VIOLATED if tally.broken else _INTERRUPTED if interrupted else 0)


def _drive(plan: LoadPlan, tally: Tally, *, live: bool) -> bool:
    """Run the plan; return whether Ctrl-C ended it early."""
    console = Console(stderr=True)
    try:
        with asyncio.Runner(loop_factory=_loop_factory()) as runner:
            if not (live and console.is_terminal):
                runner.run(_run(plan, tally, lambda: None))
                return False
            with Live(console=console, auto_refresh=False, transient=True) as panel:
                runner.run(_run(plan, tally, _Panel(plan, tally, panel).tick))
    except KeyboardInterrupt:
        return True
    return False


async def _run(plan: LoadPlan, tally: Tally, tick: Callable[[], None]) -> None:
    await LoadRun(plan, tally).run(tick)


class _Panel:
    """Redraws the live panel with the rate since the last redraw."""

    def __init__(self, plan: LoadPlan, tally: Tally, live: Live) -> None:
        self._plan, self._tally, self._live = plan, tally, live
        self._before = (0.0, 0)

    def tick(self) -> None:
        """Redraw."""
        seconds, events = self._before
        self._before = self._tally.seconds, self._tally.events
        rate = (self._before[1] - events) / max(self._before[0] - seconds, 1e-3)
        self._live.update(progress(self._plan, self._tally, rate), refresh=True)


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    if sys.platform == "win32":
        return None
    import uvloop

    return uvloop.new_event_loop
