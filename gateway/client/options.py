"""What a client asks of its connection as it opens it (protocol.md 5). Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qsl

from lanes.frames import CANCEL, EXTENSIONS, STEER_FOLLOW, STEERING

if TYPE_CHECKING:
    from starlette.types import Scope

    from gateway.client.auth import Headers


@dataclass(frozen=True, slots=True)
class ConnectionOptions:
    """Holds what one connection does otherwise than the gateway's settings say.

    Attributes:
        follow: Whether a steer of a response that was steered may be taken for what follows it.
        steering: Whether its frames about steers may have more than the reference has.
    """

    follow: bool = True
    steering: bool = False

    @property
    def headers(self) -> list[tuple[bytes, bytes]]:
        """The headers of the answer: what is taken beyond the reference."""
        extensions = f"{CANCEL}, {STEERING}" if self.steering else CANCEL
        return [(EXTENSIONS.encode(), extensions.encode())]


#: The options of a client that asks for nothing.
DEFAULTS: Final = ConnectionOptions()


def connection_options(upgrade: Scope) -> ConnectionOptions:
    """Return what an upgrade asks for, by its headers and the query of its URL."""
    headers: Headers = upgrade["headers"]
    query: bytes = upgrade["query_string"]
    asked = [value.strip().lower() for name, value in headers if name == STEER_FOLLOW.encode()]
    named = ",".join(
        value for name, value in parse_qsl(query.decode("latin-1")) if name == "extensions"
    )
    extensions = {name.strip() for name in named.split(",")}
    return ConnectionOptions(follow=b"off" not in asked, steering=STEERING in extensions)
