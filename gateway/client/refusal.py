"""The refusal of a request: JSON for the routes, bytes where no route is reached."""

from __future__ import annotations

import json
from email.utils import formatdate
from http import HTTPStatus
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


class UpgradeRefused(Exception):
    """The client may not connect; holds the fields of the HTTP response.

    Args:
        status: HTTP status.
        code: Error code in the body.
        message: Error message in the body.
        headers: Headers of the response.
    """

    def __init__(
        self, status: int, code: str, message: str, headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.headers = dict(headers or {})

    def response(self) -> bytes:
        """Return the whole HTTP response, after which the connection closes."""
        body = json.dumps(error(self.code, self.message, self.status)).encode()
        headers = {"Content-Type": "application/json", **self.headers}
        return http_response(self.status, headers, body)


def error(
    code: str | None,
    message: str,
    status: int,
    param: str | None = None,
    type: str | None = None,
) -> dict[str, object]:
    """Return the JSON body of an error over HTTP (protocol.md 6).

    Args:
        code: Error code, if there is one.
        message: What went wrong, and what is allowed.
        status: HTTP status, which decides the error's type unless `type` does.
        param: The parameter at fault.
        type: The error's own type.
    """
    kind = type or ("server_error" if status >= 500 else "invalid_request_error")
    return {"error": {"type": kind, "code": code, "message": message, "param": param}}


def http_response(status: int, headers: Mapping[str, str], body: bytes) -> bytes:
    """Return an HTTP response as bytes, the last one on its connection.

    Args:
        status: HTTP status.
        headers: Headers besides the date, the length and the connection's end.
        body: The body.
    """
    own = {
        "Date": formatdate(usegmt=True),
        "Content-Length": str(len(body)),
        "Connection": "close",
    }
    given = {name.lower() for name in headers}
    lines = [f"HTTP/1.1 {status} {HTTPStatus(status).phrase}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    lines += [f"{name}: {value}" for name, value in own.items() if name.lower() not in given]
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + body
