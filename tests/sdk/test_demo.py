"""`multilane demo` runs, and the lines of Python it prints do what it says."""

from __future__ import annotations

import socket
import sys
import textwrap

import anyio
import click
import pytest
from anyio import to_thread

from gateway.children import spawn
from gateway.demo import how_to_try, run
from gateway.settings import Settings

pytestmark = [pytest.mark.real, pytest.mark.timeout(90)]


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as held:
        port: int = held.getsockname()[1]
        return port


async def _listening(port: int) -> None:
    with anyio.fail_after(30):
        while True:
            try:
                await (await anyio.connect_tcp("127.0.0.1", port)).aclose()
            except OSError:
                await anyio.sleep(0.05)
            else:
                return


@pytest.mark.usefixtures("llama_url")
async def test_the_printed_lines_work() -> None:
    port = _free_port()
    printed = how_to_try(Settings(port=port))
    first, code = printed.split("\n\n", 1)
    child = spawn([sys.executable, "-m", "gateway", "demo", "--port", str(port)])
    try:
        await to_thread.run_sync(child.ready, first.splitlines()[0], 60)
        await _listening(port)
        with anyio.fail_after(60):
            command = [sys.executable, "-c", textwrap.dedent(code)]
            done = await anyio.run_process(command, check=False)
    finally:
        await to_thread.run_sync(child.stop)
    assert done.returncode == 0, done.stderr.decode()
    lanes = [line.split(" ", 1)[0] for line in done.stdout.decode().splitlines()]
    assert lanes.count("a") > 10
    assert lanes.count("b") > 10
    assert "".join(lanes).count("ab") > 3, "the lanes did not run at once"


def test_missing_wheels_are_one_clear_message(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.llama.find_spec", lambda name: None)
    with pytest.raises(click.ClickException, match="run `make demo`"):
        run(Settings())


def test_the_printed_lines_fit_the_settings() -> None:
    assert 'base_url="http://127.0.0.1:9/v1", api_key="none needed"' in how_to_try(Settings(port=9))
    open_to_all = Settings(host="0.0.0.0", api_keys=("k" * 32,))
    assert 'base_url="http://127.0.0.1:8080/v1", api_key="your key"' in how_to_try(open_to_all)
