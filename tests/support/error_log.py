"""A block in which nothing may be logged as an error."""

from __future__ import annotations

import logging
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def expect_no_errors() -> Iterator[list[logging.LogRecord]]:
    """Yield the records of errors in this block; one that the test leaves there fails it."""
    errors: list[logging.LogRecord] = []
    watch = _Watch(errors)
    root = logging.getLogger()
    root.addHandler(watch)
    try:
        yield errors
    finally:
        root.removeHandler(watch)
    assert not errors, [record.getMessage() for record in errors]


class _Watch(logging.Handler):
    def __init__(self, records: list[logging.LogRecord]) -> None:
        super().__init__(logging.ERROR)
        self._records = records

    def emit(self, record: logging.LogRecord) -> None:
        self._records.append(record)
