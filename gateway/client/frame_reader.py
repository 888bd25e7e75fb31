"""The payload of a client's large frame, unmasked as it comes (D33).

The library waits for a whole frame, unmasks it in one step and copies it around: 60 MB of that hold
everybody up. So it gets a stand-in for the payload of a large frame, and the payload is kept here.
"""

from __future__ import annotations

from io import BytesIO
from typing import TYPE_CHECKING, Final

from websockets.streams import StreamReader

try:
    from websockets.speedups import apply_mask
except ImportError:  # where the library was installed without its C part
    from websockets.utils import apply_mask

if TYPE_CHECKING:
    from collections.abc import Generator

#: Bytes of the stand-in: too many for a control frame, so that a large one is still refused.
STAND_IN: Final = 126


class PayloadReader(StreamReader):
    """A reader of frames that unmasks a large payload piece by piece.

    Attributes:
        mask: The last four bytes that were read: the mask, if a payload comes next.
        missing: Bytes of the payload that are still to come, if it is no short one.
        large: Bytes of the large payload that was read last, until somebody asked for it.
        message: Where a large payload goes, and what came before it of a fragmented message.
    """

    mask = bytearray()
    missing = large = 0
    message: BytesIO | None = None

    def read_medium(self, n: int) -> Generator[None, None, bytearray]:
        """Read a payload that is unmasked in one step."""
        self.missing = n - len(self.buffer)
        payload = yield from super().read_exact(n)
        self.missing = 0
        return payload

    def read_large(self, n: int) -> Generator[None, None, bytearray]:
        """Read a large payload into `message`, and return the stand-in."""
        done = 0
        while done < n:
            self.missing = n - done - len(self.buffer)
            if self.eof:
                raise EOFError("the stream ends within a frame")
            yield  # also at first: the frames before this one are collected first
            if self.message is None:
                self.message = BytesIO()  # it grows without being copied, and nor does its value
            piece, turn = self.buffer[: n - done], done % 4
            del self.buffer[: len(piece)]
            self.message.write(apply_mask(piece, self.mask[turn:] + self.mask[:turn]))
            done += len(piece)
        self.missing, self.large = 0, n
        return bytearray(STAND_IN)
