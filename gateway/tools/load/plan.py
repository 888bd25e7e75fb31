"""The settings of a load run, and its choices that depend on them alone. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit, urlunsplit

if TYPE_CHECKING:
    from collections.abc import Sequence
    from random import Random

#: The longest chain, in responses: a long run must not measure ever longer inputs.
MAX_TURNS = 8

#: Events around the deltas of a text: before them, and from the last one on.
_HEAD, _TAIL = 4, 5

_SCHEMES = {"ws": "ws", "wss": "wss", "http": "ws", "https": "wss"}


class ChainHead(NamedTuple):
    """A finished response that can be continued, its place in its chain, and the chain's steers."""

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
        """Return the input of one create, which always holds its marker.

        Args:
            marker: The create's marker.
            lane: The lane's name.
            turn: The create's place in its chain, from 1.
        """
        text = self.text if "{marker}" in self.text else f"{self.text} [{{marker}}]"
        fields = {"{marker}": marker, "{lane}": lane, "{turn}": str(turn)}
        for field, value in fields.items():
            text = text.replace(field, value)
        return text.strip()


def steer_input(marker: str, *, as_list: bool) -> str | list[dict[str, str]]:
    """Return a steer's input as a string, or as a list of messages."""
    text = f"Now say it in other words. This is steer {marker}."
    return [{"role": "user", "content": text}] if as_list else text


def steer_point(random: Random, share: float, turn: int, length: int) -> int | None:
    """Return the sequence_number from which on the next text delta triggers a steer, or None.

    Args:
        random: The connection's randomness.
        share: The share of responses to steer, 0 to 1.
        turn: The response's place in its chain, from 1.
        length: The last sequence_number of a complete answer.
    """
    if turn >= MAX_TURNS or random.random() >= share:
        return None
    return random.randint(_HEAD, max(_HEAD, length - _TAIL))


def parent_for(
    random: Random, fork_share: float, own: ChainHead | None, others: Sequence[ChainHead]
) -> ChainHead | None:
    """Return what the next create continues: another lane's response, its own lane's, or None.

    Args:
        random: The connection's randomness.
        fork_share: The share of creates that fork, 0 to 1.
        own: The latest response of the create's lane.
        others: The latest responses of the other lanes.
    """
    if others and random.random() < fork_share:
        own = random.choice(others)
    return own if own is not None and own.turn < MAX_TURNS else None


def socket_url(url: str) -> str:
    """Return the WebSocket's address for `url`; raise ValueError for a URL of another kind."""
    parts = urlsplit(url)
    scheme = _SCHEMES.get(parts.scheme)
    if scheme is None or not parts.hostname:
        raise ValueError(f"{url!r}: expected ws://…/v1/responses, wss://… or http(s)://…/v1")
    path = parts.path
    if parts.scheme.startswith("http") and not path.rstrip("/").endswith("/responses"):
        path = f"{path.rstrip('/')}/responses"
    return urlunsplit((scheme, parts.netloc, path or "/v1/responses", parts.query, ""))


def slow_count(value: float, connections: int) -> int:
    """Return `--slow-readers` as a number of connections: below 1 it is a share of them."""
    return min(connections, round(value * connections) if value < 1 else int(value))
