"""One case of conformance, and how its bytes are made."""

from __future__ import annotations

from typing import NamedTuple

from tests.support.raw_client import CLOSE, Frame, frame

LIMIT = 200_000
#: Frames that no lane answers: each gets one `error` event.
ASK = b'{"type":"x"}'


class Case(NamedTuple):
    """`sent` is written `step` bytes at a time; `answers` come, then a close with `code`."""

    section: str
    name: str
    sent: bytes
    answers: tuple[Frame | str, ...] = ()
    code: int | None = None
    step: int = 0


def asked(size: int) -> bytes:
    """A message of this size that gets an `error` event."""
    return ASK[:-1] + b" " * (size - len(ASK)) + b"}"


def closing(code: int, reason: bytes = b"") -> bytes:
    return frame(code.to_bytes(2, "big") + reason, CLOSE)


def headed(first: int) -> bytes:
    """A frame whose first byte is this."""
    return bytes([first]) + frame(ASK)[1:]


ERROR = "error"
