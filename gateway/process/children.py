"""Child processes that die with this one, however it ends: Ctrl-C, SIGKILL, a crash.

A child starts as this very file in a bare interpreter. On Linux it asks the kernel for SIGKILL at
its parent's death and then becomes the program. Elsewhere it runs the program and kills it when
its standard input ends, a pipe that only the parent holds open. None of our code runs between fork
and exec, where a lock held by another thread would block it.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from typing import IO, TYPE_CHECKING, Final, NoReturn

if TYPE_CHECKING:
    from collections.abc import Sequence

LINUX = sys.platform == "linux"
LINE_BYTES: Final = 4096
#: Lines to keep: enough to find the awaited one, and to see why a child ended.
OUT_LINES: Final = 1000
TAIL_LINES: Final = 20
#: Prefix of our settings; some are secrets, so children do not inherit them.
PRIVATE: Final = "MULTILANE_"
PR_SET_PDEATHSIG: Final = 1


class ChildFailed(Exception):
    """A child ended or stayed silent instead of getting ready; quotes its last lines."""


class Child:
    """One child process. Reads all its output so that it never blocks, and keeps the end of it."""

    def __init__(self, process: subprocess.Popen[bytes], name: str) -> None:
        self.name = name
        self._process = process
        self._out: deque[str] = deque(maxlen=OUT_LINES)
        self._err: deque[str] = deque(maxlen=TAIL_LINES)
        self._open = 2
        self._changed = threading.Condition()
        for stream, kept in ((process.stdout, self._out), (process.stderr, self._err)):
            threading.Thread(target=self._read, args=(stream, kept), daemon=True).start()

    @property
    def pid(self) -> int:
        """Id of the process and of its process group."""
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        """Exit code: None while it runs, negative for the signal that ended it."""
        return self._process.poll()

    @property
    def tail(self) -> str:
        """Last lines of its stderr."""
        with self._changed:
            return "\n".join(self._err)

    def ready(self, prefix: str, timeout: float) -> str:
        """Return the rest of the first output line that starts with `prefix`. Blocks.

        Raises:
            ChildFailed: The child ended, or `timeout` seconds passed and it was stopped.
        """
        deadline = time.monotonic() + timeout
        with self._changed:
            while True:
                while self._out:
                    line = self._out.popleft()
                    if line.startswith(prefix):
                        return line.removeprefix(prefix).strip()
                left = deadline - time.monotonic()
                if left <= 0 or not self._open:
                    break
                self._changed.wait(left)
        late = left <= 0 and self.returncode is None
        code = self.stop()
        why = f"was not ready within {timeout:g} s" if late else f"ended early (code {code})"
        raise ChildFailed(f"{self.name} {why}; its last lines:\n{self.tail or '(none)'}")

    def stop(self, timeout: float = 5.0) -> int:
        """Stop it, by force after `timeout` seconds, and return its code. Blocks. Idempotent."""
        if self._process.poll() is None:
            _signal_group(self.pid, signal.SIGTERM)
            try:
                self._process.wait(timeout)
            except subprocess.TimeoutExpired:
                _signal_group(self.pid, signal.SIGKILL)
        code = self._process.wait()
        if self._process.stdin is not None:
            self._process.stdin.close()
        with self._changed:  # bounded: a grandchild may hold the streams open
            self._changed.wait_for(lambda: not self._open, 1.0)
        return code

    def _read(self, stream: IO[bytes], kept: deque[str]) -> None:
        with stream:
            while line := stream.readline(LINE_BYTES):
                with self._changed:
                    kept.append(line.decode("utf-8", "replace").rstrip())
                    self._changed.notify_all()
        with self._changed:
            self._open -= 1
            self._changed.notify_all()


def spawn(argv: Sequence[str], *, name: str = "child") -> Child:
    """Start a program that ends with this process, in its own session, out of reach of Ctrl-C."""
    # The kernel sends its signal when the *thread* that started the child ends: main thread only.
    main = threading.current_thread() is threading.main_thread()
    leash = "kernel" if LINUX and main else "pipe"
    process = subprocess.Popen(
        [sys.executable, "-I", "-S", __file__, leash, str(os.getpid()), *argv],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={key: value for key, value in os.environ.items() if not key.startswith(PRIVATE)},
        start_new_session=True,
    )
    return Child(process, name)


def _signal_group(group: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):  # it ended meanwhile
        os.killpg(group, number)


def _leashed(leash: str, parent: int, argv: list[str]) -> NoReturn:
    """Become the program, or run it and watch the parent. Runs in the child."""
    if leash == "kernel" and _ask_kernel():
        if os.getppid() != parent:  # it died before the request
            sys.exit(1)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # Python ignores it, and exec would keep that
        os.execvp(argv[0], argv)
    process = subprocess.Popen(argv, stdin=subprocess.DEVNULL)
    signal.signal(signal.SIGTERM, lambda *_: None)  # the program gets it, too, and its end is ours
    threading.Thread(target=_watch, daemon=True).start()
    code = process.wait()
    sys.exit(code if code >= 0 else 128 - code)


def _ask_kernel() -> bool:
    try:
        import ctypes

        return bool(ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) == 0)
    except (ImportError, AttributeError, OSError):
        return False


def _watch() -> None:
    while os.read(0, 1):
        pass
    os.killpg(0, signal.SIGKILL)


if __name__ == "__main__":
    try:
        _leashed(sys.argv[1], int(sys.argv[2]), sys.argv[3:])
    except OSError as error:
        sys.exit(f"cannot run {sys.argv[3]}: {error.strerror}")
