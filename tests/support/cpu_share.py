"""A block whose work is done by another thread (D33)."""

from __future__ import annotations

from contextlib import contextmanager
from time import process_time, thread_time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def worked_aside() -> Iterator[None]:
    """A block of which its own thread does less than half; a busy machine slows both down."""
    own, all_threads = thread_time(), process_time()
    yield
    own, all_threads = thread_time() - own, process_time() - all_threads
    assert own < all_threads / 2, f"{own:.3f} of {all_threads:.3f} s"
