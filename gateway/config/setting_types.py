"""The kinds of values a setting takes: how they are read and what is refused.

A refusal says what is allowed and never repeats the value: it may be a secret.
"""

from __future__ import annotations

import ipaddress
import pkgutil
import re
from typing import Annotated, Any, Final
from urllib.parse import urlsplit

from annotated_types import Le
from pydantic import AfterValidator, BeforeValidator, Field, SecretStr

import gateway.dialects
from gateway.upstream.dialect import find
from gateway.upstream.transport.request_head import SPOKEN_FOR, sendable
from gateway.upstream.transport.route import resolvable

REDIS_SCHEMES: Final = (
    *("redis", "rediss", "unix"),
    *("redis+sentinel", "rediss+sentinel", "redis+cluster", "rediss+cluster"),
)
#: Headers that carry a key, whatever the dialect.
CREDENTIALS: Final = frozenset({"authorization", "api-key", "x-api-key"})
#: Where the key of a table `[[upstreams]]` is.
KEY_PLACES: Final = "set key_env (a variable's name) or key_file (a path)"
#: Stands for the dialect that is found out by asking.
AUTO: Final = "auto"
UNITS: Final = {"GiB": 1 << 30, "MiB": 1 << 20, "KiB": 1 << 10, "B": 1}


def dialects() -> list[str]:
    """The names of the modules in gateway/dialects, found without importing them."""
    names = [module.name for module in pkgutil.iter_modules(gateway.dialects.__path__)]
    return sorted(name for name in names if not name.startswith("_"))


def check_transport(transport: str, dialect: str | None) -> None:
    """Raise ValueError if the dialect's backends do not speak over this transport."""
    if transport != "websocket" or dialect in (None, AUTO):
        return  # what `auto` finds is checked then
    if not find(dialect).websocket_lanes:
        speaking = [name for name in dialects() if find(name).websocket_lanes]
        raise ValueError(
            f"backends of dialect {dialect} do not speak over WebSocket; "
            f"those of {', '.join(speaking)} do"
        )


def check_steering(steering: str, transport: str | None) -> None:
    """Raise ValueError if the backend cannot be told of steers over this transport."""
    if steering == "native" and transport == "http":
        raise ValueError("native steering needs the transport websocket")


def is_loopback(host: str) -> bool:
    """Whether nobody but this machine can reach `host`."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def _lower(value: Any) -> Any:
    return value.lower() if isinstance(value, str) else value


def _number(value: object) -> object:
    if isinstance(value, bool):  # pydantic would take `port = true` for 1
        raise ValueError
    return value


def _size(value: object) -> object:
    if not isinstance(value, str):
        return _number(value)
    match = re.fullmatch(r"\s*([0-9]{1,18})\s*((?:[kmg]i)?b|)\s*", value, re.ASCII | re.IGNORECASE)
    if match is None:
        raise ValueError
    unit = next(size for name, size in UNITS.items() if name.lower() == (match[2] or "B").lower())
    return int(match[1]) * unit


def _words(value: object) -> object:
    if isinstance(value, str):
        return tuple(part.strip() for part in value.split(","))
    return value


def _key(value: SecretStr) -> SecretStr:
    # A header carries visible ASCII reliably and nothing else.
    if not re.fullmatch(r"[!-~]+", value.get_secret_value()):
        raise ValueError("a key must be visible ASCII characters without spaces, at least one")
    return value


def _host(value: str) -> str:
    try:
        ipaddress.ip_address(value)
    except ValueError:
        if not re.fullmatch(r"[A-Za-z0-9_]([A-Za-z0-9_.-]*[A-Za-z0-9_.])?", value):
            raise ValueError("must be a host name or an IP address, without a port") from None
    return value


def _upstream(value: str) -> str:
    # Never says what it was given: people put passwords into URLs.
    url = "must be an http(s) base URL such as http://127.0.0.1:8000/v1"
    try:
        parts = urlsplit(value)
        host = parts.hostname if parts.scheme in ("http", "https") else None
        known = host is not None and resolvable(host) and parts.port != 0
    except ValueError:
        known = False
    if not known or not re.fullmatch(r"[!-~]+", value):
        raise ValueError(url)
    if parts.username is not None or parts.fragment:
        raise ValueError(f"{url}, without user or fragment")
    place, mark, query = value.partition("?")
    base = parts.scheme + place[len(parts.scheme) :].rstrip("/")
    for path in ("/responses", "/chat/completions"):
        if base.endswith(path):
            raise ValueError(f"{url}: give the base, without {path}, which the gateway appends")
    return f"{base}{mark}{query}" if query else base


def _headers(headers: dict[str, str]) -> dict[str, str]:
    """Names in lower case. A refusal names the header and never what it holds."""
    for name, value in headers.items():
        if name.lower() in SPOKEN_FOR:
            raise ValueError(f"{name!r} is the gateway's own to send")
        if name.lower() in CREDENTIALS:
            raise ValueError(f"{name!r} is a secret and is not read from here; {KEY_PLACES}")
        if not sendable(name, value):
            raise ValueError(f"{name!r} cannot be sent: it has signs that no header may have")
    return {name.lower(): value for name, value in headers.items()}


def _key_variable(value: str) -> str:
    # Never says what it was given: people mistake it for the place of the key itself.
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", value):
        raise ValueError("must be the name of a variable that holds the key, not the key itself")
    return value


def _redis(url: str) -> str:
    """Check what can be checked without connecting; a password in it is not repeated."""
    if url in ("embedded", "memory"):
        return url
    scheme, found, _ = url.partition("://")
    if scheme not in REDIS_SCHEMES or not found:
        raise ValueError(f"must be embedded, memory or a {', '.join(REDIS_SCHEMES)} URL")
    return url


def _dialect(value: str) -> str:
    known = [AUTO, *dialects()]
    if value not in known:
        raise ValueError(f"must be one of {', '.join(known)}")
    return value


def _origin(value: str) -> str:
    if value != "*" and not re.fullmatch(r"[A-Za-z][A-Za-z0-9+.-]*://[^\s/?#@]+/?", value):
        raise ValueError("must be origins such as https://app.example.com, or *")
    return value.rstrip("/").lower()


#: Lets a choice be written in any case.
ANY_CASE: Final = BeforeValidator(_lower)
#: Marks the fields whose numbers are bytes.
SIZE: Final = BeforeValidator(_size)

Integer = Annotated[int, BeforeValidator(_number)]
Count = Annotated[Integer, Le(1_000_000_000)]
Seconds = Annotated[float, BeforeValidator(_number), Le(1_000_000_000)]
Size = Annotated[int, SIZE]
Text = Annotated[str, AfterValidator(str.strip), Field(min_length=1)]
Host = Annotated[str, AfterValidator(_host)]
Headers = Annotated[dict[str, str], AfterValidator(_headers)]
Variable = Annotated[str, AfterValidator(_key_variable)]
BaseUrl = Annotated[str, AfterValidator(_upstream)]
Dialect = Annotated[str, ANY_CASE, AfterValidator(_dialect)]
RedisUrl = Annotated[str, AfterValidator(_redis)]
Key = Annotated[SecretStr, AfterValidator(_key)]
Keys = Annotated[tuple[Key, ...], BeforeValidator(_words)]
Origins = Annotated[tuple[Annotated[str, AfterValidator(_origin)], ...], BeforeValidator(_words)]
