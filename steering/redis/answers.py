"""What an engine may answer, checked: anything else raises SenselessAnswer.

A broken engine, a proxy in between or another program behind the port may answer anything; that is
trouble of the store, and no fault of the code that asked.
"""

from __future__ import annotations

from typing import Any

from steering.errors import SenselessAnswer


def optional_bytes(answer: Any) -> bytes | None:
    """Return a string or nothing."""
    if answer is not None and not isinstance(answer, bytes):
        raise SenselessAnswer
    return answer


def word(answer: Any, *allowed: bytes) -> bytes:
    """Return a string that is one of those allowed."""
    if not isinstance(answer, bytes) or answer not in allowed:
        raise SenselessAnswer
    return answer


def integers(answer: Any, count: int) -> list[int]:
    """Return a list of `count` integers."""
    items = many(answer, count)
    if not all(isinstance(item, int) for item in items):
        raise SenselessAnswer
    return items


def strings(answer: Any) -> list[bytes]:
    """Return a list of strings."""
    if not isinstance(answer, list) or not all(isinstance(item, bytes) for item in answer):
        raise SenselessAnswer
    return answer


def optional_strings(answer: Any, count: int) -> list[bytes | None]:
    """Return a list of `count` strings, each of which may be missing."""
    return [optional_bytes(item) for item in many(answer, count)]


def many(answer: Any, count: int) -> list[Any]:
    """Return a list of `count` answers."""
    if not isinstance(answer, list) or len(answer) != count:
        raise SenselessAnswer
    return answer


def names(answer: Any) -> list[str]:
    """Return a list of strings as text."""
    try:
        return [item.decode() for item in strings(answer)]
    except UnicodeDecodeError as error:
        raise SenselessAnswer from error


def members(answer: Any) -> list[str]:
    """Return a set of strings as text, in one order."""
    if not isinstance(answer, set | list):
        raise SenselessAnswer
    return sorted(names(list(answer)))
