"""SHELL: reads the keys file again when it has changed, and ends what its keys no longer allow."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING

import anyio

from gateway.file_watch import PACE, FileWatch
from gateway.keys.keys_file import MAX_BYTES, BadKeysFile, NamedKey, parse

if TYPE_CHECKING:
    from gateway.keys.ring import KeyRing

log = logging.getLogger("multilane")


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
        self._file = FileWatch(*([] if path is None else [path]))
        if path is not None:
            ring.replace(self._read(path))

    async def run(self) -> None:
        """Look after the file and the clock until cancelled."""
        while True:
            await anyio.sleep(PACE)
            self.look()
            for name, ended in self._ring.expire():
                log.info("key %s has expired, which ends %d open", name, ended)

    def look(self) -> None:
        """Read the file again if it has changed, and has been as it is since the last look.

        Until then somebody may be writing it, and what is not there yet would be revoked.
        """
        if self._file.changed():
            self.reload()

    def reload(self) -> None:
        """Read the file now; if it cannot be used, say why and keep the keys in force."""
        if self._path is None:
            return
        self._file.note()
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
