"""Types of setting values: how each is parsed and what it refuses.

An error message says what is allowed and never repeats the value, which may be a secret.
"""

from __future__ import annotations

import ipaddress
import re
from typing import Annotated, Any, Final, Literal
from urllib.parse import urlsplit

from annotated_types import Ge, Gt, Le
from pydantic import AfterValidator, BeforeValidator, Field, SecretStr, ValidationInfo

from gateway.upstream.dialect import AUTO, check_transport, dialect_names
from gateway.upstream.transport.request_head import RESERVED_HEADERS, is_sendable
from gateway.upstream.transport.route import is_resolvable

REDIS_SCHEMES: Final = (
    *("redis", "rediss", "unix"),
    *("redis+sentinel", "rediss+sentinel", "redis+cluster", "rediss+cluster"),
)
#: Headers that carry a key, whatever the dialect.
CREDENTIALS: Final = frozenset({"authorization", "api-key", "x-api-key"})
#: Where the key of an `[[upstreams]]` table belongs.
KEY_PLACES: Final = "set key_env (a variable's name) or key_file (a path)"
UNITS: Final = {"GiB": 1 << 30, "MiB": 1 << 20, "KiB": 1 << 10, "B": 1}


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach `host`."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def _lower(value: Any) -> Any:
    return value.lower() if isinstance(value, str) else value


def _number(value: object) -> object:
    if isinstance(value, bool):  # pydantic would read `port = true` as 1
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


#: Characters of a secret that nobody has issued.
_MIN_SECRET: Final = 16


def _key(value: SecretStr) -> SecretStr:
    # A header carries visible ASCII reliably and nothing else.
    if not re.fullmatch(r"[!-~]+", value.get_secret_value()):
        raise ValueError("a key must be visible ASCII characters without spaces, at least one")
    return value


def _hard_to_guess(keys: tuple[SecretStr, ...]) -> tuple[SecretStr, ...]:
    if any(len(key.get_secret_value()) < _MIN_SECRET for key in keys):
        raise ValueError(f"each secret must have at least {_MIN_SECRET} characters")
    return keys


def _host(value: str) -> str:
    try:
        ipaddress.ip_address(value)
    except ValueError:
        if not re.fullmatch(r"[A-Za-z0-9_]([A-Za-z0-9_.-]*[A-Za-z0-9_.])?", value):
            raise ValueError("must be a host name or an IP address, without a port") from None
    return value


def _base_url(value: str) -> str:
    # The message never repeats the value: people put passwords into URLs.
    url = "must be an http(s) base URL such as http://127.0.0.1:8000/v1"
    try:
        parts = urlsplit(value)
        host = parts.hostname if parts.scheme in ("http", "https") else None
        reachable = host is not None and is_resolvable(host) and parts.port != 0
    except ValueError:
        reachable = False
    if not reachable or not re.fullmatch(r"[!-~]+", value):
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
    """Return the headers with lower-case names; an error never repeats a header's value."""
    for name, value in headers.items():
        if name.lower() in RESERVED_HEADERS:
            raise ValueError(f"{name!r} is the gateway's own to send")
        if name.lower() in CREDENTIALS:
            raise ValueError(f"{name!r} is a secret and is not read from here; {KEY_PLACES}")
        if not is_sendable(name, value):
            raise ValueError(f"{name!r} cannot be sent: it has signs that no header may have")
    return {name.lower(): value for name, value in headers.items()}


def _key_variable(value: str) -> str:
    # The message never repeats the value: people put the key itself here by mistake.
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", value):
        raise ValueError("must be the name of a variable that holds the key, not the key itself")
    return value


def _redis(url: str) -> str:
    """Check the URL without connecting; an error never repeats it, as it may hold a password."""
    if url in ("embedded", "memory"):
        return url
    scheme, separator, _ = url.partition("://")
    if scheme not in REDIS_SCHEMES or not separator:
        raise ValueError(f"must be embedded, memory or a {', '.join(REDIS_SCHEMES)} URL")
    return url


def _dialect(value: str) -> str:
    names = [AUTO, *dialect_names()]
    if value not in names:
        raise ValueError(f"must be one of {', '.join(names)}")
    return value


def _transport(value: str, info: ValidationInfo) -> str:
    check_transport(value, info.data.get("dialect"))
    return value


def _steering(value: str, info: ValidationInfo) -> str:
    # The same field is `upstream_transport` among the flags and `transport` in a table.
    transport = info.data.get("upstream_transport", info.data.get("transport"))
    if value == "native" and transport == "http":
        raise ValueError("native steering needs the transport websocket")
    return value


def is_origin(value: str) -> bool:
    """Return whether this is the origin of a page, perhaps with a slash at its end."""
    # Browsers write a name that is not ASCII in Punycode, and no wildcards.
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9+.-]*://[!-~]+", value) or set(value) & set("?#@*"):
        return False
    try:
        parts = urlsplit(value)
        return bool(parts.hostname) and parts.path in ("", "/") and parts.port != 0
    except ValueError:
        return False


def _origin(value: str) -> str:
    if value != "*" and not is_origin(value):
        raise ValueError("must be origins such as https://app.example.com, or *")
    return value.rstrip("/").lower()


def _network(value: object) -> object:
    try:
        return ipaddress.ip_network(str(value), strict=False)
    except ValueError:
        raise ValueError("must be IP addresses or networks such as 10.0.0.0/8") from None


#: Accepts a choice in any case.
ANY_CASE: Final = BeforeValidator(_lower)
#: Marks the fields whose values are sizes in bytes.
SIZE: Final = BeforeValidator(_size)

Integer = Annotated[int, BeforeValidator(_number)]
Count = Annotated[Integer, Le(1_000_000_000)]
Limit = Annotated[Count, Ge(0)]
Seconds = Annotated[float, BeforeValidator(_number), Le(1_000_000_000)]
PositiveSeconds = Annotated[Seconds, Gt(0)]
Size = Annotated[int, SIZE]
#: The limit of one event or frame: below 1 KiB hardly any would pass.
MessageSize = Annotated[Size, Ge(1024)]
Retries = Annotated[Integer, Ge(0), Le(10)]
NonEmptyText = Annotated[str, AfterValidator(str.strip), Field(min_length=1)]
Host = Annotated[str, AfterValidator(_host)]
ExtraHeaders = Annotated[dict[str, str], AfterValidator(_headers)]
VariableName = Annotated[str, AfterValidator(_key_variable)]
BaseUrl = Annotated[str, AfterValidator(_base_url)]
DialectName = Annotated[str, ANY_CASE, AfterValidator(_dialect)]
#: Declare `dialect` before a field of this type, and the transport before `Steering`.
Transport = Annotated[Literal["http", "websocket"], ANY_CASE, AfterValidator(_transport)]
Compaction = Annotated[Literal["auto", "gateway", "native"], ANY_CASE]
Steering = Annotated[Literal["gateway", "native"], ANY_CASE, AfterValidator(_steering)]
ReasoningTags = Annotated[Literal["auto", "opened", "off"], ANY_CASE]
LogLevel = Annotated[Literal["debug", "info", "warning", "error"], ANY_CASE]
LogFormat = Annotated[Literal["text", "json"], ANY_CASE]
MetricsAccess = Annotated[Literal["keyed", "open", "off"], ANY_CASE]
AccessLevel = Annotated[Literal["info", "debug", "off"], ANY_CASE]
SteerBoundary = Annotated[Literal["text", "item"], ANY_CASE]
LimitsWithoutStore = Annotated[Literal["open", "closed"], ANY_CASE]
RedisUrl = Annotated[str, AfterValidator(_redis)]
ApiKey = Annotated[SecretStr, AfterValidator(_key)]
ApiKeys = Annotated[tuple[ApiKey, ...], BeforeValidator(_words)]
SealingSecrets = Annotated[ApiKeys, AfterValidator(_hard_to_guess)]
Origins = Annotated[tuple[Annotated[str, AfterValidator(_origin)], ...], BeforeValidator(_words)]
Network = ipaddress.IPv4Network | ipaddress.IPv6Network
Networks = Annotated[
    tuple[Annotated[Network, BeforeValidator(_network)], ...], BeforeValidator(_words)
]


def written(value: Any, *, size: bool) -> str:
    """Return a value as a person writes it; `size` says that it is a number of bytes."""
    if value is None or value == () or value == {}:
        return "none"
    if isinstance(value, bool | tuple):
        return ", ".join(value) if isinstance(value, tuple) else str(value).lower()
    if size:
        unit = next(unit for unit, factor in UNITS.items() if value % factor == 0)
        return f"{value // UNITS[unit]}{unit}" if value else "0"
    return f"{value:.10g}" if isinstance(value, float) else str(value)
