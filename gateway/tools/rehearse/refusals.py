"""How a request is refused, and the single checks that do; worded like the hosted API's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

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
    """Answered with `status` and an error body, in OpenAI's shape, instead of a response."""

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
    """A parameter that has to be there."""
    return RequestRefused(
        f"Missing required parameter: '{path}'.", param=path, code="missing_required_parameter"
    )


def check_type(path: str, value: object, types: tuple[type, ...]) -> None:
    """Exact types: true is no integer."""
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
    """`path` leads through objects, a.b; absent and null are fine. `within` goes before it."""
    *outer, key = path.split(".")
    for name in outer:
        where = where.get(name) or {}
    value = where.get(key)
    if value is not None and (type(value) is not str or value not in choices):
        wrong(f"{within}{path}", value, choices)


def wrong(path: str, value: object, choices: Collection[str]) -> None:
    """A value of a closed set that is none of it."""
    raise RequestRefused(
        f"Invalid value: '{value}'. Supported values are: {', '.join(map(repr, choices))}.",
        param=path,
        code="invalid_value",
    )
