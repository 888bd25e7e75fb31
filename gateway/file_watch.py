"""SHELL: notices that files have changed, once they have stayed as they are."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

#: Seconds between two looks.
PACE: Final = 0.5

_Stamp = tuple[int, ...] | None


class FileWatch:
    """Some files, and how they were when they were read last.

    Args:
        paths: The files, which belong together.
    """

    def __init__(self, *paths: str) -> None:
        self._paths = [Path(path).expanduser() for path in paths]
        self.note()

    def note(self) -> None:
        """Note how the files are: they are read now."""
        self._seen = self._settling = self._stamps()

    def changed(self) -> bool:
        """Return whether they have changed since, and not since this was asked last.

        Until then somebody may be writing them.
        """
        stamps = self._stamps()
        settled, self._settling = stamps == self._settling, stamps
        return settled and stamps != self._seen

    def _stamps(self) -> list[_Stamp]:
        return [_stamp(path) for path in self._paths]


def _stamp(path: Path) -> _Stamp:
    """Return what changes whenever the file does; None if it is not to be had."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino, status.st_mtime_ns, status.st_ctime_ns, status.st_size
