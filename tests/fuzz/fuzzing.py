"""What a fuzzer is, and how it runs for a time: hypothesis changes seeds and shrinks failures."""

from __future__ import annotations

import hashlib
import logging
import random
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

if TYPE_CHECKING:
    from collections.abc import Callable

CORPUS: Final = Path(__file__).parent / "corpus"
#: Inputs that hypothesis draws before the clock is looked at.
_BATCH: Final = 40
_CHANGES: Final = ("insert", "remove", "repeat", "replace", "swap", "splice")


@dataclass(frozen=True, slots=True)
class Fuzzer:
    """One place where bytes of a stranger come in.

    `run` takes any bytes and raises if the code behind that place misbehaves. `seeds` are inputs to
    begin with, `words` are what a change may insert.
    """

    name: str
    run: Callable[[bytes], None]
    seeds: tuple[bytes, ...]
    words: tuple[bytes, ...]

    @property
    def corpus(self) -> Path:
        """The folder of what once failed."""
        return CORPUS / self.name

    def kept(self) -> list[Path]:
        """All that once failed, a file for each input."""
        return sorted(self.corpus.glob("*")) if self.corpus.is_dir() else []

    def keep(self, data: bytes) -> Path:
        """Add an input to the corpus."""
        self.corpus.mkdir(parents=True, exist_ok=True)
        path = self.corpus / hashlib.sha256(data).hexdigest()[:16]
        path.write_bytes(data)
        return path

    def inputs(self) -> st.SearchStrategy[bytes]:
        """Seeds with a few changes, and now and then bytes of no form at all."""
        seeds = st.sampled_from([*self.seeds, *(path.read_bytes() for path in self.kept())])
        places = st.integers(0, 1 << 16)
        words = st.sampled_from(self.words) | st.binary(min_size=1, max_size=4)
        change = st.tuples(st.sampled_from(_CHANGES), places, places, words, seeds)
        changed = st.builds(_changed, seeds, st.lists(change, max_size=6))
        return st.one_of(changed, changed, changed, st.binary(max_size=120))


def _changed(data: bytes, changes: list[tuple[str, int, int, bytes, bytes]]) -> bytes:
    for kind, one, other, word, seed_ in changes:
        start, end = sorted((one % (len(data) + 1), other % (len(data) + 1)))
        part = data[start:end]
        between = {
            "insert": word + part,
            "remove": b"",
            "repeat": part + part,
            "replace": word,
            "swap": part[::-1],
            "splice": seed_[start:end],
        }[kind]
        data = (data[:start] + between + data[end:])[: 1 << 16]
    return data


@dataclass
class Found(Exception):
    """The smallest input that fails, and how."""

    fuzzer: Fuzzer
    data: bytes

    def __str__(self) -> str:
        return f"{self.fuzzer.name}: {self.data!r}"


def fuzz(fuzzer: Fuzzer, seconds: float, *, derandomized: bool) -> int:
    """Run a fuzzer for a time and return the number of inputs. Raises Found.

    Derandomized, the same batches come in the same order; only their number is a matter of time.
    """
    first = 0 if derandomized else random.SystemRandom().randrange(1 << 32)
    end = time.monotonic() + seconds
    count = 0
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)  # of what a peer does wrong, and here it does little else
    try:
        while time.monotonic() < end:
            _batch(fuzzer, first + count)
            count += _BATCH
    finally:
        logging.disable(before)
    return count


def _batch(fuzzer: Fuzzer, number: int) -> None:
    failed: list[bytes] = []

    @seed(number)
    @settings(
        max_examples=_BATCH,
        database=None,
        deadline=None,
        phases=(Phase.generate, Phase.shrink),
        suppress_health_check=list(HealthCheck),
    )
    @given(fuzzer.inputs())
    def play(data: bytes) -> None:
        try:
            fuzzer.run(data)
        except Exception:
            failed.append(data)
            raise

    try:
        play()
    except Exception as error:
        raise Found(fuzzer, failed[-1]) from error
