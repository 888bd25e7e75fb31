"""The refusal of a request, and single checks that raise it, worded like the hosted API's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

_NAMES = {
    str: "a string",
    list: "an array",
    dict: "an object",
    bool: "a boolean",
    int: "an integer",
    float: "a decimal",
    type(None): "null",
}


class RequestRefused(Exception):
    """An error that is sent instead of a response, in OpenAI's shape.

    Args:
        message: The text for people.
        param: The parameter at fault.
        code: The error's code.
        status: The HTTP status.
        kind: The error's type.
        headers: HTTP headers to send with it.
    """

    def __init__(
        self,
        message: str,
        *,
        param: str | None = None,
        code: str | None = None,
        status: int = 400,
        kind: str = "invalid_request_error",
        headers: dict[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.headers = headers or {}
        self.body: dict[str, Any] = {
            "error": {"message": message, "type": kind, "param": param, "code": code}
        }


def missing(path: str) -> RequestRefused:
    """Return the refusal of a request that lacks a required parameter."""
    return RequestRefused(
        f"Missing required parameter: '{path}'.", param=path, code="missing_required_parameter"
    )


def check_type(path: str, value: object, types: tuple[type, ...]) -> None:
    """Check that a value has exactly one of these types: true is no integer.

    Args:
        path: The parameter's path, for the message.
        value: The value.
        types: The allowed types.

    Raises:
        RequestRefused: It has another type.
    """
    if type(value) in types:
        return
    wanted = " or ".join(_NAMES[kind] for kind in types)
    raise RequestRefused(
        f"Invalid type for '{path}': expected {wanted}, but got {_NAMES[type(value)]} instead.",
        param=path,
        code="invalid_type",
    )


def check_choice(
    path: str, where: Mapping[str, Any], choices: Collection[str], *, within: str = ""
) -> None:
    """Check that a parameter has one of a closed set of values; absent and null are fine.

    Args:
        path: The path through nested objects, as a.b.
        where: The object in which the path starts.
        choices: The allowed values.
        within: The path of `where`, for the message.

    Raises:
        RequestRefused: It has another value.
    """
    *outer, key = path.split(".")
    for name in outer:
        where = where.get(name) or {}
    value = where.get(key)
    if value is not None and (type(value) is not str or value not in choices):
        wrong(f"{within}{path}", value, choices)


def wrong(path: str, value: object, choices: Collection[str]) -> NoReturn:
    """Refuse a value that is not in its closed set.

    Args:
        path: The parameter's path, for the message.
        value: The value.
        choices: The allowed values.

    Raises:
        RequestRefused: Always.
    """
    raise RequestRefused(
        f"Invalid value: '{value}'. Supported values are: {', '.join(map(repr, choices))}.",
        param=path,
        code="invalid_value",
    )
