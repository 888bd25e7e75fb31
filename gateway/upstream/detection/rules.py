"""What was found out about a backend -> the dialect it speaks, and why. Pure.

By its host; by what it calls itself; by the ids it makes; by whether it has `/responses` at all.
Each dialect says how it is known: `hosts`, `marks` and `ids` in `gateway.upstream.dialect`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from gateway.upstream.model_list import entries
from gateway.upstream.transport.faults import refusal
from lanes.codec import decode_lenient

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from gateway.upstream.dialect import Dialect

#: The dialect of a backend that nobody knows, and of one without `/responses`.
UNKNOWN = "generic"
CHAT = "chat"
#: No response of any backend has this id.
MADE_UP = "resp_00000000000000000000000000000000"

#: Answers of something in the way, of a backend that is not ready, or to a wrong key: they tell
#: nothing about what else there is.
_TELLING_NOTHING = frozenset({401, 403, 407, 408, 425, 429, 502, 503, 504})
_NOT_THERE = frozenset({404, 405, 410, 501})
#: A place, as backends repeat it when they have nothing there.
_PLACE = re.compile(r"/\S*")
_SUBJECT = re.compile(r"response|model|deployment", re.IGNORECASE)
_GONE = re.compile(r"not.?found|no such|does not exist|unknown|invalid.+\bid\b", re.IGNORECASE)


class EndpointStatus(Enum):
    """How a place takes a request; the value says it of `previous_response_id`."""

    ABSENT = "is not there"
    PRESENT = "tells nothing of previous_response_id"
    IGNORES = "ignores previous_response_id"
    REFUSES = "refuses previous_response_id"
    HONOURS = "knows previous_response_id"


@dataclass(frozen=True, slots=True)
class DetectionFacts:
    """All that was asked so far.

    `server` is the header, `owners` and `models` are of `/models`, `ids` those of an answer.
    """

    host: str
    server: str = ""
    owners: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    responses: EndpointStatus | None = None
    ids: str = ""
    chat: EndpointStatus | None = None


@dataclass(frozen=True, slots=True)
class DetectedDialect:
    """A dialect's name, and what it was recognised by."""

    name: str
    reason: str


def recognise(findings: DetectionFacts, dialects: Iterable[Dialect]) -> DetectedDialect | None:
    """The dialect these findings tell of; None while more has to be asked, or nothing is there."""
    known = tuple(dialects)
    hosted = next((one for one in known if _hosts(one, findings.host)), None)
    if hosted is not None:
        return DetectedDialect(hosted.name, f"its host is {findings.host}")
    if findings.responses is None:
        return None
    marked = mark(findings, known)
    if findings.responses is not EndpointStatus.ABSENT:
        reason = f"it has /responses, which {findings.responses.value}"
        return marked or _by_ids(findings, known) or DetectedDialect(UNKNOWN, reason)
    if findings.chat in (None, EndpointStatus.ABSENT):
        return None
    said = f"{marked.reason}, but " if marked is not None else ""
    return DetectedDialect(CHAT, f"{said}it has no /responses, only /chat/completions")


def mark(findings: DetectionFacts, dialects: Iterable[Dialect]) -> DetectedDialect | None:
    """What the backend calls itself; None if it says nothing, or several things at once."""
    server = re.split(r"[/\s]", findings.server.strip().lower(), maxsplit=1)[0]
    owners = {owner.lower() for owner in findings.owners}
    found = []
    for dialect in dialects:
        if server and server in dialect.marks:
            return DetectedDialect(dialect.name, f"its server header is {findings.server.strip()}")
        if owned := owners.intersection(dialect.marks):
            found.append(DetectedDialect(dialect.name, f"its models are owned by {min(owned)}"))
    return found[0] if len(found) == 1 else None


def made(body: bytes) -> str:
    """The ids in an answer, with blanks between: the response's and those of its items."""
    value = _object(body)
    output = value.get("output")
    items = [one for one in output if isinstance(one, dict)] if isinstance(output, list) else []
    ids = (one.get("id") for one in (value, *items))
    return " ".join(one for one in ids if isinstance(one, str))


def listed(body: bytes) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The models of a `/models` answer and their owners; nothing of anything else."""
    models = entries(body) or []
    names, owners = (
        tuple(dict.fromkeys(value for one in models if isinstance(value := one.get(key), str)))
        for key in ("id", "owned_by")
    )
    return names, owners


def reception(status: int, headers: Mapping[str, str], body: bytes) -> EndpointStatus:
    """How an answer to a request takes it. Raises UpstreamFault if it tells nothing."""
    fault = refusal(status, headers, body)
    if status in _TELLING_NOTHING or 300 <= status < 400:
        raise fault
    if status < 300:
        streams = headers.get("content-type", "").startswith("text/event-stream")
        value = _object(body)
        # LM Studio answers 200 where it has nothing, and says so in `error`.
        there = streams or (value and not value.get("error"))
        return EndpointStatus.IGNORES if there else EndpointStatus.ABSENT
    said = _PLACE.sub(" ", " ".join(filter(None, (fault.message, fault.code, fault.param))))
    page = "html" in headers.get("content-type", "").lower()
    if status in _NOT_THERE and (page or not _SUBJECT.search(said)):
        return EndpointStatus.ABSENT
    if "response" not in said.lower():
        return EndpointStatus.PRESENT
    return EndpointStatus.HONOURS if status == 404 or _GONE.search(said) else EndpointStatus.REFUSES


def host(url: str) -> str:
    """The host name in a base URL."""
    return urlsplit(url).hostname or ""


def _by_ids(findings: DetectionFacts, dialects: Iterable[Dialect]) -> DetectedDialect | None:
    for dialect in dialects:
        if dialect.ids is not None and re.fullmatch(dialect.ids, findings.ids):
            shown = findings.ids.partition(" ")[0]
            return DetectedDialect(dialect.name, f"it makes ids such as {shown}")
    return None


def _hosts(dialect: Dialect, host: str) -> bool:
    return any(
        host.endswith(name) if name.startswith(".") else host == name for name in dialect.hosts
    )


def _object(body: bytes) -> dict[str, Any]:
    try:
        value = decode_lenient(body)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}
