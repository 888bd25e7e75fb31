"""A start with a certificate: what is refused, by which words, and what is warned of."""

from __future__ import annotations

import logging
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)

from bench.loopback_certificate import key_and_certificate
from gateway.client.certificate import BadCertificate, Certificate

if TYPE_CHECKING:
    from collections.abc import Callable

    from click.testing import Result

BOTH = key_and_certificate()
KEY, CERT = BOTH[: BOTH.index(b"-----BEGIN CERT")], BOTH[BOTH.index(b"-----BEGIN CERT") :]
OTHER = key_and_certificate()
LOCKED = load_pem_private_key(KEY, None).private_bytes(
    Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"hush")
)


def test_a_pair_or_one_file_is_taken(run: Callable[..., Result], started: list[Any]) -> None:
    Path("cert").write_bytes(CERT)
    Path("key").write_bytes(KEY)
    Path("both").write_bytes(BOTH)
    Path("other way round").write_bytes(CERT + KEY)
    pairs = [["cert", "--tls-key", "key"], ["both"], ["other way round"]]
    for words in (["--tls-cert", *pair] for pair in pairs):
        said = run("serve", *words)
        assert (said.exit_code, said.stderr) == (0, "")
    assert [one[0].tls_key for one in started] == ["key", None, None]


@pytest.mark.parametrize(
    ("cert", "key", "why"),
    [
        (None, KEY, "--tls-cert: 'cert' cannot be read: No such file or directory"),
        (..., KEY, "--tls-cert: 'cert' cannot be read: Is a directory"),
        (b"", KEY, "--tls-cert: 'cert' holds no certificate in PEM that can be read"),
        (KEY, KEY, "--tls-cert: 'cert' holds no certificate in PEM that can be read"),
        (CERT[:-80], KEY, "--tls-cert: 'cert' holds no certificate in PEM that can be read"),
        (b"\xff" * 99, KEY, "--tls-cert: 'cert' holds no certificate in PEM that can be read"),
        (CERT * 3000, KEY, "--tls-cert: 'cert' is too large to be PEM"),
        (CERT, None, "--tls-key: 'key' cannot be read: No such file or directory"),
        (CERT, b"", "--tls-key: 'key' holds no private key in PEM that can be read"),
        (CERT, CERT, "--tls-key: 'key' holds no private key in PEM that can be read"),
        (CERT, KEY[:-60], "--tls-key: 'key' holds no private key in PEM that can be read"),
        (CERT, LOCKED, "--tls-key: 'key' is encrypted; the gateway takes a key without a password"),
        (CERT, OTHER, "--tls-key: 'key' is not the key of the certificate in 'cert'"),
    ],
)
def test_what_cannot_be_used_is_no_start(
    run: Callable[..., Result], started: list[Any], cert: Any, key: bytes | None, why: str
) -> None:
    for name, content in (("cert", cert), ("key", key)):
        if content is ...:
            Path(name).mkdir()
        elif content is not None:
            Path(name).write_bytes(content)
    refused = run("serve", "--tls-cert", "cert", "--tls-key", "key")
    assert refused.exit_code == 2
    assert why in refused.stderr
    assert len(refused.stderr.splitlines()) == 1
    assert not started


def test_a_key_alone_is_no_start(
    run: Callable[..., Result], started: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("cert").write_bytes(CERT)
    refused = run("serve", "--tls-key", "key")
    assert refused.exit_code == 2
    assert "--tls-cert" in refused.stderr
    monkeypatch.setenv("MULTILANE_TLS_CERT", "cert")
    refused = run("serve")
    assert "--tls-cert: 'cert' holds no private key in PEM that can be read" in refused.stderr
    assert not started


@pytest.mark.parametrize(
    ("days", "words"),
    [(2, "expired at "), (-2, "is valid from "), (0, "TLS by the certificate in")],
)
def test_one_that_no_client_accepts_is_warned_of(
    days: int, words: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "multilane")
    Path("both").write_bytes(BOTH)
    one = Certificate("both", None, lambda: datetime.now(UTC) + timedelta(days=days))
    assert not caplog.records
    one.reload()
    [line] = caplog.records
    assert words in line.getMessage()
    assert line.levelno == (logging.INFO if days == 0 else logging.WARNING)


def test_a_file_that_is_being_written_is_left_until_it_is_whole() -> None:
    path = Path("both")
    path.write_bytes(BOTH)
    one = Certificate("both", None)
    before = one.context()
    path.write_bytes(OTHER[:100])
    one.look()
    path.write_bytes(OTHER)
    one.look()
    assert one.context() is before
    one.look()
    assert one.context() is not before


def test_the_key_file_of_the_one_before_is_no_reason_to_end() -> None:
    Path("cert").write_bytes(CERT)
    Path("key").write_bytes(KEY)
    one = Certificate("cert", "key")
    before = one.context()
    Path("cert").write_bytes(OTHER)
    one.reload()
    assert one.context() is before
    Path("key").write_bytes(OTHER)
    one.reload()
    assert one.context() is not before
    with pytest.raises(BadCertificate):
        Certificate("cert", "nowhere")
