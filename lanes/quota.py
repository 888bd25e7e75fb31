"""What a worker needs of a tenant's limits: a slot for each create that it carries."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from lanes.attempt import Attempt


class Slot(Protocol):
    """The place of a create among those of its tenant that run."""

    def end(self, attempt: Attempt | None, *, goes_on: bool) -> None:
        """Count what a response took that is over, and make room unless the place is still needed.

        Args:
            attempt: The response; None if there was none.
            goes_on: Whether a successor takes the place over.
        """


class Quota(Protocol):
    """How much a tenant may do.

    Attributes:
        limited: Whether anything bounds its creates. The worker reads it before each create, and
            asks for nothing where it is false.
    """

    limited: bool

    async def enter(self) -> Slot:
        """Wait for the decision about a create, and return its slot.

        Raises:
            ClientFault: The tenant is at a limit.
            UpstreamFault: Nobody can tell, and that lets no creates in.
        """


class _NoLimits:
    """The quota of whoever has no limits."""

    limited = False

    async def enter(self) -> Slot:
        """Refuse to be asked."""
        raise AssertionError("there are no limits to ask about")


#: What bounds nothing.
NO_LIMITS: Final = _NoLimits()
