"""A large text frame for a backend, masked piece by piece (RFC 6455, 5.3; D33). Pure."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

from gateway.upstream.transport.paced_sender import PIECE

try:
    from websockets.speedups import apply_mask
except ImportError:  # where the library was installed without its C part
    from websockets.utils import apply_mask

if TYPE_CHECKING:
    from collections.abc import Iterator


def masked(text: bytes, rest: bytes) -> Iterator[bytes]:
    """Yield the frame of a text in two parts; the second is of more than `PIECE` bytes.

    Each piece begins where the mask does, since it is a multiple of four bytes after the first.
    """
    mask = secrets.token_bytes(4)
    size, at = len(text) + len(rest), PIECE - len(text)
    head = b"\x81\xff" + size.to_bytes(8, "big") + mask
    yield head + apply_mask(text + rest[:at], mask)
    view = memoryview(rest)
    for start in range(at, len(rest), PIECE):
        yield apply_mask(view[start : start + PIECE], mask)
