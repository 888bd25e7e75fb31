"""`multilane demo` runs, and the lines of Python it prints do what it says."""

from __future__ import annotations

import sys
import textwrap

import anyio
import pytest
from anyio import to_thread

from gateway.process.children import spawn
from gateway.process.demo import how_to_try


@pytest.mark.real
@pytest.mark.usefixtures("llama_url")
async def test_the_printed_lines_work() -> None:
    options = ["--port", "0", "--redis-url", "memory"]
    child = spawn([sys.executable, "-m", "gateway", "demo", *options])
    try:
        before, after = how_to_try("127.0.0.1", 0, keyed=False).splitlines()[0].split("0/v1")
        told = await to_thread.run_sync(child.ready, before, 60)
        port = int(told.removesuffix(after).removesuffix("/v1"))
        _, code = how_to_try("127.0.0.1", port, keyed=False).split("\n\n", 1)
        with anyio.fail_after(60):
            command = [sys.executable, "-c", textwrap.dedent(code)]
            done = await anyio.run_process(command, check=False)
    finally:
        await to_thread.run_sync(child.stop)
    assert done.returncode == 0, done.stderr.decode()
    assert "a [steered]" in done.stdout.decode().splitlines()
    lanes = [line.split(" ", 1)[0] for line in done.stdout.decode().splitlines()]
    assert lanes.count("a") > 10
    assert lanes.count("b") > 10
    assert "".join(lanes).count("ab") > 3, "the lanes did not run at once"


@pytest.mark.parametrize(
    ("host", "keyed", "expected"),
    [
        ("127.0.0.1", False, 'base_url="http://127.0.0.1:9/v1", api_key="none needed"'),
        ("0.0.0.0", True, 'base_url="http://127.0.0.1:9/v1", api_key="your key"'),
        ("::", True, 'base_url="http://[::1]:9/v1", api_key="your key"'),
        ("fd00::1", True, 'base_url="http://[fd00::1]:9/v1", api_key="your key"'),
        ("gw.example", True, 'base_url="http://gw.example:9/v1", api_key="your key"'),
    ],
)
def test_the_printed_lines_fit_the_settings(host: str, keyed: bool, expected: str) -> None:
    assert expected in how_to_try(host, 9, keyed=keyed)
