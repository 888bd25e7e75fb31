"""A backend's own steering, for streams that are wrapped: so are those that follow them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lanes.ports import Stream

Within = TypeVar("Within")
Found = TypeVar("Found", covariant=True)


class WrappableSteering(Protocol[Found]):
    """lanes.ports.Steering with streams of any kind."""

    def steer(
        self, steer_id: str, messages: list[dict[str, Any]], refused: Callable[[], None]
    ) -> None:
        """Pass a steer on."""

    async def follow(self, steers: Sequence[str]) -> Found | None:
        """The backend's own successor."""

    def give_up(self) -> None:
        """Want none."""


class WrappedSteering(Generic[Within]):
    """Implements lanes.ports.Steering; `wrap` is given what `steering` returns."""

    def __init__(
        self, steering: WrappableSteering[Within], wrap: Callable[[Within], Stream]
    ) -> None:
        self._steering = steering
        self._wrap = wrap
        self.steer, self.give_up = steering.steer, steering.give_up

    async def follow(self, steers: Sequence[str]) -> Stream | None:
        """The successor, wrapped (see lanes.ports.Steering)."""
        stream = await self._steering.follow(steers)
        return None if stream is None else self._wrap(stream)
