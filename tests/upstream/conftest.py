"""A scripted server, a client that speaks to it, and a certificate for 127.0.0.1."""

from __future__ import annotations

import ssl
from datetime import UTC, datetime, timedelta
from ipaddress import IPv4Address
from typing import TYPE_CHECKING

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from gateway.upstream.transport.http.client import HttpClient
from tests.support.raw_http_server import RawHttpServer, running

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path


@pytest.fixture
async def server() -> AsyncIterator[RawHttpServer]:
    async with running() as one:
        yield one


@pytest.fixture
async def client(server: RawHttpServer) -> AsyncIterator[HttpClient]:
    one = HttpClient(server.url, proxies={})
    yield one
    await one.aclose()


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A key and its self-signed certificate for 127.0.0.1 in one file."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "loopback")])
    now = datetime.now(UTC)
    names = x509.SubjectAlternativeName([x509.IPAddress(IPv4Address("127.0.0.1"))])
    built = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(names, critical=False)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    path = tmp_path_factory.mktemp("tls") / "both.pem"
    path.write_bytes(private + built.public_bytes(Encoding.PEM))
    return path


@pytest.fixture
def ours(certificate: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    return context


@pytest.fixture
def theirs(certificate: Path) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=certificate)
