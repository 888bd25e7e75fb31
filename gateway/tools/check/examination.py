"""One check of a backend, from the detection of its dialect to the report."""

from __future__ import annotations

import time
from collections import Counter
from typing import TYPE_CHECKING

from gateway.tools.check import probes, request_probes
from gateway.tools.check.backend_under_test import BackendUnderTest, plain_client
from gateway.tools.check.findings import CheckReport, Finding, SupportLevel
from gateway.tools.check.probe_context import ProbeContext
from gateway.tools.check.probes import skipped, timed
from gateway.tools.check.repairs import repairs
from gateway.tools.check.timing import at_once, leaving
from gateway.upstream.detection.detector import ask_models, detect_dialect, dialect_by_url
from gateway.upstream.detection.rules import BackendFacts, DetectedDialect, host_of
from gateway.upstream.dialect import AUTO, find
from gateway.upstream.transport.faults import BackendAnswered

if TYPE_CHECKING:
    from collections.abc import Callable

    from gateway.config.upstream_settings import UpstreamSettings
    from gateway.tools.check.probe_context import Probe

#: In this order: the text comes first, as most of the others build on it.
PROBES: dict[str, Probe] = {
    "text": probes.text,
    "events": probes.events,
    "usage": probes.usage,
    "reasoning": probes.reasoning,
    "reasoning returned": request_probes.reasoning_returned,
    "tools": probes.tools,
    "parallel calls": probes.parallel,
    "tool outputs": probes.tool_outputs,
    "namespace tools": request_probes.namespaces,
    "images": probes.images,
    "alternation": request_probes.alternation,
    "stream_options": request_probes.stream_options,
    "errors": probes.errors,
    "previous_response_id": probes.previous_response,
    "token limit": probes.limit,
    "at once": at_once,
    "cancel on close": leaving,
    "replay": probes.replay,
    "steering": probes.steering,
}
#: Probes that make sense even if no text came.
_WITHOUT_TEXT = ("text", "errors", "previous_response_id")


async def examine(
    settings: UpstreamSettings, timeout: float, announce: Callable[[str], None]
) -> CheckReport:
    """Check the backend at `settings.url`. A refused key or an unknown endpoint is a finding.

    Args:
        settings: How to reach the backend.
        timeout: The limit of each answer, in seconds.
        announce: Called with the name of each probe before it runs.

    Raises:
        UpstreamFault: Nothing answers at the URL.
    """
    report = CheckReport(settings.url)
    try:
        await _detect(settings, timeout, report)
    except BackendAnswered as fault:
        refused = f"not found out ({fault.status}: {fault.message})"
        report.findings.append(Finding("dialect", SupportLevel.NO, refused))
        return report
    dialect = report.dialect or settings.dialect
    subject = BackendUnderTest(
        settings.model_copy(update={"dialect": dialect}), report.model, timeout
    )
    try:
        await _probe(ProbeContext(subject), report, announce)
    finally:
        await subject.aclose()
    report.repairs = _repairs(subject)
    return report


async def _detect(settings: UpstreamSettings, timeout: float, report: CheckReport) -> None:
    """Detect the dialect and list the models."""
    client, key, named = plain_client(settings, timeout), settings.key, settings.default
    headers = {} if key is None else {"authorization": f"Bearer {key.get_secret_value()}"}
    detected = DetectedDialect(settings.dialect, "as --dialect says")
    by_url = dialect_by_url(settings.url, settings.transport)
    try:
        if settings.dialect == AUTO and by_url is not None:
            detected = by_url
        elif settings.dialect == AUTO:
            detected = await detect_dialect(
                client, settings.url, headers, model=named, timeout=timeout
            )
        elif key is not None:
            headers = find(settings.dialect).auth(key.get_secret_value())
        started = time.monotonic()
        listed = await ask_models(
            client, BackendFacts(host_of(settings.url)), headers, timeout=timeout
        )
        took = time.monotonic() - started
    finally:
        await client.aclose()
    report.dialect, report.reason = detected.name, detected.reason
    report.model = named or next(iter(listed.models), None)
    report.findings += [
        Finding("dialect", SupportLevel.YES, f"{detected.name} ({detected.reason})"),
        _models(listed, report.model, took),
    ]


def _models(listed: BackendFacts, model: str | None, took: float) -> Finding:
    count = len(listed.models)
    asked = f"; asked for {model}" if model is not None else "; none is asked for"
    if not count:
        return Finding("models", SupportLevel.NO, f"no list{asked}", took)
    listing = "1 listed" if count == 1 else f"{count} listed"
    return Finding("models", SupportLevel.YES, f"{listing}{asked}", took)


async def _probe(
    context: ProbeContext, report: CheckReport, announce: Callable[[str], None]
) -> None:
    has_text = True
    for name, probe in PROBES.items():
        if not has_text and name not in _WITHOUT_TEXT:
            report.findings.append(skipped(name))
            continue
        announce(name)
        finding = await timed(probe, name, context)
        report.findings.append(finding)
        if name == "text":
            has_text = finding.verdict is not SupportLevel.NO


def _repairs(subject: BackendUnderTest) -> Counter[str]:
    """Count the repairs of all answers; those that the check left or cut itself have no end."""
    counts: Counter[str] = Counter()
    for answer in subject.answers:
        if subject.dialect.converter is not None:
            counts["converted"] += len(answer.raw)
        elif answer.raw and answer.complete:
            counts += repairs(answer.raw)
    return +counts
