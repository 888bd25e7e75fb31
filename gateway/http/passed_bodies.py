"""SHELL: the body of a request that is passed on, read as far as its model has to be known."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from gateway.client.frames import not_json
from gateway.client.large_frames import LARGE
from gateway.http.bodies import read_body
from gateway.http.json_field import last_field
from gateway.http.multipart import FormField, boundary_of
from lanes.codec import decode, encode
from lanes.cpu_thread import run_in_cpu_thread
from lanes.errors import ClientFault
from lanes.long_strings import joined

if TYPE_CHECKING:
    from starlette.requests import Request

#: A body up to here is read before it is sent, so that it can be sent again.
_HELD: Final = 64 * 1024
_MODEL: Final = "model"


@dataclass(frozen=True, slots=True)
class PassedBody:
    """A body, or its beginning.

    Attributes:
        data: The bytes that were read.
        whole: Whether that is all.
        length: Bytes of the whole body; None if they are not known.
        model: What it asks for, if that had to be known and it says so.
        span: Where it says that.
        json: Whether it is JSON, which the client may have packed.
    """

    data: bytes
    whole: bool
    length: int | None
    model: str | None = None
    span: tuple[int, int] | None = None
    json: bool = False

    def named(self, model: str) -> PassedBody:
        """Return the body with another name of its model."""
        assert self.span is not None
        view = memoryview(self.data)
        start, end = self.span
        written = encode(model) if self.json else model.encode()
        data = joined([view[:start], written, view[end:]])
        longer = len(data) - len(self.data)
        length = None if self.length is None else self.length + longer
        return replace(self, data=data, length=length, model=model, span=None)


async def read_beginning(request: Request, most: int, *, models_matter: bool) -> PassedBody:
    """Read a body as far as it must be known.

    Args:
        request: The request.
        most: Bytes in which a body has to name its model, if that matters; JSON is read whole.
        models_matter: Whether the model decides where the request goes.

    Raises:
        ClientFault: The body does not say where to, or cannot be unpacked.
    """
    kind = request.headers.get("content-type", "")
    boundary = boundary_of(kind)
    if models_matter and "json" in kind.partition(";")[0].lower():
        return await _json(request, most)
    arriving = _Arriving(request)
    if models_matter and boundary is not None:
        return await _form(arriving, most, FormField(boundary, _MODEL))
    while not arriving.whole and len(arriving.data) <= _HELD:
        await arriving.more()
    return arriving.so_far()


async def _json(request: Request, most: int) -> PassedBody:
    body = await read_body(request, most)
    if len(body) < LARGE:
        return _named_in(body)
    return await run_in_cpu_thread(_named_in, body)


def _named_in(body: bytes) -> PassedBody:
    """Return a JSON body with what it says of its model. Raises ClientFault."""
    span = last_field(body, _MODEL)
    try:
        model = None if span is None else decode(body[slice(*span)])
    except ValueError as error:
        raise not_json(error, "body") from None
    named = None if model is None else span
    return PassedBody(body, whole=True, length=len(body), model=model, span=named, json=True)


async def _form(arriving: _Arriving, most: int, field: FormField) -> PassedBody:
    while True:
        field.feed(arriving.data)
        if field.span is not None or field.over or arriving.whole:
            break
        if len(arriving.data) > most:
            message = f"The form does not name its model in its first {most} bytes: put it first."
            raise ClientFault(message, code="request_too_large", status=413, param=_MODEL)
        await arriving.more()
    span, model = field.span, None
    if span is not None:
        model = arriving.data[slice(*span)].decode(errors="replace")
    if len(arriving.data) < LARGE:
        return arriving.so_far(model, span)
    return await run_in_cpu_thread(arriving.so_far, model, span)


class _Arriving:
    """A body as far as it has come."""

    def __init__(self, request: Request) -> None:
        self.data = bytearray()
        self.whole = False
        self._request = request
        declared = request.headers.get("content-length")
        chunked = "transfer-encoding" in request.headers
        self._length = None if chunked else int(declared or 0)

    async def more(self) -> None:
        """Wait for more of it. Raises ClientFault if the client has left."""
        message = await self._request.receive()
        if message["type"] == "http.disconnect":
            raise ClientFault("The body ends too early.", code="invalid_request_error")
        self.data += message.get("body", b"")
        self.whole = not message.get("more_body", False)

    def so_far(self, model: str | None = None, span: tuple[int, int] | None = None) -> PassedBody:
        """Return what has come."""
        length = len(self.data) if self.whole else self._length
        return PassedBody(joined([memoryview(self.data)]), self.whole, length, model, span)
