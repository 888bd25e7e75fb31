"""MACHINE: what could not be stored, and why, for as long as a process remembers it (D29)."""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

#: Records remembered of one key, and in all.
PER_KEY: Final = 1024
IN_ALL: Final = 16_384


class LostRecords:
    """Remembers lost records by key; over a limit the oldest of the key that has most go first.

    Args:
        per_key: Records remembered of one key.
        in_all: Records remembered in all.
    """

    def __init__(self, per_key: int = PER_KEY, in_all: int = IN_ALL) -> None:
        self._per_key = per_key
        self._in_all = in_all
        self._count = 0
        # Key id -> record id -> why, the oldest first; no empty ones.
        self._lost: dict[str, OrderedDict[str, str]] = {}

    def __len__(self) -> int:
        return self._count

    def add(self, key_id: str, name: str, reason: str) -> None:
        """Remember that a record is lost.

        Args:
            key_id: The API key whose it is.
            name: Its id.
            reason: Why it is lost.
        """
        self.forget(key_id, name)
        mine = self._lost.setdefault(key_id, OrderedDict())
        mine[name] = reason
        self._count += 1
        if len(mine) > self._per_key:
            self._drop_oldest(key_id)
        elif self._count > self._in_all:
            self._drop_oldest(max(self._lost, key=lambda key: len(self._lost[key])))

    def reason(self, key_id: str, name: str) -> str | None:
        """Return why a record of this key is lost; None if nothing is known of that."""
        mine = self._lost.get(key_id)
        return None if mine is None else mine.get(name)

    def forget(self, key_id: str, name: str) -> bool:
        """Forget about a record; return whether it was remembered."""
        mine = self._lost.get(key_id)
        if mine is None or name not in mine:
            return False
        del mine[name]
        self._shrunk(key_id)
        return True

    def _drop_oldest(self, key_id: str) -> None:
        self._lost[key_id].popitem(last=False)
        self._shrunk(key_id)

    def _shrunk(self, key_id: str) -> None:
        self._count -= 1
        if not self._lost[key_id]:
            del self._lost[key_id]
