"""SHELL: the certificate that clients see, read again when its files change (D49)."""

from __future__ import annotations

import logging
import ssl
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

import anyio
from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_pem_private_key,
)

from gateway.file_watch import PACE, FileWatch

if TYPE_CHECKING:
    from collections.abc import Callable

log = logging.getLogger("multilane")

_MAX_BYTES: Final = 1 << 20


class BadCertificate(ValueError):
    """The files hold no certificate that can be used; one line names the flag, the file and why."""


class Certificate:
    """Keeps a TLS context as the files have it; files that cannot be used leave it as it is.

    Args:
        cert: The file of the certificate, and of those that lead to its authority.
        key: The file of its private key; without one that is in `cert`.
        now: Returns the time.

    Raises:
        BadCertificate: The files cannot be used at the start.
    """

    def __init__(
        self, cert: str, key: str | None, now: Callable[[], datetime] = lambda: datetime.now(UTC)
    ) -> None:
        self._cert = cert
        self._key = cert if key is None else key
        self._key_flag = "--tls-cert" if key is None else "--tls-key"
        self._now = now
        self._files = FileWatch(self._cert, self._key)
        self._certificate: x509.Certificate
        self._context = self._loaded()

    def context(self) -> ssl.SSLContext:
        """Return what new connections get: those that are there keep theirs."""
        return self._context

    async def run(self) -> None:
        """Look after the files until cancelled."""
        self._tell(self._certificate)
        while True:
            await anyio.sleep(PACE)
            self.look()

    def look(self) -> None:
        """Read the files again if they have changed, and have been as they are since last time."""
        if self._files.changed():
            self.reload()

    def reload(self) -> None:
        """Read the files now; if they cannot be used, say why and keep what is in force."""
        self._files.note()
        try:
            self._context = self._loaded()
        except BadCertificate as bad:
            log.warning("certificate not reloaded, the one before stays in force: %s", bad)
        else:
            self._tell(self._certificate)

    def _loaded(self) -> ssl.SSLContext:
        cert, key = _content("--tls-cert", self._cert), _content(self._key_flag, self._key)
        certificate = self._parsed(cert)
        self._check_key(key, certificate)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.options |= ssl.OP_NO_RENEGOTIATION
        context.set_alpn_protocols(["http/1.1"])
        try:
            # What is asked for is never given: a terminal would be asked for a password.
            context.load_cert_chain(_path(self._cert), _path(self._key), password=lambda: "")
        except (ssl.SSLError, OSError) as error:
            raise BadCertificate(
                f"--tls-cert: {self._cert!r} cannot be used: {_why(error)}"
            ) from None
        self._certificate = certificate
        return context

    def _parsed(self, content: bytes) -> x509.Certificate:
        try:
            return x509.load_pem_x509_certificates(content)[0]
        except (ValueError, IndexError):
            message = f"--tls-cert: {self._cert!r} holds no certificate in PEM that can be read"
            raise BadCertificate(message) from None

    def _check_key(self, content: bytes, certificate: x509.Certificate) -> None:
        place = f"{self._key_flag}: {self._key!r}"
        try:
            key = load_pem_private_key(content, None)
        except TypeError:
            message = f"{place} is encrypted; the gateway takes a key without a password"
            raise BadCertificate(message) from None
        except (ValueError, UnsupportedAlgorithm):
            raise BadCertificate(f"{place} holds no private key in PEM that can be read") from None
        form = Encoding.DER, PublicFormat.SubjectPublicKeyInfo
        if key.public_key().public_bytes(*form) != certificate.public_key().public_bytes(*form):
            raise BadCertificate(f"{place} is not the key of the certificate in {self._cert!r}")

    def _tell(self, certificate: x509.Certificate) -> None:
        """Log whose it is and until when; warn of one that no client accepts now."""
        begins, ends = certificate.not_valid_before_utc, certificate.not_valid_after_utc
        now = self._now()
        if ends <= now:
            log.warning("the certificate in %r expired at %s", self._cert, _shown(ends))
        elif begins > now:
            log.warning("the certificate in %r is valid from %s on", self._cert, _shown(begins))
        else:
            log.info("TLS by the certificate in %r, valid until %s", self._cert, _shown(ends))


def _content(flag: str, path: str) -> bytes:
    try:
        with _path(path).open("rb") as file:
            content = file.read(_MAX_BYTES + 1)
    except OSError as error:
        raise BadCertificate(f"{flag}: {path!r} cannot be read: {error.strerror}") from None
    if len(content) > _MAX_BYTES:
        raise BadCertificate(f"{flag}: {path!r} is too large to be PEM")
    return content


def _path(path: str) -> Path:
    return Path(path).expanduser()


def _why(error: OSError) -> str:
    reason = getattr(error, "reason", None) or error.strerror or "OpenSSL refuses it"
    return str(reason).lower().replace("_", " ")


def _shown(time: datetime) -> str:
    return time.isoformat(timespec="seconds").replace("+00:00", "Z")
