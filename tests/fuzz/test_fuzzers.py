"""Each fuzzer for three seconds, and all that it ever found; `make fuzz` runs them for longer."""

from __future__ import annotations

import os

import pytest

from tests.fuzz.fuzzers import FUZZERS
from tests.fuzz.fuzzing import CORPUS, Found, Fuzzer, fuzz

SECONDS = 3.0

#: Bounded by its own clock; how long the last batch takes, or to shrink, is the machine's affair.


@pytest.mark.parametrize("fuzzer", FUZZERS, ids=lambda one: one.name)
def test_what_it_once_found(fuzzer: Fuzzer) -> None:
    for path in fuzzer.kept():
        fuzzer.run(path.read_bytes())


@pytest.mark.parametrize("fuzzer", FUZZERS, ids=lambda one: one.name)
def test_for_a_while(fuzzer: Fuzzer) -> None:
    for data in (b"", *fuzzer.seeds):
        fuzzer.run(data)
    assert fuzz(fuzzer, SECONDS, derandomized="CI" in os.environ) > 0


def test_the_corpus_has_no_folder_without_a_fuzzer() -> None:
    assert {path.name for path in CORPUS.iterdir()} <= {one.name for one in FUZZERS}


def test_what_fails_is_found_and_made_small() -> None:
    def run(data: bytes) -> None:
        assert b"<" not in data

    with pytest.raises(Found) as found:
        fuzz(Fuzzer("planted", run, (b"aaaa",), (b"<<<<",)), 60, derandomized=True)
    assert b"<" in found.value.data
    assert len(found.value.data) <= 8
