"""Log lines on stderr: text, or one JSON object a line. No line ever contains a key."""

from __future__ import annotations

import json
import logging
import re
import sys
import time
from datetime import UTC, datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

#: Our logger; modules log to it or to its children.
NAME: Final = "multilane"
SECRET: Final = re.compile(r"(?i)(bearer\s+|openai-insecure-api-key\.)[^\s,'\"\\]+")
#: What is in every text that this finds something in.
SIGNS: Final = ("bearer", "openai-insecure-api-key.")
#: A value that needs no quotes.
PLAIN: Final = re.compile(r"[\w.:/@+*-]+", re.ASCII)
#: A client's text must not forge a log line.
CONTROL: Final = {code: repr(chr(code))[1:-1] for code in (*range(9), *range(10, 32), 127, 0x85)}
#: The `extra` of a record whose fields are shown in both formats.
FIELDS: Final = "fields"
OWN_FIELDS: Final = frozenset(
    {*logging.makeLogRecord({}).__dict__, "message", "asctime", "taskName", "color_message", FIELDS}
)


class TextFormatter(logging.Formatter):
    """Formats `2026-01-31 12:00:00,000 INFO multilane: what happened`, then any traceback."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")
        self._second = (-1, "")

    def formatMessage(self, record: logging.LogRecord) -> str:
        """Return the message on one line, and its fields as `name=value`."""
        fields = getattr(record, FIELDS, {})
        line = " ".join([super().formatMessage(record), *map(_pair, fields.items())])
        return line if line.isprintable() else line.translate(CONTROL)

    def formatTime(self, record: logging.LogRecord, datefmt: str | None = None) -> str:
        """Return when it was, to the millisecond; each second is made once."""
        second, text = self._second
        if second != int(record.created):
            text = super().formatTime(record, datefmt).partition(",")[0]
            self._second = int(record.created), text
        return f"{text},{int(record.msecs):03d}"

    def format(self, record: logging.LogRecord) -> str:
        """Return a record without secrets."""
        return hide(super().format(record))


class JsonFormatter(logging.Formatter):
    """Formats one JSON object a line, with the record's `extra` fields among its own."""

    def format(self, record: logging.LogRecord) -> str:
        """Return a record without secrets."""
        fields = {key: value for key, value in record.__dict__.items() if key not in OWN_FIELDS}
        fields |= getattr(record, FIELDS, {})
        fields |= {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            fields["traceback"] = self.formatException(record.exc_info)
        return hide(json.dumps(fields, default=str))


class Throttle:
    """Allows one line of a kind in `every` seconds, and counts the others by `clock`."""

    def __init__(self, every: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._every = every
        self._clock = clock
        # Kind -> time of the last line, and how many were left out since.
        self._last: dict[str, tuple[float, int]] = {}

    def due(self, kind: str) -> int | None:
        """Return how many were left out before this line; None if it is to be left out as well.

        Keep the kinds few: each is remembered.
        """
        now = self._clock()
        last, left_out = self._last.get(kind, (-self._every, 0))
        if now - last < self._every:
            self._last[kind] = (last, left_out + 1)
            return None
        self._last[kind] = (now, 0)
        return left_out


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
        self._throttle = Throttle(every, clock)

    def warning(self, kind: str, message: str) -> bool:
        """Write a warning or count it; return whether it was written."""
        left_out = self._throttle.due(kind)
        if left_out is None:
            return False
        more = f"; {left_out} more like it were left out before" if left_out else ""
        self._log.warning("%s%s", message, more)
        return True


class Outage:
    """Writes one line when something goes away and one when it is back, however often it is asked.

    Something that comes and goes begins one outage in `every` seconds.
    """

    def __init__(self, log: logging.Logger, every: float = 10.0) -> None:
        self._log = log
        self._warnings = ThrottledWarnings(log, every)
        self._lasts = False

    def begin(self, message: str) -> None:
        """Write a warning, unless the outage lasts already."""
        self._lasts = self._lasts or self._warnings.warning("", message)

    def end(self, message: str) -> None:
        """Write that it is back, if it was away."""
        if self._lasts:
            self._lasts = False
            self._log.info("%s", message)


def _pair(field: tuple[str, object]) -> str:
    """Return a field as it is in a line of text; a value that is no plain word is quoted."""
    name, value = field
    if type(value) is int or type(value) is float:
        return f"{name}={value}"
    return f"{name}={_word(str(value))}"


@lru_cache(maxsize=1024)
def _word(text: str) -> str:
    """Return a text as it is, or quoted. Most are those of the line before."""
    return text if PLAIN.fullmatch(text) else json.dumps(text)


def hide(text: str) -> str:
    """Return a text with its credentials replaced by `***`."""
    folded = text.casefold()
    if any(sign in folded for sign in SIGNS):  # the expression itself takes ten times as long
        return SECRET.sub(r"\1***", text)
    return text


def configure(level: str, format: str) -> None:
    """Log our lines from `level` on and warnings of libraries, all to stderr in `format`."""
    # No line says them, and each record would ask the system for them.
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
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
