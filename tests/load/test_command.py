"""`multilane load` against a socket that behaves, and against one that does not."""

from __future__ import annotations

import asyncio
import http
import json
import signal
import ssl
import sys
from datetime import UTC, datetime, timedelta
from ipaddress import IPv4Address
from typing import TYPE_CHECKING, Any

import pytest
from anyio import fail_after, to_thread
from click.testing import CliRunner, Result
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from gateway.load.command import load
from tests.load.script import FAULTS, Events
from tests.load.stub import Stub, running

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from websockets.asyncio.server import ServerConnection
    from websockets.http11 import Request, Response

    from gateway.load.faults import Rule

SMALL = ["--connections", "2", "--lanes", "3", "--responses", "3", "--timeout", "5"]


@pytest.fixture
def stub() -> Stub:
    return Stub()


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A key and its self-signed certificate for 127.0.0.1 in one file."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "loopback")])
    now = datetime.now(UTC)
    address = x509.IPAddress(IPv4Address("127.0.0.1"))
    built = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([address]), critical=False)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    path = tmp_path_factory.mktemp("tls") / "both.pem"
    path.write_bytes(private + built.public_bytes(Encoding.PEM))
    return path


async def run(stub: Stub, *options: str, env: dict[str, str] | None = None) -> Result:
    async with running(stub) as url:
        return await invoke(url, *options, env=env)


async def invoke(url: str, *options: str, env: dict[str, str] | None = None) -> Result:
    def call() -> Result:
        return CliRunner().invoke(load, [url, *SMALL, *options], env=env, catch_exceptions=False)

    with fail_after(15):
        return await to_thread.run_sync(call)


async def numbers(stub: Stub, *options: str) -> tuple[int, dict[str, Any]]:
    result = await run(stub, "--json", *options)
    found: dict[str, Any] = json.loads(result.stdout)
    return result.exit_code, found


@pytest.mark.parametrize("options", [[], ["--ahead"], ["--rate", "300"], ["--fork-share", "1"]])
async def test_a_right_gateway_passes(stub: Stub, options: list[str]) -> None:
    code, found = await numbers(stub, *options)
    assert (code, found["violations"]["count"], found["errors"]) == (0, 0, {})
    assert found["responses"]["completed"] == found["responses"]["sent"] == 18
    assert found["responses"]["unfinished"] == 0
    assert found["events"] == 18 * 24
    assert found["gap_ms"]["max"] >= found["gap_ms"]["p99"] >= found["gap_ms"]["p50"] >= 0
    assert found["total_ms"]["p50"] >= found["time_to_first_event_ms"]["p50"] >= 0
    assert stub.pongs == 2


async def test_creates_continue_and_fork(stub: Stub) -> None:
    _, found = await numbers(stub, "--model", "m", "--fork-share", "0.5", "--input", "hi")
    owner = {f"resp_{n:032x}": c["stream_id"] for n, c in enumerate(stub.creates, 1)}
    parents = [c for c in stub.creates if "previous_response_id" in c]
    forks = [c for c in parents if owner[c["previous_response_id"]] != c["stream_id"]]
    assert len(parents) >= 12
    assert 0 < len(forks) == found["responses"]["forks"]
    assert {c["model"] for c in stub.creates} == {"m"}
    assert {c["stream_id"] for c in stub.creates} == {"lane-0", "lane-1", "lane-2"}
    assert len({c["input"] for c in stub.creates}) == 18


@pytest.mark.parametrize(("spoil", "rule"), FAULTS.values(), ids=FAULTS.keys())
async def test_a_planted_fault_makes_the_exit_code_1(
    stub: Stub, spoil: Callable[[Events], None], rule: Rule
) -> None:
    stub.spoil = spoil
    code, found = await numbers(stub)
    assert code == 1
    assert rule in found["violations"]["rules"]
    assert found["responses"]["completed"] == 18


def _on_another_lane(events: Events) -> None:
    events[8]["stream_id"] = "lane-0" if events[8]["stream_id"] != "lane-0" else "lane-1"


def _on_no_lane(events: Events) -> None:
    del events[8]["stream_id"]


def _no_terminal(events: Events) -> None:
    events.pop()


@pytest.mark.parametrize(
    ("spoil", "rules"),
    [
        (_on_another_lane, {"number", "text"}),
        (_on_no_lane, {"lane", "number"}),
        (_no_terminal, {"unanswered"}),
        (list.clear, {"unanswered"}),
        (lambda events: events[8].update(type=None), {"shape", "number"}),
    ],
    ids=["another lane", "no lane", "no terminal", "no answer", "no type"],
)
async def test_faults_between_lanes(
    stub: Stub, spoil: Callable[[Events], None], rules: set[str]
) -> None:
    stub.spoil = spoil
    code, found = await numbers(stub, "--timeout", "0.3")
    assert code == 1
    assert rules <= set(found["violations"]["rules"])


async def test_the_first_violations_are_printed_with_their_event(stub: Stub) -> None:
    stub.spoil = FAULTS["a delta lost"][0]
    result = await run(stub)
    assert result.exit_code == 1
    assert "violations by rule" in result.output
    assert "expected" in result.output
    assert '"sequence_number"' in result.output.replace("\n", "")


async def test_the_tables(stub: Stub) -> None:
    result = await run(stub)
    assert result.exit_code == 0
    for words in ("18 completed", "events/s", "time to first delta", "p99", "no violations"):
        assert words in result.output


async def test_a_terminal_sees_the_run_live(stub: Stub) -> None:
    terminal = {"FORCE_COLOR": "1"}
    shown = await run(stub, env=terminal)
    assert "18 done, 0 on their way" in shown.stderr
    assert "18 completed" in shown.stdout
    assert (await run(stub, "--json", env=terminal)).stderr == ""


async def test_errors_are_counted_and_no_violation(stub: Stub) -> None:
    stub.error = {"type": "error", "status": 429, "error": {"code": "too_many", "message": "wait"}}
    code, found = await numbers(stub)
    assert (code, found["errors"], found["violations"]["count"]) == (0, {"too_many": 1}, 0)
    assert found["responses"]["refused"] == 1
    assert found["responses"]["completed"] == 17


async def test_a_refused_continuation_is_followed_by_a_new_chain(stub: Stub) -> None:
    stub.at = 7  # the six lanes have each begun
    stub.error = {"type": "error", "status": 404, "error": {"code": "gone", "message": "gone"}}
    _, found = await numbers(stub, "--fork-share", "0")
    refused = stub.creates[6]
    assert "previous_response_id" in refused
    assert found["errors"] == {"gone": 1}
    assert len([c for c in stub.creates if "previous_response_id" not in c]) == 6 + 1


async def test_a_lost_connection_leaves_its_lanes_unanswered(stub: Stub) -> None:
    stub.hang_up = True
    code, found = await numbers(stub)
    assert code == 1
    assert found["errors"] == {"closed with 1011 (on purpose)": 1}
    assert set(found["violations"]["rules"]) == {"unanswered"}


async def test_fragmented_messages(stub: Stub) -> None:
    stub.fragment = True
    code, found = await numbers(stub)
    assert (code, found["responses"]["completed"]) == (0, 18)


async def test_slow_readers_read_all_and_are_left_out_of_the_timings(stub: Stub) -> None:
    options = ["--slow-readers", "1", "--lanes", "1", "--responses", "1"]
    code, found = await numbers(stub, *options)
    assert (code, found["responses"]["completed"], found["slow_readers"]) == (0, 2, 1)
    code, found = await numbers(Stub(), *options, "--connections", "1")
    assert (code, found["responses"]["completed"], found["total_ms"]["max"]) == (0, 1, None)


async def test_duration_ends_an_endless_run(stub: Stub) -> None:
    code, found = await numbers(stub, "--responses", "0", "--duration", "0.3", "--rate", "50")
    assert code == 0
    assert 5 <= found["responses"]["completed"] == found["responses"]["sent"] < 50


async def test_the_key_is_sent(stub: Stub) -> None:
    def gate(connection: ServerConnection, request: Request) -> Response | None:
        if request.headers.get("Authorization") == "Bearer sesame":
            return None
        body = json.dumps({"error": {"message": "no such key"}})
        return connection.respond(http.HTTPStatus.UNAUTHORIZED, body)

    stub.gate = gate
    assert (await run(stub, "--key", "sesame")).exit_code == 0
    assert (await run(stub, env={"MULTILANE_API_KEY": "sesame"})).exit_code == 0
    refused = await run(stub, "--json")
    assert refused.exit_code == 2
    assert refused.stdout == ""
    assert refused.stderr.endswith("the upgrade was refused with 401: no such key\n")
    assert refused.stderr.count("\n") == 1


async def test_tls(stub: Stub, certificate: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    async with running(stub, context) as url:
        distrusted = await invoke(url)
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        trusted = await invoke(url)
    assert distrusted.exit_code == 2
    assert "CERTIFICATE_VERIFY_FAILED" in distrusted.stderr
    assert trusted.exit_code == 0
    assert "18 completed" in trusted.output


async def test_nobody_there(stub: Stub) -> None:
    async with running(stub) as url:
        pass
    refused = await invoke(url)
    assert refused.exit_code == 2
    assert "cannot connect" in refused.stderr
    assert refused.stderr.count("\n") == 1


async def test_no_websocket_there() -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readline()
        writer.write(b"SSH-2.0-nope\r\n\r\n")
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(talk, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        refused = await invoke(f"http://127.0.0.1:{port}/v1")
    assert refused.exit_code == 2
    assert "did not receive a valid HTTP response" in refused.stderr


async def test_no_answer_to_the_upgrade() -> None:
    async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    async with await asyncio.start_server(listen, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        refused = await invoke(f"http://127.0.0.1:{port}/v1", "--timeout", "0.2")
    assert refused.exit_code == 2
    assert "no answer to the upgrade within 0.2 s" in refused.stderr


async def test_a_wrong_url_is_said_so() -> None:
    refused = await invoke("ftp://example.com")
    assert refused.exit_code == 2
    assert "expected ws://" in refused.stderr


async def test_ctrl_c_prints_the_report_so_far(stub: Stub) -> None:
    code = "from gateway.load.command import load; load()"
    async with running(stub) as url:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", code, url, "--responses", "0", "--json"),
            stdout=asyncio.subprocess.PIPE,
        )
        with fail_after(10):
            await stub.busy.wait()
            process.send_signal(signal.SIGINT)
            out, _ = await process.communicate()
    found = json.loads(out)
    assert process.returncode == 130
    assert found["interrupted"]
    assert found["violations"]["count"] == 0
    assert found["responses"]["completed"] > 0
