"""The names of the tools that a request declares, and names that come in pieces. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class ToolNames:
    """The names that a model may call; those of `custom` tools take one text.

    Nothing is known where the request declares none: a model may call what it has read about.
    """

    names: frozenset[str] = frozenset()
    custom: frozenset[str] = frozenset()

    def begin_with(self, text: str) -> bool:
        """Return whether a name begins with this text, or is it."""
        return any(name.startswith(text) for name in self.names)

    def leave_open(self, name: str) -> bool:
        """Return whether `name` may be the beginning of a longer one."""
        if not self.names:
            return True
        return any(known != name and known.startswith(name) for known in self.names)

    def joined(self, name: str, piece: str, *, same_place: bool) -> str | None:
        """Return the name that a name and its next piece are; None if the piece is another name.

        A piece may be more of the name, all of it so far, or the whole name once more.

        Args:
            name: What came before; not empty.
            piece: What came now; not empty.
            same_place: Whether the backend says that both are of one call.
        """
        if piece.startswith(name) and (not self.names or self.begin_with(piece)):
            doubled = piece == name and name not in self.names and self.begin_with(name + piece)
            return name + piece if doubled and self.names else piece
        if self.begin_with(name + piece):
            return name + piece
        if piece == name:
            return name
        if not same_place or piece in self.names or name in self.names:
            return None
        return name + piece


NO_NAMES: Final = ToolNames()
