"""Pure: what a query says -> a number or a flag, or the error to answer with (protocol.md 7)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeVar

from lanes.errors import ClientFault

if TYPE_CHECKING:
    from starlette.datastructures import QueryParams
    from starlette.requests import Request

_Default = TypeVar("_Default", str, None)

_FLAGS: Final = {"true": True, "1": True, "false": False, "0": False}
_MAX_DIGITS: Final = 15


def one(query: QueryParams, name: str, default: _Default) -> str | _Default:
    """Return a parameter.

    Args:
        query: The query.
        name: The parameter.
        default: What it is if it is not there.

    Raises:
        ClientFault: It is there twice.
    """
    values = query.getlist(name)
    if len(values) > 1:
        message = f"'{name}' must be given once."
        raise ClientFault(message, code="invalid_value", param=name)
    return values[0] if values else default


def flag(request: Request, name: str) -> bool:
    """Return a parameter that is true or false; false if it is not there."""
    value = one(request.query_params, name, "false").lower()
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
    value = one(request.query_params, name, None)
    if value is None:
        return default
    if not value.isascii() or not value.isdecimal() or len(value) > _MAX_DIGITS:
        raise _wrong(name, "a whole number from 0 on")
    return int(value)


def _wrong(name: str, wanted: str) -> ClientFault:
    message = f"'{name}' must be {wanted}."
    return ClientFault(message, code="invalid_value", param=name)
