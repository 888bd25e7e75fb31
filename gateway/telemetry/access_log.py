"""A log line for each connection's opening and end, each response's end and refused upgrades.

docs/operations.md lists the fields. They hold names, numbers and ids: no content and no key.
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Any, Final

from gateway.logs import FIELDS, Throttle
from lanes.errors import UpstreamFault
from lanes.stream.backend_errors import response_error

if TYPE_CHECKING:
    from lanes.attempt import Attempt
    from lanes.errors import Fault
    from lanes.frames import Create

log = logging.getLogger("multilane.access")

#: Characters of a client's or a backend's name in a line.
MAX_NAME: Final = 80
_LEVELS: Final = {"info": logging.INFO, "debug": logging.DEBUG}


class AccessLog:
    """Writes the lines of a process at one level, or none if that is `off`."""

    def __init__(self, level: str) -> None:
        self._level = _LEVELS.get(level)
        self._refusals = Throttle(10.0)

    @property
    def enabled(self) -> bool:
        """Whether lines are written."""
        return self._level is not None and log.isEnabledFor(self._level)

    def write(self, event: str, **fields: object) -> None:
        """Write a line, without the fields that are None."""
        if self._level is not None and self.enabled:
            told = {name: value for name, value in fields.items() if value is not None}
            log.log(self._level, "%s", event, extra={FIELDS: told})

    def refused(self, address: str | None, status: int, code: str) -> None:
        """Write that a client was not let in, once in ten seconds for each reason.

        Args:
            address: The client's address, the one that a trusted proxy names if there is one.
            status: HTTP status of the answer.
            code: Error code of the answer.
        """
        if not self.enabled:
            return
        left_out = self._refusals.due(code)
        if left_out is not None:
            more = left_out or None
            self.write("refused", address=address, status=status, code=code, left_out=more)


class ResponseLog:
    """Writes the end of each response that one connection or request asks for.

    Args:
        access: Where the lines go.
        key: The name of the client's key.
        connection: The number of the WebSocket; None over HTTP.
    """

    def __init__(self, access: AccessLog, key: str, connection: int | None = None) -> None:
        self._access = access
        self._key = key
        self._connection = connection
        #: How many responses have ended, refused ones included.
        self.ended = 0
        #: The lanes that these were on.
        self.lanes: set[str | None] = set()

    def end(self, attempt: Attempt) -> None:
        """Write the end of a response."""
        self._count(attempt.create)
        if not self._access.enabled:
            return
        run = attempt.run
        usage = run.snapshots.usage or {}
        # In the background it comes before the backend is asked, and says nothing.
        waits = not attempt.create.body.get("background")
        self._write(
            attempt.create,
            id=run.id,
            upstream=run.profile.upstream or None,
            status=str(run.state),
            code=run.snapshots.why if run.fault is None else _code(run.fault),
            ms=_ms(time.monotonic() - attempt.since),
            first_event_ms=_ms(attempt.begun - attempt.since) if attempt.begun and waits else None,
            input_tokens=usage.get("input_tokens"),
            output_tokens=usage.get("output_tokens"),
            steers=len(attempt.bound) or None,
        )

    def refuse(self, create: Create, fault: Fault) -> None:
        """Write that a create became no response."""
        self._count(create)
        if self._access.enabled:
            self._write(create, status="refused", code=_code(fault))

    def _count(self, create: Create) -> None:
        self.ended += 1
        self.lanes.add(create.stream_id)

    def _write(self, create: Create, *, code: str | None, **fields: Any) -> None:
        transport = "http" if self._connection is None else "socket"
        self._access.write(
            "response",
            connection=self._connection,
            transport="background" if create.body.get("background") else transport,
            key=self._key,
            lane=short(create.stream_id),
            previous=short(create.parent_id),
            model=short(create.body.get("model")),
            code=code,
            **fields,
        )


class ConnectionLog(ResponseLog):
    """Writes the opening and the end of a WebSocket, and the ends of its responses.

    Args:
        access: Where the lines go.
        key: The name of the client's key.
        connection: The number of the WebSocket.
    """

    def __init__(self, access: AccessLog, key: str, connection: int) -> None:
        super().__init__(access, key, connection)
        self._since = time.monotonic()
        self._place: dict[str, object] = {}

    def opened(self, address: str | None, named: str | None) -> None:
        """Write where the client is; `named` is the address that a trusted proxy names, if any."""
        forwarded = None if named == address else named
        self._place = {
            "connection": self._connection,
            "address": address,
            "forwarded": forwarded,
            "key": self._key,
        }
        self._access.write("connection opened", **self._place)

    def closed(self, code: int, why: str) -> None:
        """Write what there was and why it ended; `code` is the close code."""
        self._access.write(
            "connection closed",
            **self._place,
            lanes=len(self.lanes),
            responses=self.ended,
            seconds=round(time.monotonic() - self._since, 3),
            code=code,
            reason=why,
        )


def short(name: object) -> str | None:
    """Return a name that others chose, cut to what a line has room for."""
    return name[:MAX_NAME] if isinstance(name, str) else None


def _code(fault: Fault) -> str | None:
    """Return the code of a fault; in place of a backend's own word, one of the reference's."""
    return response_error(fault)["code"] if isinstance(fault, UpstreamFault) else fault.code


def _ms(seconds: float) -> float:
    return round(seconds * 1000, 1)
