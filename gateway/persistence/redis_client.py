"""The client of a Redis or Valkey, from one URL: standalone, socket, Sentinel or Cluster.

It is made without connecting, so a gateway starts while its engine is away. Nothing is retried
here and an answer is awaited for ever: everything is to be asked through `steering.redis.guard`,
which bounds the time and tries once more.
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

if TYPE_CHECKING:
    from collections.abc import Mapping

    from steering.redis.guard import Client

SCHEMES: Final = (
    "unix",
    "redis",
    "rediss",
    "redis+sentinel",
    "rediss+sentinel",
    "redis+cluster",
    "rediss+cluster",
)
#: Connections to a standalone engine; who finds none waits for one.
SIZE: Final = 16
#: Connections to a primary behind Sentinel or in a Cluster. Those pools refuse instead of letting
#: wait, so this is more than all guards of a process ask for at a time.
LIMIT: Final = 128
#: Sentinels are asked one after another, within the time of one call.
SENTINEL_TIMEOUT: Final = 0.3
TLS: Final = ("ssl_ca_certs", "ssl_certfile", "ssl_keyfile", "ssl_cert_reqs", "ssl_check_hostname")


def _common() -> dict[str, Any]:
    return {
        "socket_timeout": None,  # a guard's is enough, and costs a third less per call
        "socket_connect_timeout": 0.8,
        "health_check_interval": 15,
        "protocol": 2,  # no push messages, and no greeting to wait for
        "driver_info": None,
    }


def _once() -> Retry:
    return Retry(NoBackoff(), 0)


def connect(url: str) -> Client:
    """A client that connects when it is first used, for a Guard to use; close it with `close`.

    Raises ValueError for a URL that is none; it says what is allowed and not what it was given.
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


async def close(client: Client) -> None:
    """Close a client, and those of the Sentinels that it asked."""
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
        max_connections=SIZE,
        timeout=1,
        retry=_once(),
        **_common(),
        **where,
        **options,
    )
    return Redis.from_pool(pool)


def _sentinel(parts: SplitResult, options: dict[str, Any]) -> Redis:
    service = unquote(parts.path.strip("/"))
    asking = {**_common(), "socket_timeout": SENTINEL_TIMEOUT, "retry": _once()}
    asking["socket_connect_timeout"] = SENTINEL_TIMEOUT
    for name in ("username", "password"):
        if f"sentinel_{name}" in options:
            asking[name] = options.pop(f"sentinel_{name}")
    tls: dict[str, Any] = {"ssl": True} if parts.scheme.startswith("rediss") else {}
    asking |= tls | {name: options[name] for name in TLS if name in options}
    # The library leaves this one constructor without types.
    manager = Sentinel(_hosts(parts, 26379), sentinel_kwargs=asking)  # type: ignore[no-untyped-call]
    client: Redis = manager.master_for(
        service, max_connections=LIMIT, retry=_once(), **_common(), **tls, **options
    )
    return client


def _cluster(parts: SplitResult, options: dict[str, Any]) -> RedisCluster:
    nodes = [ClusterNode(host, port) for host, port in _hosts(parts, 6379)]
    return RedisCluster(
        startup_nodes=nodes,
        max_connections=LIMIT,
        retry=Retry(NoBackoff(), 1),  # the second try is where it looks for the new primary
        ssl=parts.scheme.startswith("rediss"),
        **_common(),
        **options,
    )


def _options(parts: SplitResult) -> dict[str, Any]:
    """What a URL says besides where. Raises ValueError."""
    if parts.scheme not in SCHEMES:
        raise ValueError(f"it must start with one of {', '.join(f'{s}://' for s in SCHEMES)}")
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
    names = {"db"} if kind != "cluster" else set()
    names |= {"username", "password"} if scheme == "unix" else set()
    names |= {"sentinel_username", "sentinel_password"} if kind == "sentinel" else set()
    return names | (set(TLS) if scheme.startswith("rediss") else set())


def _checked(given: Mapping[str, str], allowed: set[str]) -> dict[str, Any]:
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
    """The hosts of a URL and their ports. Raises ValueError."""
    found = []
    for one in parts.netloc.rpartition("@")[2].split(","):
        match = re.fullmatch(r"(\[[0-9a-fA-F:.%]+\]|[A-Za-z0-9_.-]+)(?::([0-9]{1,5}))?", one)
        if match is None or int(match[2] or port) not in range(1, 65536):
            raise ValueError("not a URL of a Redis: hosts are written host:port, between commas")
        found.append((match[1].strip("[]"), int(match[2] or port)))
    return found
