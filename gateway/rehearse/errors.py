"""A refused request, in OpenAI's error shape."""

from __future__ import annotations

from typing import Any

INVALID = "invalid_request_error"


class Refused(Exception):
    """Answered with `status` and an error body instead of a response."""

    def __init__(
        self,
        message: str,
        *,
        param: str | None = None,
        code: str | None = None,
        status: int = 400,
        kind: str = INVALID,
        headers: dict[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.headers = headers or {}
        self.body: dict[str, Any] = {
            "error": {"message": message, "type": kind, "param": param, "code": code}
        }
