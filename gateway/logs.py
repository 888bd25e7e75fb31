"""Log lines on stderr: text, or one JSON object a line. No line ever contains a key."""

from __future__ import annotations

import json
import logging
import re
import sys
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

#: Our logger; modules log to it or to its children.
NAME: Final = "multilane"
SECRET: Final = re.compile(r"(?i)(bearer\s+|openai-insecure-api-key\.)[^\s,'\"\\]+")
#: A client's text must not forge a log line.
CONTROL: Final = {code: repr(chr(code))[1:-1] for code in (*range(9), *range(10, 32), 127, 0x85)}
OWN_FIELDS: Final = frozenset(
    {*logging.makeLogRecord({}).__dict__, "message", "asctime", "taskName", "color_message"}
)


class TextFormatter(logging.Formatter):
    """Formats `2026-01-31 12:00:00,000 INFO multilane: what happened`, then any traceback."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")

    def formatMessage(self, record: logging.LogRecord) -> str:
        """Return the message on one line."""
        return super().formatMessage(record).translate(CONTROL)

    def format(self, record: logging.LogRecord) -> str:
        """Return a record without secrets."""
        return hide(super().format(record))


class JsonFormatter(logging.Formatter):
    """Formats one JSON object a line, with the record's `extra` fields among its own."""

    def format(self, record: logging.LogRecord) -> str:
        """Return a record without secrets."""
        fields = {key: value for key, value in record.__dict__.items() if key not in OWN_FIELDS}
        fields |= {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            fields["traceback"] = self.formatException(record.exc_info)
        return hide(json.dumps(fields, default=str))


class ThrottledWarnings:
    """Writes at most one warning of a kind in `every` seconds, and counts the others.

    Args:
        log: The logger to write to.
        every: Seconds between two warnings of a kind.
        clock: Returns the time in seconds.
    """

    def __init__(
        self,
        log: logging.Logger,
        every: float = 10.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._log = log
        self._every = every
        self._clock = clock
        self._last: dict[
            str, tuple[float, int]
        ] = {}  # kind -> time of the last one, number left out since

    def warning(self, kind: str, message: str) -> None:
        """Write a warning, or count it. Keep the kinds few: each is remembered."""
        now = self._clock()
        last, left_out = self._last.get(kind, (-self._every, 0))
        if now - last < self._every:
            self._last[kind] = (last, left_out + 1)
            return
        self._last[kind] = (now, 0)
        more = f"; {left_out} more like it were left out before" if left_out else ""
        self._log.warning("%s%s", message, more)


def hide(text: str) -> str:
    """Return a text with its credentials replaced by `***`."""
    return SECRET.sub(r"\1***", text)


def configure(level: str, format: str) -> None:
    """Log our lines from `level` on and warnings of libraries, all to stderr in `format`."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if format == "json" else TextFormatter())
    root = logging.getLogger()
    for old in [
        old for old in root.handlers if isinstance(old.formatter, TextFormatter | JsonFormatter)
    ]:
        root.removeHandler(old)
    root.addHandler(handler)
    root.setLevel(logging.WARNING)
    logging.getLogger(NAME).setLevel(level.upper())
    # Never at debug: it would log every header and frame, keys included.
    logging.getLogger("uvicorn.error").setLevel("INFO" if level == "debug" else "WARNING")
    access = logging.getLogger("uvicorn.access")
    access.handlers, access.propagate = [logging.NullHandler()], False
