"""What one upstream turned out to refuse, and how it is asked again (D42)."""

from __future__ import annotations

import logging
from collections import OrderedDict
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import msgspec

from gateway.upstream.refused.reading import STATUSES, refusal_in
from gateway.upstream.refused.request import (
    DEMANDED,
    FILLED,
    INPUT,
    MESSAGES,
    ORDERS,
    OTHER_NAME,
    Refusal,
)
from lanes.codec import decode

if TYPE_CHECKING:
    from gateway.upstream.dialect import Dialect
    from lanes.errors import UpstreamFault
    from lanes.history.makers import Maker

log = logging.getLogger("multilane.upstream")

#: How many things one request may lose.
MAX_TRIES: Final = 8
#: Models of an upstream that are remembered, and refusals of one.
_MAX_MODELS, _MAX_REFUSALS = 256, 64
#: Values of a request that may be larger are not looked into: none of them can be left out.
_SMALL: Final = 4096
_fields = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


class RefusedKeys:
    """What one upstream refuses, for each model: another on the same server may accept it.

    Only what helped is remembered, so no client can make the gateway leave out what others send:
    an error may quote a client's words.

    Args:
        prefix: The beginning of each log line about the upstream.
        maker: The upstream; learns the key under which it demands reasoning.
    """

    def __init__(self, prefix: str, maker: Maker) -> None:
        self._prefix = prefix
        self._maker = maker
        #: By model, the least recently asked first; empty as long as nothing was refused.
        self.known: OrderedDict[str, frozenset[Refusal]] = OrderedDict()

    def respected(self, dialect: Dialect, model: object) -> Dialect:
        """Return the dialect that leaves out what is known of the model."""
        known = self.known.get(str(model))
        if known is None:
            return dialect
        self.known.move_to_end(str(model))
        return replace(dialect, refuses=dialect.refuses | known)

    def conceding(self, dialect: Dialect, fault: UpstreamFault, request: bytes) -> Dialect | None:
        """Return the dialect to ask again in, None if the fault is for the client.

        Args:
            dialect: The one that was asked in.
            fault: The backend's answer.
            request: The request that it refused.
        """
        refusal = refusal_in(fault, _small(request)) if fault.status in STATUSES else None
        if refusal is None:
            return None
        if refusal.value.startswith(DEMANDED):
            key = refusal.value.removeprefix(DEMANDED)
            self._maker.reasoning_key = self._maker.reasoning_key or key
            if refusal in dialect.refuses:  # an empty text was not enough
                filled = Refusal(MESSAGES, FILLED + key)
                return replace(dialect, refuses=dialect.refuses - {refusal} | {filled})
        if refusal in dialect.refuses or Refusal(refusal.key, _filled(refusal)) in dialect.refuses:
            return None
        return replace(dialect, refuses=dialect.refuses | {refusal})

    def remember(self, model: object, known: frozenset[Refusal]) -> None:
        """Keep what a model refuses, which helped."""
        before = self.known.pop(str(model), frozenset())
        for refusal in sorted(known - before):
            log.warning("%s%s", self._prefix, _line(refusal, str(model)))
        known |= before  # other requests may have found some meanwhile
        self.known[str(model)] = known if len(known) <= _MAX_REFUSALS else frozenset()
        while len(self.known) > _MAX_MODELS:
            self.known.popitem(last=False)


def _filled(refusal: Refusal) -> str:
    return FILLED + refusal.value.removeprefix(DEMANDED)


def _small(request: bytes) -> dict[str, Any]:
    """Return the fields of a request; of a large one no more than that it is there."""
    return {
        key: decode(bytes(raw)) if memoryview(raw).nbytes <= _SMALL else []
        for key, raw in _fields(request).items()
    }


def _line(refusal: Refusal, model: str) -> str:
    """Return what the log says of a refusal."""
    what, value = refusal
    if value.startswith(DEMANDED):
        key = value.removeprefix(FILLED).removeprefix(DEMANDED)
        return f"The backend demands messages with {key} for {model!r:.80}; sent from now on"
    if what == MESSAGES and value not in ORDERS:
        return f"The backend refuses messages with {value} for {model!r:.80}; left out from now on"
    if what in (INPUT, MESSAGES):
        return (
            f"The template of {model!r:.80} refuses an order ({value}); messages are put in another"
        )
    other = OTHER_NAME.get(what)
    done = f"sent as {other} or left out" if other else "left out"
    told = f"{what} {value}" if value.strip() else what
    return f"The backend refuses {told} for {model!r:.80}; {done} from now on"
