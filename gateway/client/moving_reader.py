"""The buffer of a client's WebSocket bytes, which gives a large frame away uncopied (D33)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from websockets.streams import StreamReader

from gateway.client.large_frames import LARGE

if TYPE_CHECKING:
    from collections.abc import Generator


class MovingReader(StreamReader):
    """A reader that moves a large frame out of its buffer, where the base copies it."""

    def read_exact(self, n: int) -> Generator[None, None, bytearray]:
        """Read so many bytes (see `StreamReader.read_exact`)."""
        return self._moved(n) if n > LARGE else super().read_exact(n)

    def _moved(self, n: int) -> Generator[None, None, bytearray]:
        while len(self.buffer) < n:
            if self.eof:
                raise EOFError("the stream ends within a frame")
            yield
        moved, self.buffer = self.buffer, self.buffer[n:]
        del moved[n:]
        return moved
