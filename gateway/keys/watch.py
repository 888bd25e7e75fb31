"""SHELL: reads the keys file again when it has changed, and ends what its keys no longer allow."""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

import anyio

from gateway.keys.keys_file import MAX_BYTES, BadKeysFile, NamedKey, parse

if TYPE_CHECKING:
    from gateway.keys.ring import KeyRing

log = logging.getLogger("multilane")

#: Seconds between two looks at the file and at the clock.
_PACE: Final = 0.5


def read(path: str) -> tuple[NamedKey, ...]:
    """Return the keys in a file.

    Raises:
        BadKeysFile: It cannot be read or used; one line says why, and names the file.
    """
    try:
        with Path(path).expanduser().open("rb") as file:
            content = file.read(MAX_BYTES + 1)
        return parse(content)
    except OSError as error:
        raise BadKeysFile(f"{path!r} cannot be read: {error.strerror}") from None
    except BadKeysFile as bad:
        raise BadKeysFile(f"{path!r}: {bad}") from None


class KeysWatch:
    """Keeps a ring of keys as the file has them; a file that cannot be used leaves it as it is.

    Args:
        path: The file; without one it only looks after the clock.
        ring: The keys in force.

    Raises:
        BadKeysFile: The file cannot be used at the start.
    """

    def __init__(self, path: str | None, ring: KeyRing) -> None:
        self._path = path
        self._ring = ring
        self._seen = self._stamp()
        self._settling = self._seen
        if path is not None:
            ring.replace(self._read(path))

    async def run(self) -> None:
        """Look after the file and the clock until cancelled."""
        while True:
            await anyio.sleep(_PACE)
            self.look()
            for name, ended in self._ring.expire():
                log.info("key %s has expired, which ends %d open", name, ended)

    def look(self) -> None:
        """Read the file again if it has changed, and has been as it is since the last look.

        Until then somebody may be writing it, and what is not there yet would be revoked.
        """
        stamp = self._stamp()
        settled, self._settling = stamp == self._settling, stamp
        if settled and stamp != self._seen:
            self.reload()

    def reload(self) -> None:
        """Read the file now; if it cannot be used, say why and keep the keys in force."""
        if self._path is None:
            return
        self._seen = self._settling = self._stamp()
        try:
            change = self._ring.replace(self._read(self._path))
        except BadKeysFile as bad:
            log.warning("keys not reloaded, those before stay in force: %s", bad)
        else:
            log.info("keys reloaded: %s", change)

    def _read(self, path: str) -> tuple[NamedKey, ...]:
        keys = read(path)
        try:
            self._ring.check(keys)
        except ValueError as twice:
            raise BadKeysFile(f"{path!r}: {twice}") from None
        return keys

    def _stamp(self) -> tuple[int, ...] | None:
        """Return what changes whenever the file does; None if it is not to be had."""
        if self._path is None:
            return None
        try:
            status = os.stat(Path(self._path).expanduser())
        except OSError:
            return None
        return status.st_dev, status.st_ino, status.st_mtime_ns, status.st_ctime_ns, status.st_size
