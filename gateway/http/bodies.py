"""Reads the body of a request, bounded, and what it says."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lanes.errors import ClientFault

if TYPE_CHECKING:
    from starlette.requests import Request


async def read_body(request: Request, most: int) -> bytes:
    """Return the whole body of a request.

    Raises:
        ClientFault: It has more than `most` bytes, or is not JSON by its content type.
    """
    kind = request.headers.get("content-type", "application/json").partition(";")[0]
    if kind.strip().lower() != "application/json":
        message = f"The content type must be application/json, not {kind[:80]!r}."
        raise ClientFault(message, code="unsupported_media_type", status=415)
    declared = request.headers.get("content-length", "")
    if declared.isdecimal() and int(declared) > most:
        raise _too_large(most)
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > most:
            raise _too_large(most)
    return bytes(body)


def _too_large(most: int) -> ClientFault:
    message = f"The body has more than {most} bytes, the most that is allowed here."
    return ClientFault(message, code="request_too_large", status=413)
