"""Where in Redis the items of a stored response are. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from lanes.stores.base import UnreadableResponse
from lanes.stores.packing import pack, unpack

if TYPE_CHECKING:
    from collections.abc import Sequence

#: A branch and a position in it.
BranchStep = tuple[str, int]


class ChainPlace(msgspec.Struct, frozen=True, array_like=True):
    """The forks on the way from the root, then the response's own branch and position.

    `length` counts the items up to here, in all.
    """

    length: int
    forks: tuple[BranchStep, ...]
    branch: str
    position: int

    @property
    def steps(self) -> tuple[BranchStep, ...]:
        """How far to read in which branches, oldest first."""
        return (*self.forks, (self.branch, self.position))

    def pack(self) -> bytes:
        """Write it down."""
        return pack(msgspec.msgpack.encode(self))

    @classmethod
    def unpack(cls, packed: bytes) -> ChainPlace:
        """Read it. Raises UnreadableResponse."""
        try:
            return _decoder.decode(unpack(packed))
        except msgspec.DecodeError as error:
            raise UnreadableResponse from error

    def whole(self, parts: Sequence[Sequence[bytes]], response_id: str) -> bool:
        """Whether the branches hold what this says, and end with the response."""
        lengths = all(
            len(part) == 2 * position + 2
            for part, (_, position) in zip(parts, self.steps, strict=True)
        )
        return lengths and parts[-1][-2][1:] == response_id.encode()


_decoder = msgspec.msgpack.Decoder(ChainPlace)
