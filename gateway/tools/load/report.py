"""The results of a load run as one JSON object, as tables, and as a few live lines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from rich.console import Console

    from gateway.tools.load.plan import LoadPlan
    from gateway.tools.load.tally import Histogram, Tally

_SHARES = {"p50": 0.5, "p90": 0.9, "p99": 0.99}
_TIMINGS = {
    "time_to_first_event_ms": "time to first event",
    "time_to_first_delta_ms": "time to first delta",
    "gap_ms": "gap between events of a lane",
    "total_ms": "total",
    "steer_to_accepted_ms": "steer to accepted",
    "steer_to_successor_ms": "steer to successor created",
}
#: What a steer can become.
_STEERS = ("sent", "accepted", "pending", "committed", "cut")
#: Words of the counts that need an explanation below them.
_MEANINGS = {
    "successors": "responses that steers caused, besides the creates that were sent",
    "cut": "steers for which a response stopped; others came to its end",
    "shown": "successors whose text repeats their steer, as some backends do",
}
#: Error code -> what to change where a gateway's limit is below the load.
_HINTS = {
    "websocket_stream_limit_reached": "more --lanes than the gateway's --max-named allows",
    "too_many_queued_responses": "more creates ahead than the gateway's --max-queued allows",
}


def summary(plan: LoadPlan, tally: Tally, *, interrupted: bool = False) -> dict[str, Any]:
    """Return all numbers of a run, as `--json` prints them.

    Args:
        plan: The settings of the run.
        tally: What the run counted.
        interrupted: Whether Ctrl-C ended it early.
    """
    seconds = tally.seconds or 1e-9
    return {
        "url": plan.url,
        "connections": plan.connections,
        "lanes": plan.lanes,
        "slow_readers": plan.slow_readers,
        "seconds": round(tally.seconds, 3),
        "interrupted": interrupted,
        "responses": _responses(tally),
        "steers": _steers(tally),
        "events": tally.events,
        "bytes": tally.size,
        "events_per_second": round(tally.events / seconds, 1),
        "megabytes_per_second": round(tally.size / seconds / 1e6, 3),
        "time_to_first_event_ms": _timing(tally.first_event),
        "time_to_first_delta_ms": _timing(tally.first_delta),
        "gap_ms": _timing(tally.gap),
        "total_ms": _timing(tally.total),
        "steer_to_accepted_ms": _timing(tally.steer_to_accepted),
        "steer_to_successor_ms": _timing(tally.steer_to_successor),
        "errors": dict(tally.errors.most_common()),
        "violations": _violations(tally),
        "client_cpu_us_per_event": round(tally.cpu * 1e6 / max(1, tally.events), 2),
        "client_cpu_share": round(tally.cpu / seconds, 3),
    }


def render(console: Console, numbers: dict[str, Any]) -> None:
    """Print the final tables."""
    console.print(_counts(numbers))
    console.print(_timings(numbers))
    if numbers["steers"]["failed"]:
        console.print(_by_name("failed steers by code", numbers["steers"]["failed"]))
    if numbers["errors"]:
        console.print(_by_name("errors by code", numbers["errors"]))
    for line in _explanations(numbers):
        console.print(line)
    violations = numbers["violations"]
    if not violations["count"]:
        console.print(_verdict(numbers))
        return
    console.print(_by_name("violations by rule", violations["rules"]))
    for first in violations["first"]:
        place = f"connection {first['connection']}, {first['lane'] or 'no lane'}"
        console.print(Text(f"{first['rule']}: {first['message']} ({place})", style="red"))
        if first["event"]:
            console.print(Text(f"  {first['event']}", style="dim"))


def _explanations(numbers: dict[str, Any]) -> Iterator[Text]:
    """Yield what the words above mean, and which of the gateway's limits the load is beyond."""
    for word, meaning in _MEANINGS.items():
        if numbers["responses"].get(word) or numbers["steers"].get(word):
            yield Text(f"{word}: {meaning}", style="dim")
    for code in filter(_HINTS.get, numbers["errors"]):
        yield Text(f"{code}: {_HINTS[code]}", style="yellow")


def _verdict(numbers: dict[str, Any]) -> Text:
    """Return the last line of a run in which no rule was broken."""
    count = sum(numbers["errors"].values())
    if not count:
        return Text("no violations")
    errors = "1 error" if count == 1 else f"{count:,} errors"
    text = f"not all was answered: {errors}; what was answered broke no rule"
    return Text(text, style="yellow")


def progress(plan: LoadPlan, tally: Tally, events_per_second: float) -> Text:
    """Return the lines to show while the load runs.

    They are plain, as laying out a table takes 5 ms, which the percentiles would show.

    Args:
        plan: The settings of the run.
        tally: What the run has counted so far.
        events_per_second: The current rate.
    """
    lines = {
        "time": f"{tally.seconds:.1f} s",
        "connections": f"{tally.open} of {plan.connections}",
        "responses": f"{tally.finished:,} done, {tally.unfinished:,} on their way",
        "events/s": f"{events_per_second:,.0f}",
        "errors": f"{tally.errors.total():,}",
        "violations": f"{tally.broken:,}",
    }
    text = Text(f"{plan.url}\n", style="bold red" if tally.broken else "bold", end="")
    text.append("\n".join(f"  {name:<13}{value}" for name, value in lines.items()), "not bold")
    return text


def _responses(tally: Tally) -> dict[str, int]:
    return {
        "sent": tally.started,
        "forks": tally.forks,
        "successors": tally.successors,
        **{name: tally.statuses[name] for name in ("completed", "incomplete", "failed")},
        "refused": tally.statuses["refused"],
        "unfinished": tally.unfinished,
    }


def _steers(tally: Tally) -> dict[str, Any]:
    return {
        **{name: tally.steers[name] for name in _STEERS},
        "shown": tally.markers.shown,
        "unsettled": tally.unsettled,
        "failed": dict(tally.steer_failures.most_common()),
    }


def _violations(tally: Tally) -> dict[str, Any]:
    first = [
        {
            "rule": str(violation.fault.rule),
            "message": violation.fault.message,
            "connection": violation.connection,
            "lane": violation.lane,
            "event": violation.event,
        }
        for violation in tally.violations
    ]
    return {"count": tally.broken, "rules": dict(tally.rules.most_common()), "first": first}


def _timing(histogram: Histogram) -> dict[str, float | None]:
    values = {name: histogram.percentile(share) for name, share in _SHARES.items()}
    values["max"] = histogram.max if histogram.count else None
    return {
        name: None if value is None else round(value / 1e6, 3) for name, value in values.items()
    }


def _counts(numbers: dict[str, Any]) -> Table:
    table = Table(title=numbers["url"], show_header=False)
    responses = numbers["responses"]
    table.add_row("responses", ", ".join(f"{n:,} {name}" for name, n in responses.items() if n))
    steers = {**numbers["steers"], "failed": sum(numbers["steers"]["failed"].values())}
    if steers["sent"]:
        table.add_row("steers", ", ".join(f"{n:,} {name}" for name, n in steers.items() if n))
    over = f"{numbers['seconds']:g} s" + (" (interrupted)" if numbers["interrupted"] else "")
    table.add_row("events", f"{numbers['events']:,} in {over}")
    table.add_row("events/s", f"{numbers['events_per_second']:,.0f}")
    table.add_row("MB/s", f"{numbers['megabytes_per_second']:.2f}")
    per_event, share = numbers["client_cpu_us_per_event"], numbers["client_cpu_share"]
    table.add_row("this client", f"{per_event:.1f} CPU µs an event, {share:.0%} of a core")
    return table


def _timings(numbers: dict[str, Any]) -> Table:
    table = Table("ms", *(*_SHARES, "max"))
    for key, title in _TIMINGS.items():
        if key.startswith("steer") and not numbers["steers"]["sent"]:
            continue
        values: Iterable[float | None] = numbers[key].values()
        table.add_row(title, *("-" if value is None else f"{value:.3f}" for value in values))
    return table


def _by_name(title: str, counts: dict[str, int]) -> Table:
    table = Table(title, "count")
    for name, count in counts.items():
        table.add_row(Text(name), f"{count:,}")
    return table
