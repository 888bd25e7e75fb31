"""Whether it is known how the upstreams speak: asked beforehand, and again while it is not."""

from __future__ import annotations

import logging
import time
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import anyio

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence

    from gateway.upstream.routing.routed_backend import RoutedBackend

log = logging.getLogger("multilane.upstream")

#: Seconds between two attempts to settle upstreams of which somebody wants to know.
PAUSE: Final = 2.0


class Readiness:
    """Settles the dialects of upstreams without a client that waits for it.

    Args:
        members: The upstreams.
        taker: Returns the upstream that takes a model.
        spawn: Starts a coroutine function that nobody waits for.
    """

    def __init__(
        self,
        members: Sequence[RoutedBackend],
        taker: Callable[[str], RoutedBackend | None],
        spawn: Callable[[Callable[[], Coroutine[Any, Any, None]]], None],
    ) -> None:
        self._members = members
        self._taker = taker
        self._spawn = spawn
        self._model: str | None = None
        self._forwards = False
        self._asking = False
        self._asked_at = 0.0

    async def prepare(self, model: str | None, *, forwards: bool) -> None:
        """Detect all dialects that are unknown; who is away is asked again when needed.

        Args:
            model: The model of creates that name none.
            forwards: Whether upstreams see the clients' keys; then those without a key of their own
                are not asked before a client comes.
        """
        self._model, self._forwards = model, forwards
        await self._ask()

    def unsettled(self) -> list[str]:
        """Return the upstreams that can be asked and whose dialect is not known yet.

        They are asked again, in a while: otherwise who waits for this before he sends the first
        create would wait forever.
        """
        names = [member.name for member in self._unsettled()]
        if names and not self._asking and time.monotonic() - self._asked_at >= PAUSE:
            self._asking = True
            self._spawn(self._ask)
        return names

    def _unsettled(self) -> list[RoutedBackend]:
        return [
            member
            for member in self._members
            if member.dialect is None and (not self._forwards or member.options.key is not None)
        ]

    async def _ask(self) -> None:
        self._asking = True
        try:
            async with anyio.create_task_group() as tasks:
                for member in self._unsettled():
                    mine = self._model is not None and self._taker(self._model) is member
                    named = self._model if mine else None
                    tasks.start_soon(run_detached, partial(member.prepare, named))
        finally:
            self._asking, self._asked_at = False, time.monotonic()


async def run_detached(task: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run what nobody waits for; whatever breaks in it must not end the tasks beside it (D18)."""
    try:
        await task()
    except Exception:
        log.exception("asking an upstream broke by our own fault")
