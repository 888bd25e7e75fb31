"""One check from its first question to its report."""

from __future__ import annotations

import time
from collections import Counter
from typing import TYPE_CHECKING

from gateway.check import probes
from gateway.check.findings import Finding, Report, Verdict
from gateway.check.probes import Known, skipped, timed
from gateway.check.repairs import repairs
from gateway.check.subject import Subject, client
from gateway.check.timing import at_once, leaving
from gateway.upstream.dialect import find
from gateway.upstream.faults import Answered
from gateway.upstream.recognise import Findings, Recognised, host
from gateway.upstream.settling import find_out, models
from gateway.values import AUTO

if TYPE_CHECKING:
    from collections.abc import Callable

    from gateway.check.probes import Probe
    from gateway.upstream.settings import UpstreamSettings

#: In this order; the text comes first, as most of the others build on it.
PROBES: dict[str, Probe] = {
    "text": probes.text,
    "events": probes.events,
    "usage": probes.usage,
    "reasoning": probes.reasoning,
    "tools": probes.tools,
    "parallel calls": probes.parallel,
    "tool outputs": probes.tool_outputs,
    "images": probes.images,
    "errors": probes.errors,
    "previous_response_id": probes.previous_response,
    "token limit": probes.limit,
    "at once": at_once,
    "cancel on close": leaving,
    "replay": probes.replay,
    "steering": probes.steering,
}
#: What can be tried though no text came.
_WITHOUT_TEXT = ("text", "errors", "previous_response_id")


async def examine(
    settings: UpstreamSettings, timeout: float, tell: Callable[[str], None]
) -> Report:
    """Check the backend at `settings.url`; `tell` hears what is tried next.

    `timeout` is the seconds for each answer. Raises UpstreamFault when nothing answers there; a
    refused key, or a place without a known endpoint, is a finding.
    """
    report = Report(settings.url)
    try:
        await _recognise(settings, timeout, report)
    except Answered as fault:
        refused = f"not found out ({fault.status}: {fault.message})"
        report.findings.append(Finding("dialect", Verdict.NO, refused))
        return report
    dialect = report.dialect or settings.dialect
    subject = Subject(settings.model_copy(update={"dialect": dialect}), report.model, timeout)
    try:
        await _probe(Known(subject), report, tell)
    finally:
        await subject.aclose()
    report.repairs = _repairs(subject)
    return report


async def _recognise(settings: UpstreamSettings, timeout: float, report: Report) -> None:
    """See what is there, and what it is."""
    asking, key, named = client(settings, timeout), settings.key, settings.default
    headers = {} if key is None else {"authorization": f"Bearer {key.get_secret_value()}"}
    found = Recognised(settings.dialect, "as --dialect says")
    try:
        if settings.dialect == AUTO:
            found = await find_out(asking, settings.url, headers, model=named, timeout=timeout)
        elif key is not None:
            headers = find(settings.dialect).auth(key.get_secret_value())
        since = time.monotonic()
        listed = await models(asking, Findings(host(settings.url)), headers, timeout=timeout)
        took = time.monotonic() - since
    finally:
        await asking.aclose()
    report.dialect, report.reason = found.name, found.reason
    report.model = named or next(iter(listed.models), None)
    report.findings += [
        Finding("dialect", Verdict.YES, f"{found.name} ({found.reason})"),
        _models(listed, report.model, took),
    ]


def _models(listed: Findings, model: str | None, took: float) -> Finding:
    count = len(listed.models)
    asked = f"; asked for {model}" if model is not None else "; none is asked for"
    if not count:
        return Finding("models", Verdict.NO, f"no list{asked}", took)
    told = "1 listed" if count == 1 else f"{count} listed"
    return Finding("models", Verdict.YES, f"{told}{asked}", took)


async def _probe(known: Known, report: Report, tell: Callable[[str], None]) -> None:
    spoke = True
    for name, probe in PROBES.items():
        if not spoke and name not in _WITHOUT_TEXT:
            report.findings.append(skipped(name))
            continue
        tell(name)
        found = await timed(probe, name, known)
        report.findings.append(found)
        if name == "text":
            spoke = found.verdict is not Verdict.NO


def _repairs(subject: Subject) -> Counter[str]:
    """What was amiss in all answers together; those we left or cut ourselves have no end."""
    found: Counter[str] = Counter()
    for heard in subject.heard:
        if subject.dialect.converter is not None:
            found["converted"] += len(heard.raw)
        elif heard.raw and heard.complete:
            found += repairs(heard.raw)
    return +found
