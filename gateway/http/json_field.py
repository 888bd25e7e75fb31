"""Pure: finds one field of a JSON object without decoding the rest of it (D33, D36)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from gateway.client.frames import client_fault
from lanes.long_strings import string_end

if TYPE_CHECKING:
    from lanes.errors import ClientFault

#: Strings that are looked at; each takes a step of the interpreter.
_MAX_STRINGS: Final = 1_000_000
#: Bytes that are counted in one step.
_STEP: Final = 1024 * 1024
_COLON: Final = re.compile(rb"[ \t\r\n]*:[ \t\r\n]*")


def last_field(data: bytes, name: str) -> tuple[int, int] | None:
    """Return where the value of an object's field begins and ends, if it is a string or null.

    Of several it is the last, which decoders keep. What is no JSON has a field or has none: whoever
    decodes it will say so.

    Args:
        data: The JSON.
        name: The field's name, as it is written in nearly all JSON, without escapes.

    Raises:
        ClientFault: The value is of another type, or there are too many strings to look at.
    """
    quoted = f'"{name}"'.encode()
    span: tuple[int, int] | None = None
    at = depth = 0
    for _ in range(_MAX_STRINGS):
        start = data.find(b'"', at)
        if start < 0:
            return span
        depth += _opened(data, at, start)
        end = string_end(data, start + 1) + 1
        if end <= 0:
            return span
        at = end
        if depth == 1 and end - start == len(quoted) and data.startswith(quoted, start):
            colon = _COLON.match(data, end)
            if colon is not None:
                at = _value_end(data, colon.end(), name)
                span = colon.end(), at
    raise client_fault(f"The body has more than {_MAX_STRINGS} strings.", "too_many_values")


def _opened(data: bytes, start: int, end: int) -> int:
    """Return how many arrays and objects are opened between two strings, less those closed."""
    depth = 0
    for at in range(start, end, _STEP):
        till = min(at + _STEP, end)
        depth += data.count(b"{", at, till) + data.count(b"[", at, till)
        depth -= data.count(b"}", at, till) + data.count(b"]", at, till)
    return depth


def _value_end(data: bytes, start: int, name: str) -> int:
    if data.startswith(b"null", start):
        return start + len(b"null")
    end = string_end(data, start + 1) + 1 if data.startswith(b'"', start) else 0
    if end <= 0:
        raise _wrong_type(name)
    return end


def _wrong_type(name: str) -> ClientFault:
    return client_fault(f"'{name}' must be a string.", "invalid_type", name)
