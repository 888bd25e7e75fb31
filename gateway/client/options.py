"""What a client asks of its connection as it opens it (protocol.md 5). Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lanes.frames import CANCEL, EXTENSIONS, STEER_FOLLOW

if TYPE_CHECKING:
    from starlette.types import Scope

    from gateway.client.auth import Headers


@dataclass(frozen=True, slots=True)
class ConnectionOptions:
    """Holds what one connection does otherwise than the gateway's settings say.

    Attributes:
        follow: Whether a steer of a response that was steered may be taken for what follows it.
    """

    follow: bool = True

    @property
    def headers(self) -> list[tuple[bytes, bytes]]:
        """The headers of the answer: what is taken beyond the reference."""
        return [(EXTENSIONS.encode(), CANCEL.encode())]


def connection_options(upgrade: Scope) -> ConnectionOptions:
    """Return what an upgrade asks for."""
    headers: Headers = upgrade["headers"]
    asked = [value.strip().lower() for name, value in headers if name == STEER_FOLLOW.encode()]
    return ConnectionOptions(follow=b"off" not in asked)
