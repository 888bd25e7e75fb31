"""What a run of the load generator is to do. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit, urlunsplit

if TYPE_CHECKING:
    from collections.abc import Sequence
    from random import Random

#: A chain starts afresh after so many responses: a long run must not measure ever longer inputs.
MAX_TURNS = 8

#: Events around the deltas of a text: before them, and from the last one on.
_HEAD, _TAIL = 4, 5

_SCHEMES = {"ws": "ws", "wss": "wss", "http": "ws", "https": "wss"}


class ChainHead(NamedTuple):
    """A finished response that can be continued, its place in its chain, and the steers there."""

    id: str
    turn: int
    steers: frozenset[str] = frozenset()


@dataclass(frozen=True, kw_only=True)
class LoadPlan:
    """The settings of one run; its defaults are the command line's."""

    url: str
    connections: int = 4
    lanes: int = 8
    responses: int = 3  # per lane; 0 = no limit
    rate: float = 0.0
    fork_share: float = 0.2
    steer_share: float = 0.0
    slow_readers: int = 0
    duration: float = 0.0  # 0 = no limit
    timeout: float = 60.0
    ahead: bool = False
    model: str | None = None
    key: str | None = None
    text: str = "Say a few words. This is turn {turn} of {lane}, create {marker}."

    def prompt(self, marker: str, lane: str, turn: int) -> str:
        """The input of one create; holds its marker in any case."""
        text = self.text if "{marker}" in self.text else f"{self.text} [{{marker}}]"
        fields = {"{marker}": marker, "{lane}": lane, "{turn}": str(turn)}
        for field, value in fields.items():
            text = text.replace(field, value)
        return text.strip()


def steer_input(marker: str, *, as_list: bool) -> str | list[dict[str, str]]:
    """What a steer says, in one of the two ways that it may be said."""
    text = f"Now say it in other words. This is steer {marker}."
    return [{"role": "user", "content": text}] if as_list else text


def steer_point(random: Random, share: float, turn: int, length: int) -> int | None:
    """The number from which on the next text delta is answered with a steer, if one is.

    `length` is the last number of an answer like this one.
    """
    if turn >= MAX_TURNS or random.random() >= share:
        return None
    return random.randint(_HEAD, max(_HEAD, length - _TAIL))


def parent_for(
    random: Random, fork_share: float, own: ChainHead | None, others: Sequence[ChainHead]
) -> ChainHead | None:
    """What the next create continues: another lane's response, its own lane's, or nothing."""
    if others and random.random() < fork_share:
        own = random.choice(others)
    return own if own is not None and own.turn < MAX_TURNS else None


def socket_url(url: str) -> str:
    """The WebSocket's address for `url`; raises ValueError with a clear line."""
    parts = urlsplit(url)
    scheme = _SCHEMES.get(parts.scheme)
    if scheme is None or not parts.hostname:
        raise ValueError(f"{url!r}: expected ws://…/v1/responses, wss://… or http(s)://…/v1")
    path = parts.path
    if parts.scheme.startswith("http") and not path.rstrip("/").endswith("/responses"):
        path = f"{path.rstrip('/')}/responses"
    return urlunsplit((scheme, parts.netloc, path or "/v1/responses", parts.query, ""))


def slow_count(value: float, connections: int) -> int:
    """`--slow-readers` as a number of connections: below 1 it is a share of them."""
    return min(connections, round(value * connections) if value < 1 else int(value))
