"""A backend's own steering, for streams that are wrapped: their successors are wrapped too."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lanes.ports import Stream

Within = TypeVar("Within")
Inner = TypeVar("Inner", covariant=True)


class WrappableSteering(Protocol[Inner]):
    """`lanes.ports.BackendSteering` with streams of any kind."""

    def steer(
        self, steer_id: str, messages: list[dict[str, Any]], refused: Callable[[], None]
    ) -> None:
        """Pass a steer on (see `lanes.ports.BackendSteering.steer`)."""

    async def follow(self, steers: Sequence[str]) -> Inner | None:
        """Return the backend's own successor, if it carries just these steers."""

    def give_up(self) -> None:
        """Want no successor of the backend's."""


class WrappedSteering(Generic[Within]):
    """Implements `lanes.ports.BackendSteering`; `wrap` gets each stream of `steering`."""

    def __init__(
        self, steering: WrappableSteering[Within], wrap: Callable[[Within], Stream]
    ) -> None:
        self._steering = steering
        self._wrap = wrap
        self.steer, self.give_up = steering.steer, steering.give_up

    async def follow(self, steers: Sequence[str]) -> Stream | None:
        """Return the wrapped successor (see `lanes.ports.BackendSteering.follow`)."""
        stream = await self._steering.follow(steers)
        return None if stream is None else self._wrap(stream)
