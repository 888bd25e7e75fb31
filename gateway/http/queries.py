"""Pure: what a query says -> a number or a flag, or the error to answer with (protocol.md 7)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lanes.errors import ClientFault

if TYPE_CHECKING:
    from starlette.requests import Request

_FLAGS: Final = {"true": True, "1": True, "false": False, "0": False}
_MAX_DIGITS: Final = 15


def flag(request: Request, name: str) -> bool:
    """Return a parameter that is true or false; false if it is not there."""
    value = request.query_params.get(name, "false").lower()
    if value not in _FLAGS:
        raise _wrong(name, "true or false")
    return _FLAGS[value]


def number(request: Request, name: str, default: int) -> int:
    """Return a parameter that is a whole number from 0 on.

    Args:
        request: The request.
        name: The parameter.
        default: What it is if it is not there.

    Raises:
        ClientFault: It is anything else.
    """
    value = request.query_params.get(name)
    if value is None:
        return default
    if not value.isascii() or not value.isdecimal() or len(value) > _MAX_DIGITS:
        raise _wrong(name, "a whole number from 0 on")
    return int(value)


def _wrong(name: str, wanted: str) -> ClientFault:
    message = f"'{name}' must be {wanted}."
    return ClientFault(message, code="invalid_value", param=name)
