"""Log lines: text or JSON, one record a line, and no key in any of them."""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING

import pytest

from gateway import logs

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    names = (None, "multilane", "uvicorn.error", "uvicorn.access")
    before = [
        (logger, logger.level, logger.handlers[:], logger.propagate)
        for logger in map(logging.getLogger, names)
    ]
    yield
    for logger, level, handlers, propagate in before:
        logger.setLevel(level)
        logger.handlers, logger.propagate = handlers, propagate


def test_text_keeps_a_message_on_its_line(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure("info", "text")
    logging.getLogger("multilane.connection").info("lane %s", "a\nERROR forged\x1b[31m")
    [line] = capsys.readouterr().err.splitlines()
    assert line.endswith(r" INFO multilane.connection: lane a\nERROR forged\x1b[31m")


def test_json_is_one_object_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure("info", "json")
    try:
        raise ValueError("two\nlines \ud83d")
    except ValueError:
        logging.getLogger("multilane").exception("failed: %s", "\n", extra={"lane": "a", "n": 1})
    [line] = capsys.readouterr().err.splitlines()
    fields = json.loads(line)
    assert fields["message"] == "failed: \n"
    assert (fields["level"], fields["logger"]) == ("error", "multilane")
    assert (fields["lane"], fields["n"]) == ("a", 1)
    assert "ValueError: two\nlines" in fields["traceback"]
    assert set(fields) == {"time", "level", "logger", "message", "traceback", "lane", "n"}


def test_fields_are_shown_in_both_formats(capsys: pytest.CaptureFixture[str]) -> None:
    fields = {"lane": "two words", "n": 1.5, "address": "::1", "odd": 'a"=\n\x1b', "model": ""}
    for format in ("text", "json"):
        logs.configure("info", format)
        logging.getLogger("multilane").info("done", extra={logs.FIELDS: fields})
    text, json_line = capsys.readouterr().err.splitlines()
    shown = r'done lane="two words" n=1.5 address=::1 odd="a\"=\n\u001b" model=""'
    assert text.endswith(f" INFO multilane: {shown}")
    told = json.loads(json_line)
    assert told.pop("message") == "done"
    assert {name: told[name] for name in fields} == fields
    assert told.keys() - fields.keys() == {"time", "level", "logger"}


@pytest.mark.parametrize("format", ["text", "json"])
def test_no_key_gets_into_a_line(format: str, capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure("debug", format)
    ours = logging.getLogger("multilane")
    ours.debug("headers %r", {"authorization": "Bearer sk-hush"})
    ours.debug("headers %r", [(b"sec-websocket-protocol", b"openai-insecure-api-key.sk-hush, x")])
    try:
        raise ValueError("AUTHORIZATION: bearer  sk-hush")
    except ValueError:
        ours.exception("failed", extra={"token": 'Bearer sk-hush"'})
    written = capsys.readouterr().err
    assert "hush" not in written
    assert written.count("***") >= 3


def test_levels(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure("info", "text")
    logs.configure("info", "text")  # twice is as good as once
    logging.getLogger("multilane").info("1")
    logging.getLogger("multilane").debug("no")
    logging.getLogger("uvicorn.error").warning("2")
    logging.getLogger("uvicorn.error").info("no")
    logging.getLogger("uvicorn.access").error("no")
    logging.getLogger("another").warning("3")
    logging.getLogger("another").info("no")
    lines = capsys.readouterr().err.splitlines()
    assert [line.rpartition(" ")[2] for line in lines] == ["1", "2", "3"]


def test_debug_never_opens_the_logger_that_writes_out_headers() -> None:
    logs.configure("debug", "text")
    assert logging.getLogger("multilane").isEnabledFor(logging.DEBUG)
    assert logging.getLogger("uvicorn.error").getEffectiveLevel() == logging.INFO


def test_warnings_of_a_kind_are_spared(capsys: pytest.CaptureFixture[str]) -> None:
    now = 0.0
    logs.configure("info", "text")
    sparing = logs.ThrottledWarnings(logging.getLogger("multilane"), 10, lambda: now)
    for now, kind in ((0.0, "a"), (1.0, "a"), (2.0, "b"), (9.9, "a"), (10.0, "a"), (21.0, "a")):
        sparing.warning(kind, f"{kind} at {now:g}")
    lines = [line.partition("multilane: ")[2] for line in capsys.readouterr().err.splitlines()]
    assert lines == ["a at 0", "b at 2", "a at 10; 2 more like it were left out before", "a at 21"]
