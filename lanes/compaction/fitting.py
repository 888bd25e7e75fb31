"""SHELL: asks again with a shorter history if the backend says that it is too long."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lanes.codec import decode_lenient
from lanes.compaction.staged_stream import StagedStream
from lanes.errors import UpstreamFault
from lanes.stream.backend_errors import OVERFLOW, is_error_event, reported_fault
from lanes.stream.passthrough import BEGINNINGS

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from lanes.ports import Event, Stream

    Open = Callable[[list[bytes]], Awaitable[Stream]]
    Shorter = Callable[[], Awaitable[list[list[bytes]]]]


async def open_fitting(items: list[bytes], shorter: Shorter, opened: Open) -> Stream:
    """Return the answer to the longest history that the backend takes.

    Args:
        items: The history.
        shorter: Returns it shorter and shorter.
        opened: Asks for the answer.

    Raises:
        UpstreamFault: The backend does not answer, or takes none of them.
    """
    try:
        return _FittingStream(await opened(items), shorter, opened)
    except UpstreamFault as fault:
        if fault.code != OVERFLOW:
            raise
        left = iter(await shorter())
        stream = await _next(left, opened, fault)

        async def rest() -> list[list[bytes]]:
            return list(left)

        return _FittingStream(stream, rest, opened)


async def _next(left: Iterator[list[bytes]], opened: Open, fault: UpstreamFault) -> Stream:
    """Return the answer to the next history that fits. Raises UpstreamFault."""
    for items in left:
        try:
            return await opened(items)
        except UpstreamFault as refused:
            if refused.code != OVERFLOW:
                raise
    raise fault


class _FittingStream(StagedStream):
    """The answer to a history that may turn out to be too long before anything is said.

    Args:
        first: The first answer.
        shorter: Returns what may be asked in its place.
        opened: Asks for it.
    """

    def __init__(self, first: Stream, shorter: Shorter, opened: Open) -> None:
        super().__init__(first)
        self.steering = first.steering
        self._first = first
        self._shorter = shorter
        self._opened = opened

    async def relay(self, sink: Callable[[list[Event]], None]) -> None:
        """Relay the first answer that is none about the length of the history."""
        stream: Stream | None = self._first
        left: Iterator[list[bytes]] | None = None
        while stream is not None:
            filtered = _Overflow(sink, stream)
            await self._relay_stage(stream, filtered.receive)
            if filtered.fault is None:
                return
            left = iter(await self._shorter()) if left is None else left
            stream = await self._open_stage(_opening(left, self._opened, filtered.fault))


def _opening(
    left: Iterator[list[bytes]], opened: Open, fault: UpstreamFault
) -> Callable[[], Awaitable[Stream]]:
    return lambda: _next(left, opened, fault)


class _Overflow:
    """Relays an answer, unless it says first of all that the history is too long.

    Attributes:
        fault: What it says then.
    """

    def __init__(self, sink: Callable[[list[Event]], None], stream: Stream) -> None:
        self.fault: UpstreamFault | None = None
        self._sink = sink
        self._stream = stream
        self._speaks = False

    def receive(self, events: list[Event]) -> None:
        """Relay events up to the one that says so."""
        if self._speaks:
            self._sink(events)
            return
        passed = []
        for event in events:
            self.fault = None if self._speaks else self._read(event)
            if self.fault is not None:
                self._stream.release()
                break
            passed.append(event)
        if passed:
            self._sink(passed)

    def _read(self, event: Event) -> UpstreamFault | None:
        """Return the fault of an event that says so."""
        name, data = event
        try:
            value = decode_lenient(data)
        except ValueError:
            value = None
        kind = str(value.get("type") or name or "") if isinstance(value, dict) else ""
        self._speaks = kind not in BEGINNINGS
        if not isinstance(value, dict):
            return None
        response = value.get("response")
        if kind == "response.failed" and isinstance(response, dict):
            value = {"error": response.get("error") or {}}
        elif not is_error_event(name, kind, value):
            return None
        fault = reported_fault(value)
        return fault if fault.code == OVERFLOW else None
