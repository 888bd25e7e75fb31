"""The limits of the sockets to one backend: times, counts and sizes."""

from __future__ import annotations

from dataclasses import dataclass

from gateway.upstream.transport import defaults


@dataclass(frozen=True, slots=True)
class WebSocketLimits:
    """Times are seconds.

    connect      for name look-up, TCP, proxy and TLS, and once more for the answer to the upgrade
    first_byte   of silence before the first event of a response
    idle         of silence between two events of a response
    max_event    bytes of one event, and of the events that wait for one slow client
    lanes        responses in progress on one socket; 1 means that its events name no lane
    sockets      open at a time
    max_age      after which a socket takes no more responses
    keep_idle    for which a socket without responses is kept
    ping         between two pings; the first must be answered before the second
    steer        for the answer to a steer
    follow       for the successor of a response that the backend steers
    close        for the answer to the gateway's close frame
    """

    connect: float = defaults.CONNECT_TIMEOUT
    first_byte: float = defaults.FIRST_BYTE_TIMEOUT
    idle: float = defaults.IDLE_TIMEOUT
    max_event: int = defaults.MAX_EVENT_BYTES
    lanes: int = 16
    sockets: int = 1024
    max_age: float = 55 * 60.0
    keep_idle: float = 300.0
    ping: float = 20.0
    steer: float = 5.0
    follow: float = 30.0
    close: float = 1.0


@dataclass(slots=True)
class WebSocketCapacity:
    """How many responses a socket of one backend carries; it falls when the backend refuses one."""

    lanes: int
