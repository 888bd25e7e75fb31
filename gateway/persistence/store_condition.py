"""How well an engine serves as a store, by what it says of itself and what it refuses. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from redis.exceptions import (
    AuthenticationError,
    BusyLoadingError,
    ClusterDownError,
    InvalidResponse,
    MovedError,
    NoPermissionError,
    OutOfMemoryError,
    ReadOnlyError,
    RedisClusterException,
    RedisError,
    ResponseError,
    SlotNotCoveredError,
)
from redis.exceptions import TimeoutError as NoAnswerError

from steering.errors import SenselessAnswer

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

#: The oldest Redis that knows all that is asked: `SET` with `PX` and `GET`. Every Valkey does.
OLDEST_REDIS: Final = (6, 2)

_READ_ONLY: Final = "it is a read-only replica"
_NO_SLOTS: Final = "its cluster does not serve all slots"
_ONE_NODE: Final = "it is a node of a cluster: use redis+cluster://"
_FULL: Final = "it is full: its maxmemory is used up"
_SENSELESS: Final = "its answers make no sense"
_SILENT: Final = "it does not answer in time"
_UNREACHED: Final = "it cannot be reached"
_NO_SCRIPTS: Final = "its ACL does not allow a command that the scripts need"
_NO_LOGIN: Final = "it refuses the user or the password"


class StoreState(StrEnum):
    """Whether the store can be used."""

    OK = "ok"
    DEGRADED = "degraded"
    AWAY = "away"


@dataclass(frozen=True, slots=True)
class StoreCondition:
    """The state of the store.

    Attributes:
        state: Whether it can be used.
        reasons: What is wrong, for whoever runs the gateway; no addresses and no keys.
    """

    state: StoreState
    reasons: tuple[str, ...] = ()


#: By kind of error, the first that fits. What is refused is degraded: other calls may work.
_KINDS: Final[tuple[tuple[type[Exception], StoreState, str], ...]] = (
    (AuthenticationError, StoreState.AWAY, _NO_LOGIN),
    (BusyLoadingError, StoreState.AWAY, "it is still loading its data"),
    (SenselessAnswer, StoreState.AWAY, _SENSELESS),
    (InvalidResponse, StoreState.AWAY, _SENSELESS),
    (NoAnswerError, StoreState.AWAY, _SILENT),
    (TimeoutError, StoreState.AWAY, _SILENT),
    (ReadOnlyError, StoreState.DEGRADED, _READ_ONLY),
    (OutOfMemoryError, StoreState.DEGRADED, _FULL),
    (MovedError, StoreState.DEGRADED, _ONE_NODE),
    (ClusterDownError, StoreState.DEGRADED, _NO_SLOTS),
    (SlotNotCoveredError, StoreState.DEGRADED, _NO_SLOTS),
    (ResponseError, StoreState.DEGRADED, "it refuses what the gateway asks"),
    (RedisError, StoreState.AWAY, _UNREACHED),
    (RedisClusterException, StoreState.AWAY, _UNREACHED),
    (OSError, StoreState.AWAY, _UNREACHED),
)
#: By the text of an error, the first that fits: a script's error and one that a pool of connections
#: passes on have lost their kind.
_TEXTS: Final = (
    (r"username-password|Authentication required|invalid password", StoreState.AWAY, _NO_LOGIN),
    (r"slots are not covered", StoreState.AWAY, _NO_SLOTS),
    (r"\bOOM\b", StoreState.DEGRADED, _FULL),
    (r"\bREADONLY\b", StoreState.DEGRADED, _READ_ONLY),
    (r"\bMISCONF\b", StoreState.DEGRADED, "it cannot write to its disk, and refuses writes"),
    (r"\bNOREPLICAS\b", StoreState.DEGRADED, "it has too few replicas, and refuses writes"),
    (r"executing the script can't", StoreState.DEGRADED, _NO_SCRIPTS),  # Redis 7.0
)


def refusal(error: BaseException) -> StoreCondition:
    """Return what the error of a call says of the engine."""
    text = str(error)
    for pattern, state, reason in _TEXTS:
        if re.search(pattern, text):
            return StoreCondition(state, (reason,))
    if isinstance(error, NoPermissionError) or "ACL failure" in text:
        command = re.search(r"'([A-Za-z_|]{1,30})' command", text)
        what = "the gateway's keys" if command is None else command[1].upper()
        return StoreCondition(StoreState.DEGRADED, (f"its ACL does not allow {what}",))
    for kind, state, reason in _KINDS:
        if isinstance(error, kind):
            return StoreCondition(state, (reason,))
    return StoreCondition(StoreState.AWAY, (_SENSELESS,))


def complaints(info: Mapping[str, Any], *, clustered: bool) -> Iterable[str]:
    """Yield what is wrong with an engine by its own account.

    Args:
        info: Its answer to INFO.
        clustered: Whether the client looks for the nodes of a cluster.
    """
    version = re.match(r"(\d+)\.(\d+)", str(info.get("redis_version", "")))
    if version is not None and (int(version[1]), int(version[2])) < OLDEST_REDIS:
        oldest = ".".join(map(str, OLDEST_REDIS))
        yield f"its version is {version[0]}, and at least {oldest} is needed"
    if info.get("role") == "slave":
        yield _READ_ONLY
    if info.get("cluster_enabled") == 1 and not clustered:
        yield _ONE_NODE
    policy = str(info.get("maxmemory_policy", "noeviction"))
    if policy != "noeviction":
        yield f"its maxmemory-policy is {policy[:40]}, which forgets: it must be noeviction"
    if "err" in (info.get("aof_last_write_status"), info.get("rdb_last_bgsave_status")):
        yield "its last write to its disk failed"


def cluster_complaints(info: Mapping[str, Any]) -> Iterable[str]:
    """Yield what is wrong with a cluster by its answer to CLUSTER INFO."""
    if info.get("cluster_state") != "ok" or str(info.get("cluster_slots_ok")) != "16384":
        yield _NO_SLOTS


def forgets_at_its_end(info: Mapping[str, Any], save: Any) -> bool:
    """Return whether nothing of an engine outlives its process.

    Args:
        info: Its answer to INFO.
        save: Its setting `save`; None where it does not tell.
    """
    return info.get("aof_enabled") == 0 and save == ""
