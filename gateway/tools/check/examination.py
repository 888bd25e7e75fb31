"""One check from its first question to its report."""

from __future__ import annotations

import time
from collections import Counter
from typing import TYPE_CHECKING

from gateway.config.setting_types import AUTO
from gateway.tools.check import probes
from gateway.tools.check.backend_under_test import BackendUnderTest, client
from gateway.tools.check.findings import CheckReport, Finding, Verdict
from gateway.tools.check.probes import ProbeContext, skipped, timed
from gateway.tools.check.repairs import repairs
from gateway.tools.check.timing import at_once, leaving
from gateway.upstream.detection.detector import find_out, models
from gateway.upstream.detection.rules import DetectedDialect, DetectionFacts, host
from gateway.upstream.dialect import find
from gateway.upstream.transport.faults import BackendAnswered

if TYPE_CHECKING:
    from collections.abc import Callable

    from gateway.config.upstream_settings import UpstreamSettings
    from gateway.tools.check.probes import Probe

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
) -> CheckReport:
    """Check the backend at `settings.url`; `tell` hears what is tried next.

    `timeout` is the seconds for each answer. Raises UpstreamFault when nothing answers there; a
    refused key, or a place without a known endpoint, is a finding.
    """
    report = CheckReport(settings.url)
    try:
        await _recognise(settings, timeout, report)
    except BackendAnswered as fault:
        refused = f"not found out ({fault.status}: {fault.message})"
        report.findings.append(Finding("dialect", Verdict.NO, refused))
        return report
    dialect = report.dialect or settings.dialect
    subject = BackendUnderTest(
        settings.model_copy(update={"dialect": dialect}), report.model, timeout
    )
    try:
        await _probe(ProbeContext(subject), report, tell)
    finally:
        await subject.aclose()
    report.repairs = _repairs(subject)
    return report


async def _recognise(settings: UpstreamSettings, timeout: float, report: CheckReport) -> None:
    """See what is there, and what it is."""
    asking, key, named = client(settings, timeout), settings.key, settings.default
    headers = {} if key is None else {"authorization": f"Bearer {key.get_secret_value()}"}
    found = DetectedDialect(settings.dialect, "as --dialect says")
    try:
        if settings.dialect == AUTO:
            found = await find_out(asking, settings.url, headers, model=named, timeout=timeout)
        elif key is not None:
            headers = find(settings.dialect).auth(key.get_secret_value())
        since = time.monotonic()
        listed = await models(asking, DetectionFacts(host(settings.url)), headers, timeout=timeout)
        took = time.monotonic() - since
    finally:
        await asking.aclose()
    report.dialect, report.reason = found.name, found.reason
    report.model = named or next(iter(listed.models), None)
    report.findings += [
        Finding("dialect", Verdict.YES, f"{found.name} ({found.reason})"),
        _models(listed, report.model, took),
    ]


def _models(listed: DetectionFacts, model: str | None, took: float) -> Finding:
    count = len(listed.models)
    asked = f"; asked for {model}" if model is not None else "; none is asked for"
    if not count:
        return Finding("models", Verdict.NO, f"no list{asked}", took)
    told = "1 listed" if count == 1 else f"{count} listed"
    return Finding("models", Verdict.YES, f"{told}{asked}", took)


async def _probe(known: ProbeContext, report: CheckReport, tell: Callable[[str], None]) -> None:
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


def _repairs(subject: BackendUnderTest) -> Counter[str]:
    """What was amiss in all answers together; those we left or cut ourselves have no end."""
    found: Counter[str] = Counter()
    for heard in subject.heard:
        if subject.dialect.converter is not None:
            found["converted"] += len(heard.raw)
        elif heard.raw and heard.complete:
            found += repairs(heard.raw)
    return +found
