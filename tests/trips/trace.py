"""Records which project files a request passes through, in order."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from dis import opmap
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

ROOT = Path(__file__).resolve().parents[2]
_PACKAGES = tuple(f"{ROOT}/{name}/" for name in ("gateway", "lanes", "steering"))
#: Parts of the function around them; the interpreter gives them frames of their own, or not.
_INNER = frozenset({"<listcomp>", "<dictcomp>", "<setcomp>", "<genexpr>"})


class Trip:
    """The project files entered between two functions, which belong to the trip themselves.

    A call of a Python function enters the function's file. A return enters nothing, and neither
    does a coroutine or generator that goes on after it waited: its file was entered when it was
    called. Comprehensions are part of the function around them. Every call in this thread counts,
    whichever task makes it.

    Attributes:
        entered: The file of each call, in order, as a path below the project's root.
        over: Whether the trip came to its end.
    """

    def __init__(self, start: str, end: str) -> None:
        """Prepare a trip.

        Args:
            start: The function whose first call begins the trip, as `path/of/file.py:name`.
            end: The function whose first return after that ends it.
        """
        self.entered: list[str] = []
        self.over = False
        self._start, self._end = start, end
        self._began = False

    @property
    def files(self) -> list[str]:
        """The distinct files, in the order of their first entry."""
        return list(dict.fromkeys(self.entered))

    @property
    def steps(self) -> list[str]:
        """The files entered, calls in a row as one."""
        before = ["", *self.entered]
        return [file for file, last in zip(self.entered, before, strict=False) if file != last]

    @property
    def changes(self) -> int:
        """How often a call enters another file than the call before it."""
        return len(self.steps) - 1

    def see(self, frame: FrameType, event: str, _: Any) -> None:
        """Take one event of `sys.setprofile`."""
        code = frame.f_code
        if self.over or code.co_name in _INNER or not code.co_filename.startswith(_PACKAGES):
            return
        file = code.co_filename[len(str(ROOT)) + 1 :]
        name = f"{file}:{code.co_name}"
        if event == "call":
            self._began = self._began or name == self._start
            if self._began and not _goes_on(frame):
                self.entered.append(file)
        elif event == "return" and self._began and name == self._end:
            self.over = True


def _goes_on(frame: FrameType) -> bool:
    """Return whether a call event is that of a coroutine or generator which waited.

    The instruction at hand is RESUME then; the two low bits of its argument are 0 at the start of
    a function only.
    """
    code, at = frame.f_code.co_code, max(frame.f_lasti, 0)
    return code[at] == opmap["RESUME"] and bool(code[at + 1] & 3)


@contextmanager
def recorded(start: str, end: str) -> Iterator[Trip]:
    """Record a trip of this thread while the block runs.

    Args:
        start: The function whose first call begins the trip, as `path/of/file.py:name`.
        end: The function whose first return after that ends it.
    """
    trip = Trip(start, end)
    before = sys.getprofile()
    sys.setprofile(trip.see)
    try:
        yield trip
    finally:
        sys.setprofile(before)
    steps = "\n".join(trip.steps)
    assert trip.over, f"the trip did not come to {end}:\n{steps}"
