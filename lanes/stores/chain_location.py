"""Where Redis keeps the items of a stored chain: which branches, and how far to read in each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import msgspec

from lanes.stores.base import UnreadableResponse
from lanes.stores.packing import pack, unpack

if TYPE_CHECKING:
    from collections.abc import Sequence

#: A response's position in its branch, from 0.
Position = Annotated[int, msgspec.Meta(ge=0)]
#: The name of a branch and a position in it.
BranchPosition = tuple[str, Position]


class ChainLocation(msgspec.Struct, frozen=True, array_like=True):
    """The way from the root of a chain to one response.

    Attributes:
        length: The items of the chain up to here, in all.
        forks: Where the chain leaves a branch for the next one, the root's branch first.
        branch: The response's own branch.
        position: Its position in that branch.
    """

    length: int
    forks: tuple[BranchPosition, ...]
    branch: str
    position: Position

    @property
    def path(self) -> tuple[BranchPosition, ...]:
        """The branches to read and the last position in each, the root's branch first."""
        return (*self.forks, (self.branch, self.position))

    def pack(self) -> bytes:
        """Return the location as bytes."""
        return pack(msgspec.msgpack.encode(self))

    @classmethod
    def unpack(cls, packed: bytes) -> ChainLocation:
        """Return the location that `pack` made these bytes of.

        Raises:
            UnreadableResponse: The bytes are no location.
        """
        try:
            return _decoder.decode(unpack(packed))
        except msgspec.DecodeError as error:
            raise UnreadableResponse from error

    def matches(self, parts: Sequence[Sequence[bytes]], response_id: str) -> bool:
        """Return whether the parts read from the path's branches are whole and end here.

        A part holds two elements for each response: its mark and id, then its items.
        """
        lengths = all(
            len(part) == 2 * position + 2
            for part, (_, position) in zip(parts, self.path, strict=True)
        )
        return lengths and parts[-1][-2][1:] == response_id.encode()


_decoder = msgspec.msgpack.Decoder(ChainLocation)
