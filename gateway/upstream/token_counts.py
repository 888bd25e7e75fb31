"""How many tokens a request has, as its backend itself counts them (protocol.md 7)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from gateway.upstream.dialect import find
from gateway.upstream.large_request import cut_items
from gateway.upstream.transport.faults import answer_fault, backend_fault
from lanes.codec import decode, decode_lenient, encode
from lanes.cpu_thread import run_in_cpu_thread
from lanes.errors import ClientFault
from lanes.long_strings import LongStrings

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gateway.upstream.dialect import Dialect
    from gateway.upstream.transport.http.client import FetchedAnswer, HttpClient

#: Seconds for each answer.
_TIMEOUT: Final = 30.0


@dataclass(frozen=True, slots=True)
class CountedRequest:
    """A request whose tokens are to be counted.

    Attributes:
        body: The client's request.
        items: The whole effective input, each item as JSON.
        headers: The client's, as far as the backend may see them.
    """

    body: Mapping[str, Any]
    items: Sequence[bytes]
    headers: Mapping[str, str]


async def count_tokens(dialect: Dialect, client: HttpClient, asked: CountedRequest) -> int:
    """Return how many tokens a request has, as its backend counts them.

    Args:
        dialect: The backend's.
        client: Asks it.
        asked: The request.

    Raises:
        UpstreamFault: The backend refused, or did not answer.
        ClientFault: It does not count (501), or the dialect has no words for the request.
    """
    counter = dialect.counter
    if counter is None:
        raise _not_counted()
    form = find("chat") if counter.chat else dialect
    lines = {**asked.headers, "accept": "application/json"}
    strings = LongStrings()

    def request() -> dict[str, Any]:
        fields: dict[str, Any] = decode(form.request(asked.body, cut_items(asked.items, strings)))
        return fields

    async def ask(path: str, fields: Mapping[str, Any], *, beside: bool = False) -> dict[str, Any]:
        body = await run_in_cpu_thread(lambda: strings.restore(encode(fields)))
        return _read(await client.fetch("POST", path, lines, body, timeout=_TIMEOUT, beside=beside))

    count = await counter.ask(await run_in_cpu_thread(request), ask)
    if type(count) is not int or count < 0:
        raise backend_fault("The backend did not say how many tokens the input has.")
    return count


def _read(answer: FetchedAnswer) -> dict[str, Any]:
    """Return the object in an answer."""
    if answer.status in (404, 405, 501):
        raise _not_counted()
    if not 200 <= answer.status < 300:
        raise answer_fault(answer.status, answer.headers, answer.body)
    try:
        value = decode_lenient(answer.body)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise backend_fault("The backend's count of tokens is no JSON object.")
    return value


def _not_counted() -> ClientFault:
    message = "The backend of this model does not count the tokens of an input."
    return ClientFault(message, code="input_tokens_not_supported", status=501)
