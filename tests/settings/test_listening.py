"""Where the gateway listens: taken first, told in one line when it cannot be, and named in URLs."""

from __future__ import annotations

import errno
import socket
import subprocess
import sys
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from gateway.process import listening
from gateway.process.listening import BindFailed, Listener, listen

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

ROOT = __file__.rpartition("/tests/")[0]


def test_a_free_port_is_told() -> None:
    with closing(listen("127.0.0.1", 0)) as listener:
        assert listener.port > 0
        assert listener.place == f"127.0.0.1:{listener.port}"
        with socket.create_connection(("127.0.0.1", listener.port), 5):
            pass
    assert Listener("::1", 80, []).place == "[::1]:80"


def test_a_name_has_one_port_on_all_of_its_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    """The port that is free on the first may be taken on the second."""
    addresses = _addresses("127.0.0.1", "127.0.0.2")
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: addresses)
    with closing(listen("name", 0)) as listener:
        places = [one.getsockname() for one in listener.sockets]
        assert places == [("127.0.0.1", listener.port), ("127.0.0.2", listener.port)]
    with socket.create_server(("127.0.0.2", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(BindFailed, match="in use"):
            listen("name", port)
        with socket.create_server(("127.0.0.1", port)):
            pass  # nothing was left behind there


def test_an_address_that_this_machine_lacks_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    addresses = _addresses("192.0.2.1", "127.0.0.1")
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: addresses)
    with closing(listen("name", 0)) as listener:
        assert [one.getsockname()[0] for one in listener.sockets] == ["127.0.0.1"]


def test_a_free_port_is_looked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    tries = []

    def one(family: int, address: tuple[str, int]) -> socket.socket:
        tries.append(address)
        raise OSError(errno.EADDRINUSE, "Address already in use")

    monkeypatch.setattr(listening, "_one", one)
    with pytest.raises(BindFailed):
        listen("127.0.0.1", 0)
    assert tries == [("127.0.0.1", 0)] * listening.ATTEMPTS


@pytest.fixture
def taken() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as held:
        yield held.getsockname()[1]


@pytest.mark.parametrize("command", ["serve", "demo", "rehearse"])
def test_a_port_in_use(command: str, taken: int, clean: Path) -> None:
    ways = "--port" if command == "rehearse" else "--port or MULTILANE_PORT"
    line = f"--port: {taken} on 127.0.0.1 is in use; choose another with {ways}"
    refused([command, "--port", str(taken)], line)


@pytest.mark.parametrize("command", [["serve", "--allow-open"], ["rehearse"]])
def test_an_address_of_another_machine(command: list[str], clean: Path) -> None:
    line = "--host: 192.0.2.1 is no address of this machine"
    refused([*command, "--host", "192.0.2.1", "--port", "0"], line)


def test_an_unknown_name() -> None:
    with pytest.raises(BindFailed, match=r"^--host: no\.such\.invalid is not known here: \w"):
        listen("no.such.invalid", 0)
    with pytest.raises(BindFailed, match=r"^--host: .* is not known here: it is no host name$"):
        listen("a" * 70, 0)


def test_other_reasons(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(number: int, text: str) -> Callable[..., socket.socket]:
        def one(family: int, address: tuple[str, int]) -> socket.socket:
            raise OSError(number, text)

        return one

    monkeypatch.setattr(listening, "_one", refuse(13, "Permission denied"))
    with pytest.raises(
        BindFailed, match=r"--port: 80 on 127\.0\.0\.1 is for privileged users only; "
    ):
        listen("127.0.0.1", 80)
    monkeypatch.setattr(listening, "_one", refuse(5, "odd"))
    with pytest.raises(
        BindFailed, match=r"--port: 80 on 127\.0\.0\.1 cannot be listened on: odd; "
    ):
        listen("127.0.0.1", 80)


def refused(words: list[str], line: str) -> None:
    """One line and exit code 2, and nothing was announced before it."""
    done = subprocess.run(
        [sys.executable, "-m", "gateway", *words],
        env={"PYTHONPATH": ROOT},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"Error: {line}\n")


def _addresses(*hosts: str) -> list[tuple[object, ...]]:
    return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (host, 0)) for host in hosts]
