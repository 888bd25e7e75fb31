"""The dialect of one backend: as it was set, or found out by asking, at the start or later."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from gateway.upstream import dialect
from gateway.upstream.detection.rules import (
    MADE_UP,
    DetectedDialect,
    DetectionFacts,
    EndpointStatus,
    host,
    listed,
    made,
    mark,
    reception,
    recognise,
)
from gateway.upstream.transport.faults import BackendAnswered, BackendSilent, refusal
from gateway.upstream.transport.retries import retried
from lanes.codec import encode
from lanes.errors import UpstreamFault

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gateway.upstream.dialect import Dialect
    from gateway.upstream.options import UpstreamOptions
    from gateway.upstream.transport.http.client import HttpClient

log = logging.getLogger("multilane.upstream")

#: Seconds for a list of models.
_LISTING: Final = 10.0
#: The least that the reference takes.
_FEW_TOKENS: Final = 16


@dataclass(slots=True)
class _Round:
    """One settling under way: with whose key, and what came of it."""

    shown: str | None
    over: asyncio.Event = field(default_factory=asyncio.Event)
    fault: UpstreamFault | None = None


class DialectDetector:
    """Knows the dialect of one backend, or finds it out, one asking at a time."""

    def __init__(self, settings: UpstreamOptions, client: HttpClient) -> None:
        self.known: Dialect | None = None
        self._settings = settings
        self._client = client
        self._round: _Round | None = None
        found = DetectedDialect(settings.dialect, "")
        if settings.dialect == dialect.AUTO:
            unasked = recognise(DetectionFacts(host(settings.url)), every())
            if unasked is None and settings.transport == "websocket":
                # Only those who speak the reference's own protocol are reached so.
                unasked = DetectedDialect("openai", "it is reached by WebSocket")
            if unasked is None:
                return
            found = unasked
        self._settle(found)

    async def ask(self, headers: Mapping[str, str], model: str | None = None) -> Dialect:
        """Find it out. `headers` show the key, `model` is what to ask for, if that is known.

        Raises UpstreamFault when the backend cannot be reached, is not ready or refuses the key;
        whoever waited with the same key gets that fault, too.
        """
        while self.known is None:
            shown = headers.get("authorization")
            current = self._round
            if current is None:
                return await self._lead(_Round(shown), headers, model)
            await current.over.wait()
            if current.fault is not None and current.shown == shown:
                raise _again(current.fault)
        return self.known

    async def _lead(self, round_: _Round, headers: Mapping[str, str], model: str | None) -> Dialect:
        self._round = round_
        settings = self._settings
        try:
            found = await retried(
                partial(
                    find_out,
                    self._client,
                    settings.url,
                    headers,
                    model=model,
                    timeout=settings.first_byte_timeout,
                ),
                settings.retries,
            )
        except UpstreamFault as fault:
            round_.fault = fault
            raise
        finally:
            self._round = None
            round_.over.set()
        return self._settle(found)

    def _settle(self, found: DetectedDialect) -> Dialect:
        self.known = dialect.find(found.name)
        if found.reason:
            log.info("upstream %s: dialect %s (%s)", self._settings.name, *_told(found))
        return self.known


def every() -> tuple[Dialect, ...]:
    """All dialects there are."""
    return tuple(dialect.find(name) for name in dialect.dialect_names())


async def find_out(
    client: HttpClient,
    url: str,
    headers: Mapping[str, str],
    *,
    model: str | None,
    timeout: float,
) -> DetectedDialect:
    """Ask the backend at `url` as little as tells its dialect. Raises UpstreamFault.

    A host that is known is not asked, a server that names itself nothing that costs. `timeout` is
    the seconds for each answer.
    """
    known = every()
    findings = DetectionFacts(host(url))
    if (found := recognise(findings, known)) is not None:
        return found
    headers = {**headers, "accept": "application/json"}
    findings = await models(client, findings, headers, timeout=min(timeout, _LISTING))
    tiny = probe(model or next(iter(findings.models), None))
    asked = {} if mark(findings, known) else tiny
    heard, ids = await _try(client, "/responses", asked, headers, timeout)
    findings = replace(findings, responses=heard, ids=ids)
    if (found := recognise(findings, known)) is not None:
        return found
    heard, _ = await _try(client, "/chat/completions", {}, headers, timeout)
    findings = replace(findings, chat=heard)
    if (found := recognise(findings, known)) is not None:
        return found
    raise BackendAnswered(
        f"There is neither /responses nor /chat/completions at {url.partition('?')[0]}."
        " Is that its base URL? Most end in /v1.",
        code="not_found",
        status=404,
        type="not_found_error",
    )


async def models(
    client: HttpClient, findings: DetectionFacts, headers: Mapping[str, str], *, timeout: float
) -> DetectionFacts:
    """Add what `/models` tells. Raises UpstreamFault where the backend is away or not ready."""
    try:
        answer = await client.fetch("GET", "/models", headers, timeout=timeout)
    except BackendSilent:
        return findings  # the list is but a help: whoever has none may have the rest
    if answer.status in (502, 503, 504):
        raise refusal(answer.status, answer.headers, answer.body)
    names, owners = listed(answer.body) if answer.status < 300 else ((), ())
    server = answer.headers.get("server", "")
    return replace(findings, server=server, owners=owners, models=names)


async def _try(
    client: HttpClient,
    path: str,
    body: dict[str, Any],
    headers: Mapping[str, str],
    timeout: float,
) -> tuple[EndpointStatus, str]:
    """Ask a place, and see which ids it makes.

    An empty body asks for nothing but whether there is such a place.
    """
    answer = await client.fetch("POST", path, headers, encode(body), timeout=timeout)
    heard = reception(answer.status, answer.headers, answer.body)
    told = heard if body or heard is EndpointStatus.ABSENT else EndpointStatus.PRESENT
    return told, made(answer.body)


def probe(model: str | None) -> dict[str, Any]:
    """The least that a backend answers, on top of a response that never was."""
    named = {} if model is None else {"model": model}
    asked = {"input": "hi", "max_output_tokens": _FEW_TOKENS, "store": False, "stream": False}
    return {**named, **asked, "previous_response_id": MADE_UP}


def _told(found: DetectedDialect) -> tuple[str, str]:
    """For the log: what comes from a backend is cut short."""
    return found.name, found.reason[:200]


def _again(fault: UpstreamFault) -> UpstreamFault:
    """The same fault for another create, which may add to its message."""
    kind = BackendAnswered if isinstance(fault, BackendAnswered) else UpstreamFault
    return kind(
        fault.message,
        code=fault.code,
        status=fault.status,
        type=fault.type,
        param=fault.param,
        headers=fault.headers,
    )
