"""Children: ready lines, an orderly end, and no survivors when their parent is killed."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from typing import TYPE_CHECKING

import pytest

from gateway.process import children
from gateway.process.children import ChildFailed, spawn
from tests.support.hang_guard import HANG

if TYPE_CHECKING:
    from pathlib import Path

ROOT = __file__.rpartition("/tests/")[0]
#: Connects and stays; whoever listens sees the connection end when the process does.
STAY = (
    "import socket, sys, time\n"
    "s = socket.create_connection(('127.0.0.1', int(sys.argv[1])))\n"
    "print('ready stay', flush=True)\n"
    "while True: time.sleep(60)\n"
)
PARENT = (
    "import sys, threading, time\n"
    "from gateway.process import children\n"
    "def go():\n"
    "    child = children.spawn([sys.executable, '-c', sys.argv[2], sys.argv[1]])\n"
    "    child.ready('ready ', 10)\n"
    "    print('up', flush=True)\n"
    "if sys.argv[3] == 'thread':\n"
    "    t = threading.Thread(target=go); t.start(); t.join()\n"
    "else:\n"
    "    go()\n"
    "while True: time.sleep(60)\n"
)


def script(code: str) -> list[str]:
    return [sys.executable, "-c", code]


@pytest.fixture(params=["here", "pipe"])
def leash(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """As this system does it, and as systems without a parent-death signal do."""
    if request.param == "pipe":
        monkeypatch.setattr(children, "LINUX", False)
    return str(request.param)


@pytest.mark.usefixtures("leash")
def test_ready_then_stop() -> None:
    child = spawn(script("import time; print('x'); print('ready a b', flush=True); time.sleep(60)"))
    assert child.ready("ready ", 10) == "a b"
    running = child.returncode
    assert running is None
    assert os.getpgid(child.pid) == child.pid != os.getpgid(0)
    assert child.stop() != 0
    assert child.stop() == child.returncode
    with pytest.raises(ProcessLookupError):
        os.kill(child.pid, 0)


@pytest.mark.usefixtures("leash")
def test_one_that_will_not_end_is_killed() -> None:
    code = (
        "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "print('ready', flush=True); time.sleep(60)"
    )
    child = spawn(script(code))
    child.ready("ready", 10)
    assert child.stop(0.1) == -signal.SIGKILL


@pytest.mark.usefixtures("leash")
def test_an_early_end_tells_why() -> None:
    child = spawn(script("import sys; print('no'); sys.exit('the port is taken')"), name="backend")
    with pytest.raises(ChildFailed) as failed:
        child.ready("ready ", 10)
    assert str(failed.value) == "backend ended early (code 1); its last lines:\nthe port is taken"


@pytest.mark.usefixtures("leash")
def test_a_program_that_is_not_there() -> None:
    with pytest.raises(ChildFailed, match="cannot run no-such-program: No such file"):
        spawn(["no-such-program"]).ready("ready ", 10)


def test_silence_has_an_end() -> None:
    child = spawn(script("import time; time.sleep(60)"), name="backend")
    with pytest.raises(ChildFailed, match=r"backend was not ready within 0.1 s"):
        child.ready("ready ", 0.1)
    assert child.returncode is not None


def test_a_talkative_child_never_blocks() -> None:
    code = (
        "import sys\nfor i in range(20000): print('x' * 60); print('y' * 60, file=sys.stderr)\n"
        "print('z' * 100000); print('done', file=sys.stderr)"
    )
    child = spawn(script(code))
    with pytest.raises(ChildFailed, match="done"):
        child.ready("ready", 15)
    assert child.tail.count("\n") < children.TAIL_LINES


def test_our_settings_stay_with_us(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MULTILANE_API_KEYS", "sk-hush")
    monkeypatch.setenv("OTHER", "kept")
    code = "import os; print('ready', os.environ.get('MULTILANE_API_KEYS'), os.environ['OTHER'])"
    child = spawn(script(code))
    assert child.ready("ready ", 10) == "None kept"
    child.stop()


def test_standard_input_is_empty() -> None:
    child = spawn(script("import sys; print('ready', repr(sys.stdin.read()))"))
    assert child.ready("ready ", 10) == "''"
    child.stop()


def test_a_thread_that_ends_takes_no_child_along() -> None:
    code = (
        "import time; print('ready', flush=True); time.sleep(0.3); print('still here', flush=True)"
    )
    spawned: list[children.Child] = []

    def start() -> None:
        spawned.append(spawn(script(code)))
        spawned[0].ready("ready", 10)

    thread = threading.Thread(target=start)
    thread.start()
    thread.join()
    assert spawned[0].ready("still", 10) == "here"
    spawned[0].stop()


@pytest.mark.parametrize("where", ["main", "thread", "other"])
def test_killed_parents_leave_nobody_behind(where: str, tmp_path: Path) -> None:
    program = (
        PARENT if where != "other" else PARENT.replace("def go", "children.LINUX = False\ndef go")
    )
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(HANG)
        parent = subprocess.Popen(
            [*script(program), str(server.getsockname()[1]), STAY, where],
            env=os.environ | {"PYTHONPATH": ROOT},
            stdout=subprocess.PIPE,
            cwd=tmp_path,
        )
        with parent:
            connection, _ = server.accept()
            with connection:
                connection.settimeout(HANG)
                assert parent.stdout is not None
                assert parent.stdout.readline() == b"up\n"
                parent.kill()
                assert connection.recv(1) == b""
