"""A scripted server, a client that speaks to it, and a certificate for 127.0.0.1."""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING

import pytest

from bench.loopback_certificate import key_and_certificate
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
    path = tmp_path_factory.mktemp("tls") / "both.pem"
    path.write_bytes(key_and_certificate())
    return path


@pytest.fixture
def ours(certificate: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    return context


@pytest.fixture
def theirs(certificate: Path) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=certificate)
