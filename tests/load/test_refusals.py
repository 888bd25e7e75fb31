"""`multilane load` where it does not get in: one line, exit code 2."""

from __future__ import annotations

import asyncio
import http
import json
import ssl
import sys
from typing import TYPE_CHECKING

import pytest
from anyio import fail_after, run_process

from tests.load.calls import invoke, run
from tests.load.stub import running
from tests.support.hang_guard import HANG

if TYPE_CHECKING:
    from pathlib import Path

    from websockets.asyncio.server import ServerConnection
    from websockets.http11 import Request, Response

    from tests.load.stub import Stub


async def test_the_key_is_sent(stub: Stub) -> None:
    def gate(connection: ServerConnection, request: Request) -> Response | None:
        if request.headers.get("Authorization") == "Bearer sesame":
            return None
        body = json.dumps({"error": {"message": "no such key"}})
        return connection.respond(http.HTTPStatus.UNAUTHORIZED, body)

    stub.gate = gate
    assert (await run(stub, "--key", "sesame")).exit_code == 0
    assert (await run(stub, env={"MULTILANE_LOAD_KEY": "sesame"})).exit_code == 0
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


@pytest.mark.parametrize("connections", ["1", "64"])
async def test_a_host_that_is_not_known(connections: str) -> None:
    url = "ws://no.such.invalid/v1/responses"
    command = (sys.executable, "-m", "gateway", "load", url, "--connections", connections)
    with fail_after(HANG):
        done = await run_process(command, check=False)
    assert done.returncode == 2
    [line] = done.stderr.decode().splitlines()
    assert line.startswith(f"Error: {url}: cannot connect: ")


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
    assert refused.stderr.startswith("Error: URL: 'ftp://example.com': expected ws://")
    assert refused.stderr.count("\n") == 1
