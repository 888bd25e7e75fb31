"""The dialect of one backend: as the settings say, or as its answers show (D24)."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from gateway.upstream import dialect
from gateway.upstream.detection.rules import (
    UNKNOWN_RESPONSE_ID,
    BackendFacts,
    DetectedDialect,
    EndpointStatus,
    endpoint_status,
    host_of,
    ids_in_answer,
    listed_models,
    match_dialect,
    named_dialect,
)
from gateway.upstream.transport.faults import (
    BackendAnswered,
    BackendSilent,
    answer_fault,
    copy_fault,
)
from gateway.upstream.transport.retries import retry
from lanes.codec import encode
from lanes.errors import UpstreamFault

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gateway.upstream.dialect import Dialect
    from gateway.upstream.options import UpstreamOptions
    from gateway.upstream.transport.http.client import HttpClient

log = logging.getLogger("multilane.upstream")

#: Seconds for the list of models.
_MODELS_TIMEOUT: Final = 10.0
#: The least that the reference accepts.
_MIN_OUTPUT_TOKENS: Final = 16


@dataclass(slots=True)
class _Attempt:
    """One detection under way: the key it uses, and its fault if it failed."""

    authorization: str | None
    done: asyncio.Event = field(default_factory=asyncio.Event)
    fault: UpstreamFault | None = None


class DialectDetector:
    """Keeps the dialect of one backend, and detects it once it is needed; None before that."""

    def __init__(self, settings: UpstreamOptions, client: HttpClient) -> None:
        self.dialect: Dialect | None = None
        self._settings = settings
        self._client = client
        self._attempt: _Attempt | None = None
        detected = DetectedDialect(settings.dialect, "")
        if settings.dialect == dialect.AUTO:
            by_url = dialect_by_url(settings.url, settings.transport)
            if by_url is None:
                return
            detected = by_url
        self._keep(detected)

    async def detect(self, headers: Mapping[str, str], model: str | None = None) -> Dialect:
        """Return the dialect, detecting it if it is unknown, one detection at a time.

        `headers` hold the key, `model` is the one to ask for, if there is one. Raises UpstreamFault
        when the backend cannot be reached, is not ready or refuses the key; a caller that waited
        with the same key gets the same fault.
        """
        while self.dialect is None:
            authorization = headers.get("authorization")
            current = self._attempt
            if current is None:
                return await self._lead(_Attempt(authorization), headers, model)
            await current.done.wait()
            if current.fault is not None and current.authorization == authorization:
                raise copy_fault(current.fault, _without_retry(current.fault))
        return self.dialect

    async def _lead(
        self, attempt: _Attempt, headers: Mapping[str, str], model: str | None
    ) -> Dialect:
        self._attempt = attempt
        settings = self._settings
        try:
            detected = await retry(
                partial(
                    detect_dialect,
                    self._client,
                    settings.url,
                    headers,
                    model=model,
                    timeout=settings.first_byte_timeout,
                ),
                settings.retries,
            )
        except UpstreamFault as fault:
            attempt.fault = fault
            raise
        finally:
            self._attempt = None
            attempt.done.set()
        return self._keep(detected)

    def _keep(self, detected: DetectedDialect) -> Dialect:
        self.dialect = dialect.find(detected.name)
        if detected.reason:
            reason = detected.reason[:200]  # it may quote the backend
            log.info("upstream %s: dialect %s (%s)", self._settings.name, detected.name, reason)
        return self.dialect


def all_dialects() -> tuple[Dialect, ...]:
    """Return all dialects."""
    return tuple(dialect.find(name) for name in dialect.dialect_names())


def dialect_by_url(url: str, transport: str) -> DetectedDialect | None:
    """Return the dialect that a backend's host or its transport shows, if they do."""
    by_host = match_dialect(BackendFacts(host_of(url)), all_dialects())
    if by_host is None and transport == "websocket":
        # Only backends that speak the reference's own protocol have a WebSocket.
        return DetectedDialect("openai", "it is reached by WebSocket")
    return by_host


async def detect_dialect(
    client: HttpClient,
    url: str,
    headers: Mapping[str, str],
    *,
    model: str | None,
    timeout: float,
) -> DetectedDialect:
    """Return the dialect of the backend at `url`, with as few requests as possible.

    A known host gets no request, and a server that names itself gets none that generates tokens.

    Args:
        client: The client of the backend.
        url: The base URL.
        headers: The headers of each request, with the key.
        model: The model to ask for; None takes the first that the backend lists.
        timeout: Seconds for each answer.

    Raises:
        UpstreamFault: The backend cannot be reached, is not ready or refuses the key, or there is
            no endpoint at `url`.
    """
    candidates = all_dialects()
    facts = BackendFacts(host_of(url))
    if (detected := match_dialect(facts, candidates)) is not None:
        return detected
    headers = {**headers, "accept": "application/json"}
    facts = await ask_models(client, facts, headers, timeout=min(timeout, _MODELS_TIMEOUT))
    smallest = probe_request(model or next(iter(facts.models), None))
    body = {} if named_dialect(facts, candidates) else smallest
    status, ids, names = await _ask_endpoint(client, "/responses", body, headers, timeout)
    facts = replace(facts, responses=status, ids=ids, headers=facts.headers | names)
    if (detected := match_dialect(facts, candidates)) is not None:
        return detected
    status, _, names = await _ask_endpoint(client, "/chat/completions", {}, headers, timeout)
    facts = replace(facts, chat=status, headers=facts.headers | names)
    if (detected := match_dialect(facts, candidates)) is not None:
        return detected
    raise BackendAnswered(
        f"There is neither /responses nor /chat/completions at {url.partition('?')[0]}."
        " Is that its base URL? Most end in /v1.",
        code="not_found",
        status=404,
        type="not_found_error",
    )


async def ask_models(
    client: HttpClient, facts: BackendFacts, headers: Mapping[str, str], *, timeout: float
) -> BackendFacts:
    """Return the facts with those that `/models` shows.

    Args:
        client: The client of the backend.
        facts: The facts so far.
        headers: The headers of the request, with the key.
        timeout: Seconds for the answer; without one the facts stay as they are.

    Raises:
        UpstreamFault: The backend cannot be reached or is not ready.
    """
    try:
        answer = await client.fetch("GET", "/models", headers, timeout=timeout)
    except BackendSilent:
        return facts  # the list only helps: a backend without one may have all else
    if answer.status in (502, 503, 504):
        raise answer_fault(answer.status, answer.headers, answer.body)
    names, owners = listed_models(answer.body) if answer.status < 300 else ((), ())
    server = answer.headers.get("server", "")
    seen = frozenset(answer.headers)
    return replace(facts, server=server, headers=seen, owners=owners, models=names)


async def _ask_endpoint(
    client: HttpClient,
    path: str,
    body: dict[str, Any],
    headers: Mapping[str, str],
    timeout: float,
) -> tuple[EndpointStatus, str, frozenset[str]]:
    """Return what an endpoint does with a request, the ids in its answer and the headers of it.

    An empty body only shows whether the endpoint exists.
    """
    answer = await client.fetch("POST", path, headers, encode(body), timeout=timeout)
    status = endpoint_status(answer.status, answer.headers, answer.body)
    if not body and status is not EndpointStatus.ABSENT:
        status = EndpointStatus.PRESENT
    return status, ids_in_answer(answer.body), frozenset(answer.headers)


def probe_request(model: str | None) -> dict[str, Any]:
    """Return the smallest request that a backend answers; its parent does not exist."""
    named = {} if model is None else {"model": model}
    request = {
        "input": "hi",
        "max_output_tokens": _MIN_OUTPUT_TOKENS,
        "store": False,
        "stream": False,
    }
    return {**named, **request, "previous_response_id": UNKNOWN_RESPONSE_ID}


def _without_retry(fault: UpstreamFault) -> type[UpstreamFault]:
    """Return the type of the fault without its transience: the detection was retried already."""
    return BackendAnswered if isinstance(fault, BackendAnswered) else UpstreamFault
