"""`response.create` and `response.cancel` as the gateway sees them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

#: The header with which the answer to an upgrade names what is taken beyond the reference.
EXTENSIONS: Final = "multilane-extensions"
#: The extension of frames about steers, which a client asks for in the query of the URL.
STEERING: Final = "steering"
#: The header with which a client that follows steered responses itself turns that `off` here.
STEER_FOLLOW: Final = "multilane-steer-follow"
#: The type of a frame that ends a response, which is such an extension.
CANCEL: Final = "response.cancel"


@dataclass(frozen=True, slots=True)
class Create:
    """One checked `response.create` frame (protocol.md 2).

    Attributes:
        stream_id: Its lane; None is the default lane.
        body: What the client sent, key by key and value for value, without the envelope (`type`,
            `stream_id`, `generate`, `event_id`) and without `stream`.
        parent_id: The body's `previous_response_id`: the response it continues or forks from.
        generate: Whether the upstream is asked; a warm-up only prepares a parent.
        size: The length of the frame in bytes.
        follows: Whether the gateway made it to carry steers.
        compacts: Whether its input ended with a compaction trigger, which `body` lacks.
    """

    stream_id: str | None
    body: dict[str, Any]
    parent_id: str | None = None
    generate: bool = True
    size: int = 0
    follows: bool = False
    compacts: bool = False


@dataclass(frozen=True, slots=True)
class Cancel:
    """One `response.cancel` frame (protocol.md 5).

    Attributes:
        response_id: The response that it names, if it names one.
        stream_id: The lane that it names, if it names one.
    """

    response_id: str | None = None
    stream_id: str | None = None
