"""Decides who may connect, and which request headers the backend sees. Pure."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from pydantic import SecretStr

from gateway.client.refusal import UpgradeRefused
from gateway.keys.client_secrets import is_secret
from gateway.keys.keys_file import digest_of, key_id
from gateway.keys.ring import KeyRing, LiveKey

if TYPE_CHECKING:
    from collections.abc import Iterable

#: As in ASGI: lower-case names, raw values, repeats kept.
Headers = Sequence[tuple[bytes, bytes]]

#: A browser cannot set Authorization, so it offers its key as a subprotocol, as at OpenAI.
KEY_PROTOCOL: Final = b"openai-insecure-api-key."
#: The key id of every client of a gateway without keys.
OPEN: Final = "open"
TOKEN: Final = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,256}")
PLAIN: Final = re.compile(rb"[\x20-\x7e]+")
#: The client headers that the backend sees, besides Authorization. Others are hop-by-hop, belong
#: to a proxy in front or to the socket, and some backends refuse them.
RELAYED: Final = (
    b"openai-beta",
    b"openai-organization",
    b"openai-project",
    b"traceparent",
    b"tracestate",
    b"user-agent",
)
PORTS: Final = {"http": ":80", "ws": ":80", "https": ":443", "wss": ":443"}


@dataclass(frozen=True, slots=True)
class AdmittedClient:
    """A client that may connect.

    Attributes:
        key_id: What its records are kept under: its tenant, or a key without a name, of which it
            reveals nothing.
        subprotocol: The one to accept.
        key: Its key, if that has a name.
    """

    key_id: str
    subprotocol: str | None
    key: LiveKey | None = None


class Authenticator:
    """Checks keys and origins. Without keys the gateway is open to everyone."""

    def __init__(self, keys: Iterable[SecretStr | str], origins: Iterable[str]) -> None:
        plain = [key.get_secret_value() if isinstance(key, SecretStr) else key for key in keys]
        #: The keys in force; a keys file adds those with names.
        self.ring = KeyRing({digest_of(key.encode()): key_id(key) for key in plain})
        self._origins = frozenset(origin_of(origin) for origin in origins)

    def admit(self, headers: Headers) -> AdmittedClient:
        """Return the client that these headers admit.

        Raises:
            UpgradeRefused: The key or the origin is not accepted.
        """
        self.check_origin(headers)
        if self.ring.open:
            return AdmittedClient(OPEN, self.echo(headers))
        key = client_key(headers)
        found = self.ring.find(key)
        if found is None:
            code = "missing_api_key" if key is None else "invalid_api_key"
            reason = "No API key was given" if key is None else "The API key is not known here"
            raise unauthorized(code, f"{reason}; send it as `Authorization: Bearer KEY`.")
        if isinstance(found, str):
            return AdmittedClient(found, self.echo(headers))
        if self.ring.expired(found):
            fault = found.has_ended()
            raise unauthorized(str(fault.code), fault.message)
        return AdmittedClient(found.key.owner, self.echo(headers), found)

    def echo(self, headers: Headers) -> str | None:
        """Return the subprotocol to accept: the first that is offered and no key."""
        for name in _protocols(headers):
            secret = name.lower().startswith(KEY_PROTOCOL) or is_secret(name)
            if TOKEN.fullmatch(name) and not secret and self.ring.find(name) is None:
                return name.decode()
        return None

    def check_origin(self, headers: Headers) -> None:
        """Raise UpgradeRefused for a page whose origin is not allowed."""
        origins = _all(headers, b"origin")
        if not origins or "*" in self._origins:
            return
        origin = origin_of(origins[0].decode("latin-1"))
        if len(origins) == 1 and (origin in self._origins or self._is_own(origin, headers)):
            return
        raise UpgradeRefused(
            HTTPStatus.FORBIDDEN,
            "origin_not_allowed",
            "Pages of this origin may not connect here; the gateway's --allow-origin lets them in.",
            {},
        )

    def check_bound_origin(self, headers: Headers, origin: str | None) -> None:
        """Raise UpgradeRefused for who shows what is bound to another origin."""
        shown = [origin_of(one.decode("latin-1")) for one in _all(headers, b"origin")]
        if origin is not None and shown != [origin]:
            message = "This client secret is for the pages of another origin."
            raise UpgradeRefused(HTTPStatus.FORBIDDEN, "origin_not_allowed", message)

    def _is_own(self, origin: str, headers: Headers) -> bool:
        hosts = _all(headers, b"host")
        scheme, _, place = origin.partition("://")
        if len(hosts) != 1 or not place:
            return False
        own = hosts[0].decode("latin-1").lower().removesuffix(PORTS.get(scheme, "\n"))
        # Without keys a page could point its own name at this address (DNS rebinding) and become
        # "the same origin"; numeric addresses and localhost cannot be pointed elsewhere.
        return own == place and (not self.ring.open or _is_fixed(own))


def unauthorized(code: str, message: str) -> UpgradeRefused:
    """Return the refusal of a request whose key lets nobody in."""
    headers = {"WWW-Authenticate": "Bearer"}
    return UpgradeRefused(HTTPStatus.UNAUTHORIZED, code, message, headers)


def client_key(headers: Headers) -> bytes | None:
    """Return the client's key from its only Authorization, or else from a subprotocol."""
    credentials = _all(headers, b"authorization")
    if credentials:
        scheme, _, key = credentials[0].strip().partition(b" ")
        return key.strip() if len(credentials) == 1 and scheme.lower() == b"bearer" else None
    for name in _protocols(headers):
        if name.startswith(KEY_PROTOCOL):
            return name.removeprefix(KEY_PROTOCOL)
    return None


def upstream_headers(headers: Headers, *, authorization: bool = False) -> dict[str, str]:
    """Return the client headers the backend may see; with the key only if `authorization`."""
    named = {part.strip().lower() for part in b",".join(_all(headers, b"connection")).split(b",")}
    relayed: dict[str, str] = {}
    for name in RELAYED:
        values = _all(headers, name)
        if values and name not in named and all(PLAIN.fullmatch(value) for value in values):
            relayed[name.decode()] = ", ".join(value.decode() for value in values)
    key = client_key(headers) if authorization else None
    if key and PLAIN.fullmatch(key) and b"authorization" not in named:
        relayed["authorization"] = f"Bearer {key.decode()}"
    return relayed


def _all(headers: Headers, name: bytes) -> list[bytes]:
    return [value for header, value in headers if header == name]


def _protocols(headers: Headers) -> list[bytes]:
    joined = b",".join(_all(headers, b"sec-websocket-protocol"))
    return [name for part in joined.split(b",") if (name := part.strip())]


def origin_of(origin: str) -> str:
    """Return an origin as others are compared with it: without the usual port, in small letters."""
    origin = origin.strip().rstrip("/").lower()
    return origin.removesuffix(PORTS.get(origin.partition("://")[0], "\n"))


def _is_fixed(host: str) -> bool:
    name = re.sub(r":\d*$", "", host).strip("[]")
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return name == "localhost" or name.endswith(".localhost")
    return True
