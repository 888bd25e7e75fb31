"""Facts about a backend -> the dialect it speaks, and the reason (D24). Pure.

The facts, in order: its host, what it calls itself, the ids it makes, the headers that a service
behind a proxy leaves in its answers, whether it has `/responses`. Each dialect lists its own:
`hosts`, `marks`, `ids` and `traces` in `gateway.upstream.dialect`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from gateway.upstream.model_list import model_entries
from gateway.upstream.transport.faults import answer_fault
from lanes.codec import decode_lenient

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from gateway.upstream.dialect import Dialect

#: The dialect of an unknown backend, and of one without `/responses`.
UNKNOWN = "generic"
CHAT = "chat"
#: An id that no response of any backend has.
UNKNOWN_RESPONSE_ID = "resp_00000000000000000000000000000000"

#: Statuses of a proxy, of a backend that is not ready, or for a wrong key: they say nothing about
#: the endpoint.
_INCONCLUSIVE = frozenset({401, 403, 407, 408, 425, 429, 502, 503, 504})
_NOT_THERE = frozenset({404, 405, 410, 501})
#: A path, which backends repeat when they do not have it.
_PATH = re.compile(r"/\S*")
_SUBJECT = re.compile(r"response|model|deployment", re.IGNORECASE)
_GONE = re.compile(r"not.?found|no such|does not exist|unknown|invalid.+\bid\b", re.IGNORECASE)


class EndpointStatus(Enum):
    """What an endpoint does with a request; the value completes "it has /responses, which ..."."""

    ABSENT = "is not there"
    PRESENT = "tells nothing of previous_response_id"
    IGNORES = "ignores previous_response_id"
    REFUSES = "refuses previous_response_id"
    HONOURS = "knows previous_response_id"


@dataclass(frozen=True, slots=True)
class BackendFacts:
    """What the requests so far have shown.

    host       the host name of the base URL
    server     the `server` header
    owners     the owners of the models in `/models`
    models     the ids of the models in `/models`
    responses  what `/responses` does; None if it was not asked
    ids        the ids in an answer of `/responses`, with blanks between
    chat       what `/chat/completions` does; None if it was not asked
    headers    the names of the headers of all answers
    """

    host: str
    server: str = ""
    owners: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    responses: EndpointStatus | None = None
    ids: str = ""
    chat: EndpointStatus | None = None
    headers: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class DetectedDialect:
    """A dialect's name, and the reason for it in words for the log."""

    name: str
    reason: str


def match_dialect(facts: BackendFacts, dialects: Iterable[Dialect]) -> DetectedDialect | None:
    """Return the dialect that the facts show; None if more facts are needed or nothing matches."""
    candidates = tuple(dialects)
    hosted = next((one for one in candidates if _has_host(one, facts.host)), None)
    if hosted is not None:
        return DetectedDialect(hosted.name, f"its host is {facts.host}")
    if facts.responses is None:
        return None
    marked = named_dialect(facts, candidates)
    if facts.responses is not EndpointStatus.ABSENT:
        reason = f"it has /responses, which {facts.responses.value}"
        known = marked or _by_ids(facts, candidates) or _traced(facts, candidates, "/responses")
        return known or DetectedDialect(UNKNOWN, reason)
    if facts.chat in (None, EndpointStatus.ABSENT):
        return None
    if (traced := _traced(facts, candidates, "/chat/completions")) is not None:
        return traced
    prefix = f"{marked.reason}, but " if marked is not None else ""
    return DetectedDialect(CHAT, f"{prefix}it has no /responses, only /chat/completions")


def named_dialect(facts: BackendFacts, dialects: Iterable[Dialect]) -> DetectedDialect | None:
    """Return the dialect that the backend names itself; None if it names none, or several."""
    server = re.split(r"[/\s]", facts.server.strip().lower(), maxsplit=1)[0]
    owners = {owner.lower() for owner in facts.owners}
    owned_dialects = []
    for dialect in dialects:
        if server and server in dialect.marks:
            return DetectedDialect(dialect.name, f"its server header is {facts.server.strip()}")
        if owned := owners.intersection(dialect.marks):
            owned_dialects.append(
                DetectedDialect(dialect.name, f"its models are owned by {min(owned)}")
            )
    return owned_dialects[0] if len(owned_dialects) == 1 else None


def ids_in_answer(body: bytes) -> str:
    """Return the ids in an answer, with blanks between: the response's, then those of its items."""
    value = _object(body)
    output = value.get("output")
    items = [one for one in output if isinstance(one, dict)] if isinstance(output, list) else []
    ids = (one.get("id") for one in (value, *items))
    return " ".join(one for one in ids if isinstance(one, str))


def listed_models(body: bytes) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the models of a `/models` answer and their owners; empty for any other answer."""
    models = model_entries(body) or []
    names, owners = (
        tuple(dict.fromkeys(value for one in models if isinstance(value := one.get(key), str)))
        for key in ("id", "owned_by")
    )
    return names, owners


def endpoint_status(status: int, headers: Mapping[str, str], body: bytes) -> EndpointStatus:
    """Return what the answer to a request shows about its endpoint.

    Args:
        status: The HTTP status.
        headers: The headers, with lower-case names.
        body: The body.

    Raises:
        UpstreamFault: The answer says nothing about the endpoint.
    """
    fault = answer_fault(status, headers, body)
    if status in _INCONCLUSIVE or 300 <= status < 400:
        raise fault
    if status < 300:
        streams = headers.get("content-type", "").startswith("text/event-stream")
        value = _object(body)
        # LM Studio answers 200 for endpoints that it does not have, with an `error`.
        exists = streams or (value and not value.get("error"))
        return EndpointStatus.IGNORES if exists else EndpointStatus.ABSENT
    words = _PATH.sub(" ", " ".join(filter(None, (fault.message, fault.code, fault.param))))
    page = "html" in headers.get("content-type", "").lower()
    if status in _NOT_THERE and (page or not _SUBJECT.search(words)):
        return EndpointStatus.ABSENT
    if "response" not in words.lower():
        return EndpointStatus.PRESENT
    return (
        EndpointStatus.HONOURS if status == 404 or _GONE.search(words) else EndpointStatus.REFUSES
    )


def host_of(url: str) -> str:
    """Return the host name of a base URL, or an empty string."""
    return urlsplit(url).hostname or ""


def _by_ids(facts: BackendFacts, dialects: Iterable[Dialect]) -> DetectedDialect | None:
    for dialect in dialects:
        if dialect.ids is not None and re.fullmatch(dialect.ids, facts.ids):
            shown = facts.ids.partition(" ")[0]
            return DetectedDialect(dialect.name, f"it makes ids such as {shown}")
    return None


def _traced(facts: BackendFacts, dialects: Iterable[Dialect], path: str) -> DetectedDialect | None:
    """Return the dialect whose service has left its header, among those that speak at `path`.

    What several services have left says nothing: a router of several has answered.
    """
    found = [
        DetectedDialect(dialect.name, f"its answers have the header {name}")
        for dialect in dialects
        for name in dialect.traces
        if name in facts.headers and dialect.path == path
    ]
    return found[0] if len(found) == 1 else None


def _has_host(dialect: Dialect, host: str) -> bool:
    return any(
        host.endswith(name) if name.startswith(".") else host == name for name in dialect.hosts
    )


def _object(body: bytes) -> dict[str, Any]:
    try:
        value = decode_lenient(body)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}
