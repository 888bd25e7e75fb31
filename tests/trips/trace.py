"""Records which project files a request passes through, in order."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

ROOT = Path(__file__).resolve().parents[2]
_PACKAGES = tuple(f"{ROOT}/{name}/" for name in ("gateway", "lanes", "steering"))
#: Frames of their own up to Python 3.11, part of the function around them later.
_INLINED = frozenset({"<listcomp>", "<dictcomp>", "<setcomp>"})


class Trip:
    """The project files entered between two functions, which belong to the trip themselves.

    A file is entered when one of its Python functions is called, or when one of its generators or
    coroutines is resumed. Returning to a caller enters nothing, and neither does a list, dict or
    set comprehension. Everything that runs in this thread counts, whichever task runs it.

    Attributes:
        entered: The file of each call, in order, as a path below the project's root.
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
    def changes(self) -> int:
        """How often a call goes into another file than the call before it."""
        return sum(one != other for one, other in zip(self.entered, self.entered[1:], strict=False))

    @property
    def way(self) -> str:
        """The files line by line, calls in a row as one: for whoever wants to shorten the trip."""
        steps = [
            one
            for one, before in zip(self.entered, ["", *self.entered], strict=False)
            if one != before
        ]
        return "\n".join(steps)

    def see(self, frame: FrameType, event: str, _: Any) -> None:
        """Take one event of `sys.setprofile`."""
        code = frame.f_code
        if self.over or event not in ("call", "return") or code.co_name in _INLINED:
            return
        if not code.co_filename.startswith(_PACKAGES):
            return
        file = code.co_filename[len(str(ROOT)) + 1 :]
        name = f"{file}:{code.co_name}"
        if event == "call":
            self._began = self._began or name == self._start
            if self._began:
                self.entered.append(file)
        elif self._began and name == self._end:
            self.over = True


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
    assert trip.over, f"the trip did not come to {end}:\n{trip.way}"
