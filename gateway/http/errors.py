"""Errors over HTTP: a status, the reference's JSON body, and the headers that say when to retry."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from starlette.responses import JSONResponse

from gateway.client.refusal import error

if TYPE_CHECKING:
    from lanes.errors import Fault

#: What a header's value may hold; a backend's error may say anything.
_PLAIN = re.compile(r"[\x20-\x7e]*")


def refusal(fault: Fault) -> JSONResponse:
    """Return the answer to a request that ended in `fault` before it had any other answer."""
    status = fault.status if 400 <= fault.status <= 599 else 500
    headers = {
        name: value
        for name, value in (fault.headers or {}).items()
        if _PLAIN.fullmatch(name) and _PLAIN.fullmatch(value)
    }
    body = error(fault.code, fault.message, status, fault.param, fault.type)
    return JSONResponse(body, status, headers)
