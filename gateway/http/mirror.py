"""SHELL: the events of a response that runs or ran in another process, as the store has them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import anyio

from gateway.http.event_log import events_of
from gateway.http.sse import sse_event
from lanes.events import Stamp
from lanes.stream.rebuilt import end_event
from steering.errors import StoreUnavailable

if TYPE_CHECKING:
    from gateway.http.event_log import EventLog
    from lanes.stores.background import BackgroundStore, ResponseName

#: Seconds between two looks for more.
_POLL: Final = 0.2
_ENDS: Final = tuple(
    b"event: response.%b\n" % end for end in (b"completed", b"incomplete", b"failed")
)


async def mirror(store: BackgroundStore, name: ResponseName, first: int, log: EventLog) -> None:
    """Put the events of a response into `log` as the store gets them, until the response is over.

    Events that are no longer kept are made again; an end that its process could not write is
    added.

    Args:
        store: Where they are.
        name: The response.
        first: The number of the first event wanted.
        log: Where they go.
    """
    number = first
    while True:
        try:
            # First how it is: what it says when it is over is behind all of its events.
            record = await store.get(name)
            kept = await store.events(name, number)
        except StoreUnavailable:
            await anyio.sleep(_POLL)
            continue
        if kept.events:
            log.extend(kept.events)
            number += len(kept.events)
        elif record is None or record.over:
            break
        else:
            await anyio.sleep(_POLL)
    if record is not None and not kept.count:
        log.extend((await events_of(record.body))[number:])
    elif record is not None and number >= kept.count:
        last = log.events[-1] if log.events else await _last(store, name, number)
        if not last.startswith(_ENDS):
            stamp = Stamp(None, number)
            log.extend([sse_event(stamp, end_event(record.body))])
    log.close()


async def _last(store: BackgroundStore, name: ResponseName, count: int) -> bytes:
    """Return the last event that is kept."""
    try:
        kept = await store.events(name, count - 1)
    except StoreUnavailable:
        return _ENDS[0]
    return kept.events[0] if kept.events else b""
