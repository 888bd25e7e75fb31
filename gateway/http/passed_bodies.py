"""SHELL: the body of a request that is passed on, read as far as its model has to be known."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import msgspec

from gateway.client.large_frames import LARGE
from gateway.cpu_thread import run_in_cpu_thread
from gateway.http.bodies import read_body
from gateway.http.multipart import FormField, boundary_of
from lanes.codec import encode
from lanes.errors import ClientFault

if TYPE_CHECKING:
    from starlette.requests import Request

#: A body up to here is read before it is sent, so that it can be sent again.
_HELD: Final = 64 * 1024
_fields = msgspec.json.Decoder(dict[str, msgspec.Raw])
_MODEL: Final = "model"


@dataclass(frozen=True, slots=True)
class PassedBody:
    """A body, or its beginning.

    Attributes:
        data: The bytes that were read.
        whole: Whether that is all.
        length: Bytes of the whole body; None if they are not known.
        model: What it asks for, if that had to be known and it says so.
        span: Where a form says that.
        unpacked: Whether the client had packed it.
    """

    data: bytes
    whole: bool
    length: int | None
    model: str | None = None
    span: tuple[int, int] | None = None
    unpacked: bool = False

    def named(self, model: str) -> PassedBody:
        """Return the body with another name of its model."""
        if self.span is None:
            fields = _fields.decode(self.data)
            data = encode(fields | {_MODEL: model})
        else:
            start, end = self.span
            data = self.data[:start] + model.encode() + self.data[end:]
        longer = len(data) - len(self.data)
        length = None if self.length is None else self.length + longer
        return PassedBody(data, self.whole, length, model, None, self.unpacked)


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
    find = _named_model
    model = find(body) if len(body) < LARGE else await run_in_cpu_thread(find, body)
    return PassedBody(body, whole=True, length=len(body), model=model, unpacked=True)


async def _form(arriving: _Arriving, most: int, field: FormField) -> PassedBody:
    while True:
        field.feed(arriving.data)
        if field.span is not None or field.over or arriving.whole:
            break
        if len(arriving.data) > most:
            message = f"The form does not name its model in its first {most} bytes: put it first."
            raise ClientFault(message, code="request_too_large", status=413, param=_MODEL)
        await arriving.more()
    if field.span is None:
        return arriving.so_far()
    model = arriving.data[slice(*field.span)].decode(errors="replace")
    return arriving.so_far(model, field.span)


def _named_model(body: bytes) -> str | None:
    """Return the model that a JSON object names. Raises ClientFault."""
    if not body.strip():
        return None
    try:
        given = _fields.decode(body).get(_MODEL)
        model = None if given is None else msgspec.json.decode(given)
    except (ValueError, RecursionError):
        message = "The body is not a JSON object."
        raise ClientFault(message, code="invalid_json") from None
    if not isinstance(model, str | None):
        message = "'model' must be a string."
        raise ClientFault(message, code="invalid_type", param=_MODEL)
    return model


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
        return PassedBody(bytes(self.data), self.whole, length, model, span)
