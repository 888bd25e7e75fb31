"""One URL says where the engine is: standalone, on a socket, behind Sentinel, in a Cluster."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from redis.asyncio import (
    Connection,
    Redis,
    RedisCluster,
    SSLConnection,
    UnixDomainSocketConnection,
)
from redis.asyncio.sentinel import SentinelConnectionPool, SentinelManagedSSLConnection

from gateway.config.setting_types import REDIS_SCHEMES
from gateway.persistence import redis_client


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("redis://h", {"host": "h", "port": 6379}),
        ("redis://h:1/2", {"host": "h", "port": 1, "db": 2}),
        ("redis://h?db=3", {"db": 3}),
        ("redis://:p%40:@h:1", {"password": "p@:", "port": 1}),
        ("redis://u:p@[::1]:1", {"username": "u", "password": "p", "host": "::1", "port": 1}),
        ("unix:///a%20b/s?db=1", {"path": "/a b/s", "db": 1}),
        ("rediss://h?ssl_cert_reqs=none&ssl_check_hostname=no", {"ssl_check_hostname": False}),
    ],
)
def test_standalone(url: str, expected: dict[str, Any]) -> None:
    client = redis_client.connect(url)
    assert isinstance(client, Redis)
    options = client.connection_pool.connection_kwargs
    assert {name: options[name] for name in expected} == expected
    pool: Any = client.connection_pool
    made: Any = pool.make_connection()  # it takes what it is given
    kinds: dict[str, type] = {"unix": UnixDomainSocketConnection, "rediss": SSLConnection}
    assert made.retry.get_retries() == 0
    assert type(made) is kinds.get(url.partition(":")[0], Connection)


def test_behind_sentinel() -> None:
    url = "rediss+sentinel://u:p@a,b:2/mine?db=1&sentinel_password=s&ssl_cert_reqs=none"
    client = redis_client.connect(url)
    assert isinstance(client, Redis)
    pool = client.connection_pool
    assert isinstance(pool, SentinelConnectionPool)
    made: Any = pool
    assert isinstance(made.make_connection(), SentinelManagedSSLConnection)
    assert pool.service_name == "mine"
    options = [one.connection_pool.connection_kwargs for one in pool.sentinel_manager.sentinels]
    assert [(o["host"], o["port"], o["password"]) for o in options] == [
        ("a", 26379, "s"),
        ("b", 2, "s"),
    ]
    assert pool.connection_kwargs["db"] == 1


def test_in_a_cluster() -> None:
    client = redis_client.connect("redis+cluster://:p@127.0.0.1:1,[::1]:2")
    assert isinstance(client, RedisCluster)
    assert set(client.nodes_manager.startup_nodes) == {"127.0.0.1:1", "::1:2"}


@pytest.mark.parametrize(
    "url",
    [
        *("", "h:1", "http://h", "redis://", "redis://h:0", "redis://h:65536", "redis://h:x"),
        *("redis://a,b", "redis://h/x", "redis://h/1/2", "redis://h?db=x", "redis://h?timeout=1"),
        *("redis://h?ssl_cert_reqs=none", "rediss://h?ssl_cert_reqs=maybe", "unix://", "unix://h"),
        *("redis+sentinel://a:1", "redis+sentinel://a:1/", "redis+cluster://a:1/1"),
        *("redis+cluster://a:1?db=0", "redis+sentinel://,/m", "redis://[::1", "redis"),
    ],
)
def test_what_is_no_url(url: str) -> None:
    secret = url.replace("://", "://user:hush@", 1)
    with pytest.raises(ValueError, match=r"^not a URL of a Redis: ") as raised:
        redis_client.connect(secret)
    assert "hush" not in str(raised.value)
    assert raised.value.__context__ is None or raised.value.__suppress_context__


def test_every_scheme_of_the_settings_makes_a_client() -> None:
    for scheme in REDIS_SCHEMES:
        where = "/run/s" if scheme == "unix" else "h:1"
        service = "/mymaster" if scheme.endswith("+sentinel") else ""
        assert redis_client.connect(f"{scheme}://{where}{service}")


def test_the_command_line_does_without_redis() -> None:
    """`multilane --help` answers at once: only a gateway that starts imports the client."""
    code = "import sys, gateway.cli; sys.exit('redis' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
