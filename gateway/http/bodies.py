"""Reads the JSON body of a request, plain, gzip or zstd, within a bound on what it unpacks to."""

from __future__ import annotations

from io import BytesIO
from time import perf_counter
from typing import TYPE_CHECKING, Any

from anyio.lowlevel import checkpoint
from starlette.requests import ClientDisconnect

from gateway.client.frames import parse
from gateway.client.large_frames import MAX_SETTINGS, is_large, parse_large
from gateway.client.turns import SHARE, TURNS
from gateway.unpacking import UNPACKERS, Unpacker
from lanes.cpu_thread import run_in_cpu_thread
from lanes.errors import ClientFault

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from starlette.requests import Request


async def read_object(
    request: Request, most: int, max_items: int, max_settings: int = MAX_SETTINGS
) -> tuple[dict[str, Any], bytes]:
    """Return the JSON object in a body, and its bytes as they are unpacked.

    Args:
        request: The request.
        most: Bytes that the body may have.
        max_items: Items that its input may have, if the body is large (D33).
        max_settings: Bytes that all but its input may have.

    Raises:
        ClientFault: It is not JSON (400, 415), is packed in a way that is unknown here (415), or
            has more than `most` bytes, packed or not (413). Of a body that is too large no more is
            read than shows it.
    """
    kind = request.headers.get("content-type", "application/json").partition(";")[0].strip()
    if kind.lower() != "application/json":
        message = f"The content type must be application/json, not '{kind[:80]}'."
        raise ClientFault(message, code="unsupported_media_type", status=415)
    body = await read_body(request, most)
    if not is_large(body):
        if TURNS.waiting or perf_counter() < TURNS.busy_until - SHARE:
            await TURNS.wait(len(body))
        start = perf_counter()
        try:
            return parse(body, "body"), body
        finally:
            TURNS.busy_until = max(TURNS.busy_until, start) + 2 * (perf_counter() - start)
    return await run_in_cpu_thread(parse_large, body, "body", max_items, max_settings), body


async def read_body(request: Request, most: int) -> bytes:
    """Return a body, unpacked. Raises ClientFault (see `read_object`)."""
    unpacker = _unpacker(request)
    declared = request.headers.get("content-length", "")
    if declared.isdecimal() and int(declared) > most:
        raise _too_large(most)
    chunks = _chunks(request, most)
    body = BytesIO()  # it grows without being copied, and nor does its value
    async for piece in chunks if unpacker is None else _unpacked(chunks, unpacker):
        body.write(piece)
        if body.tell() > most:
            raise _too_large(most)
    return body.getvalue()


def _unpacker(request: Request) -> Unpacker | None:
    encoding = request.headers.get("content-encoding", "identity").strip().lower()
    if encoding in ("", "identity"):
        return None
    if encoding not in UNPACKERS:
        message = f"The content encoding must be gzip or zstd, not '{encoding[:80]}'."
        headers = {"accept-encoding": "gzip, zstd"}
        raise ClientFault(message, code="unsupported_encoding", status=415, headers=headers)
    return UNPACKERS[encoding]()


async def _chunks(request: Request, most: int) -> AsyncIterator[bytes]:
    """Yield the body as it comes."""
    size = 0
    try:
        async for chunk in request.stream():
            size += len(chunk)
            if size > most:
                raise _too_large(most)
            yield chunk
    except ClientDisconnect:
        # Nobody reads the answer.
        raise ClientFault("The body ends too early.", code="invalid_request_error") from None


async def _unpacked(chunks: AsyncIterator[bytes], unpacker: Unpacker) -> AsyncIterator[bytes]:
    """Yield slices of what is packed in the chunks; others have their turn between two of them."""
    async for chunk in chunks:
        try:
            for piece in unpacker.feed(chunk):
                yield piece
                await checkpoint()
        except ValueError as error:
            raise _unreadable(str(error)) from None
    if not unpacker.whole:
        raise _unreadable("it ends too early")


def _too_large(most: int) -> ClientFault:
    message = f"The body has more than {most} bytes, the most that is allowed here."
    return ClientFault(message, code="request_too_large", status=413)


def _unreadable(why: str) -> ClientFault:
    message = f"The body cannot be unpacked: {why}."
    return ClientFault(message, code="invalid_encoding")
