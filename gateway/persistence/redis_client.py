"""The client of a Redis or Valkey, from one URL: standalone, socket, Sentinel or Cluster.

Making it does not connect, so a gateway starts while its engine is away. The client neither retries
nor limits the wait for an answer: every call goes through `steering.redis.guard`, which does both.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from redis.asyncio import (
    BlockingConnectionPool,
    Connection,
    Redis,
    RedisCluster,
    Sentinel,
    SSLConnection,
    UnixDomainSocketConnection,
)
from redis.asyncio.cluster import ClusterNode
from redis.asyncio.retry import Retry
from redis.asyncio.sentinel import SentinelConnectionPool
from redis.backoff import NoBackoff

from gateway.config.setting_types import REDIS_SCHEMES
from steering.redis.guard import MAX_CALLS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from steering.redis.guard import RedisClient

#: Connections to a standalone engine; a call that finds none free waits for one. There is one for
#: each call that the guard of the stores lets through, and some for the watch.
POOL_SIZE: Final = MAX_CALLS + 4
#: Connections to a primary behind Sentinel or in a Cluster. Those pools refuse instead of waiting,
#: so this is more than all guards of a process use at a time.
MAX_CONNECTIONS: Final = 128
#: Seconds for one Sentinel: they are asked in turn, within the time of one call.
SENTINEL_TIMEOUT: Final = 0.3
#: What the query of a TLS URL may set.
TLS_OPTIONS: Final = (
    "ssl_ca_certs",
    "ssl_certfile",
    "ssl_keyfile",
    "ssl_cert_reqs",
    "ssl_check_hostname",
)


def _common() -> dict[str, Any]:
    """Return the options of every connection."""
    return {
        "socket_timeout": None,  # the guard's deadline is enough, and a call costs a third less
        "socket_connect_timeout": 0.8,
        "health_check_interval": 15,
        "protocol": 2,  # no push messages, and no handshake to wait for
        "driver_info": None,
    }


def _once() -> Retry:
    """Return the policy of trying once."""
    return Retry(NoBackoff(), 0)


def connect(url: str) -> RedisClient:
    """Return a client that connects at its first call; close it with `close`.

    Raises:
        ValueError: The URL is wrong. The text says what is allowed and never repeats the URL, which
            may hold a password.
    """
    try:
        parts = urlsplit(url)
        options = _options(parts)
    except ValueError as error:
        raise ValueError(f"not a URL of a Redis: {error}") from None
    if parts.scheme.endswith("+sentinel"):
        return _sentinel(parts, options)
    if parts.scheme.endswith("+cluster"):
        return _cluster(parts, options)
    return _standalone(parts, options)


async def close(client: RedisClient) -> None:
    """Close a client, and the clients of its Sentinels."""
    await client.aclose()
    pool = getattr(client, "connection_pool", None)
    if isinstance(pool, SentinelConnectionPool):
        await pool.sentinel_manager.aclose()


def _standalone(parts: SplitResult, options: dict[str, Any]) -> Redis:
    kind: type[Any] = UnixDomainSocketConnection
    if parts.scheme == "unix":
        where: dict[str, Any] = {"path": unquote(parts.path)}
    else:
        (host, port), *more = _hosts(parts, 6379)
        if more:
            raise ValueError(
                "not a URL of a Redis: one host only, or redis+sentinel, redis+cluster"
            )
        where = {"host": host, "port": port}
        kind = SSLConnection if parts.scheme == "rediss" else Connection
    pool = BlockingConnectionPool(
        connection_class=kind,
        max_connections=POOL_SIZE,
        timeout=1,
        retry=_once(),
        **_common(),
        **where,
        **options,
    )
    return Redis.from_pool(pool)


def _sentinel(parts: SplitResult, options: dict[str, Any]) -> Redis:
    service = unquote(parts.path.strip("/"))
    sentinel_options = {**_common(), "socket_timeout": SENTINEL_TIMEOUT, "retry": _once()}
    sentinel_options["socket_connect_timeout"] = SENTINEL_TIMEOUT
    for name in ("username", "password"):
        if f"sentinel_{name}" in options:
            sentinel_options[name] = options.pop(f"sentinel_{name}")
    tls: dict[str, Any] = {"ssl": True} if parts.scheme.startswith("rediss") else {}
    sentinel_options |= tls | {name: options[name] for name in TLS_OPTIONS if name in options}
    # The library leaves this one constructor without types.
    manager = Sentinel(_hosts(parts, 26379), sentinel_kwargs=sentinel_options)  # type: ignore[no-untyped-call]
    client: Redis = manager.master_for(
        service, max_connections=MAX_CONNECTIONS, retry=_once(), **_common(), **tls, **options
    )
    return client


def _cluster(parts: SplitResult, options: dict[str, Any]) -> RedisCluster:
    nodes = [ClusterNode(host, port) for host, port in _hosts(parts, 6379)]
    return RedisCluster(
        startup_nodes=nodes,
        max_connections=MAX_CONNECTIONS,
        retry=Retry(NoBackoff(), 1),  # the second try is where it looks for the new primary
        ssl=parts.scheme.startswith("rediss"),
        **_common(),
        **options,
    )


def _options(parts: SplitResult) -> dict[str, Any]:
    """Return what a URL says besides the hosts. Raises ValueError."""
    if parts.scheme not in REDIS_SCHEMES:
        raise ValueError(f"it must start with one of {', '.join(f'{s}://' for s in REDIS_SCHEMES)}")
    kind = parts.scheme.partition("+")[2]
    given = dict(parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query)))
    options: dict[str, Any] = {}
    login, _, _ = parts.netloc.rpartition("@")
    for name, part in zip(("username", "password"), login.split(":", 1), strict=False):
        if part:
            options[name] = unquote(part)
    path = parts.path.strip("/")
    if kind == "sentinel" and not path:
        raise ValueError("after the hosts comes the name of the service, as in /mymaster")
    if kind == "cluster" and path not in ("", "0"):
        raise ValueError("a cluster has no database but 0")
    if parts.scheme == "unix" and not path:
        raise ValueError("unix:// is followed by the path of a socket")
    if parts.scheme in ("redis", "rediss") and path:
        given.setdefault("db", path)
    return options | _checked(given, _allowed(parts.scheme, kind))


def _allowed(scheme: str, kind: str) -> set[str]:
    """Return the names that the query of such a URL may set."""
    names = {"db"} if kind != "cluster" else set()
    names |= {"username", "password"} if scheme == "unix" else set()
    names |= {"sentinel_username", "sentinel_password"} if kind == "sentinel" else set()
    return names | (set(TLS_OPTIONS) if scheme.startswith("rediss") else set())


def _checked(given: Mapping[str, str], allowed: set[str]) -> dict[str, Any]:
    """Return the options that a query sets. Raises ValueError."""
    if set(given) - allowed:
        named = f"only {', '.join(sorted(allowed))}" if allowed else "nothing"
        raise ValueError(f"its query can say {named}")
    options: dict[str, Any] = dict(given)
    if "db" in given:
        if not re.fullmatch(r"[0-9]{1,5}", given["db"], re.ASCII):
            raise ValueError("a database is a number")
        options["db"] = int(given["db"])
    if "ssl_check_hostname" in given:
        options["ssl_check_hostname"] = given["ssl_check_hostname"].lower() in ("1", "true", "yes")
    if given.get("ssl_cert_reqs", "required") not in ("required", "optional", "none"):
        raise ValueError("ssl_cert_reqs is required, optional or none")
    return options


def _hosts(parts: SplitResult, port: int) -> list[tuple[str, int]]:
    """Return the hosts of a URL and their ports. Raises ValueError."""
    hosts = []
    for one in parts.netloc.rpartition("@")[2].split(","):
        match = re.fullmatch(r"(\[[0-9a-fA-F:.%]+\]|[A-Za-z0-9_.-]+)(?::([0-9]{1,5}))?", one)
        if match is None or int(match[2] or port) not in range(1, 65536):
            raise ValueError("not a URL of a Redis: hosts are written host:port, between commas")
        hosts.append((match[1].strip("[]"), int(match[2] or port)))
    return hosts
