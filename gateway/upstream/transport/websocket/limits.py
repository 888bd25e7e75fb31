"""How long, how many, how large: what the sockets of one backend go by."""

from __future__ import annotations

from dataclasses import dataclass

from gateway.upstream.transport import defaults


@dataclass(frozen=True, slots=True)
class SocketLimits:
    """Times in seconds.

    connect      for name look-up, TCP, proxy and TLS, and once more for the upgrade's answer
    first_byte   a response may be silent before its first event, idle between two
    max_event    bytes of one event, and of the events that wait for one slow client
    lanes        responses in progress on one socket; with 1 nothing is said of lanes
    links        sockets at a time
    max_age      of a socket that takes another response
    keep_idle    that a socket without responses is kept
    ping         between two pings; the first must have been answered before the second
    steer        for the answer to a steer
    follow       for the successor of a response that the upstream steers
    close        for the answer to our close frame
    """

    connect: float = defaults.CONNECT_TIMEOUT
    first_byte: float = defaults.FIRST_BYTE_TIMEOUT
    idle: float = defaults.IDLE_TIMEOUT
    max_event: int = defaults.MAX_EVENT_BYTES
    lanes: int = 16
    links: int = 1024
    max_age: float = 55 * 60.0
    keep_idle: float = 300.0
    ping: float = 20.0
    steer: float = 5.0
    follow: float = 30.0
    close: float = 1.0


@dataclass(slots=True)
class SocketCapacity:
    """How many responses a socket of one backend carries; fewer once it says so."""

    lanes: int
