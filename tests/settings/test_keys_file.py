"""The text of a keys file: what a line may say, and which line is wrong and why."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.keys.keys_file import (
    MAX_BYTES,
    BadKeysFile,
    NamedKey,
    digest_of,
    parse,
    parse_line,
    read_time,
)
from gateway.limits.limits import MOST
from gateway.limits.limits import NAMES as NAMES_OF_LIMITS

A, B = digest_of(b"a").hex(), digest_of(b"b").hex()
NAMES = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", fullmatch=True)
MODELS = st.from_regex(r"[a-z0-9:/.-]{1,9}\*?", fullmatch=True)
KEYS = st.builds(
    NamedKey,
    NAMES,
    st.binary(min_size=32, max_size=32),
    NAMES,
    st.none() | st.integers(0, 4_000_000_000).map(float),
    st.lists(MODELS, max_size=3).map(tuple),
    st.lists(st.from_regex(r"[0-9a-f]{16}", fullmatch=True), max_size=2).map(tuple),
    st.dictionaries(st.sampled_from(NAMES_OF_LIMITS), st.none() | st.integers(0, MOST)).map(
        lambda given: tuple((name, given[name]) for name in NAMES_OF_LIMITS if name in given)
    ),
)


def test_what_a_line_may_say() -> None:
    text = f"""\ufeff# our keys

acme: {A}
 acme-ci :  {B.upper()} tenant=acme expires=2027-01-31 models=small,gpt-* formerly={"0" * 16}\r
"""
    first, second = parse(text.encode())
    assert first == NamedKey("acme", bytes.fromhex(A), "acme")
    until = datetime(2027, 1, 31, tzinfo=UTC).timestamp()
    models = ("small", "gpt-*")
    assert second == NamedKey("acme-ci", bytes.fromhex(B), "acme", until, models, ("0" * 16,))


@given(KEYS)
def test_a_key_is_read_as_it_was_written(key: NamedKey) -> None:
    assert parse_line(key.line()) == key


@given(st.lists(KEYS, min_size=1, max_size=3, unique_by=(lambda k: k.name, lambda k: k.digest)))
def test_a_file_that_was_cut_off_anywhere_is_refused_or_ends_with_a_line(
    keys: list[NamedKey],
) -> None:
    lines = [key.line() + "\n" for key in keys]
    content = "".join(lines).encode()
    whole = {0, *(sum(map(len, lines[: number + 1])) for number in range(len(lines)))}
    for end in range(len(content)):
        if end not in whole or end == 0:
            with pytest.raises(BadKeysFile):
                parse(content[:end])


@given(st.binary(max_size=60) | st.text(max_size=60).map(str.encode))
def test_any_bytes_are_keys_or_refused_in_one_line(content: bytes) -> None:
    said = "none"
    try:
        parse(content)
    except BadKeysFile as bad:
        said = str(bad)
    assert said.isprintable()


@pytest.mark.parametrize(
    ("text", "line", "why"),
    [
        ("", 1, "half-written"),
        (f"a: {A}", 1, "half-written"),
        (f"# x\n\na {A}\n", 3, "has no colon"),
        (f"a: {A}\na: {B}\n", 2, "the name a is on line 1 already"),
        (f"a: {A}\nb: {A}\n", 2, "b is the same key as a"),
        (f"a: {A[:-1]}\n", 1, "must have the SHA-256 of the key"),
        (f"a: {A}0\n", 1, "must have the SHA-256 of the key"),
        (f"a: {A[:-1]}g\n", 1, "must have the SHA-256 of the key"),
        ("a:\n", 1, "must have the SHA-256 of the key"),
        ("a: sk-a-key-itself\n", 1, "must have the SHA-256 of the key"),
        (f": {A}\n", 1, "is no name"),
        (f"a b: {A}\n", 1, "is no name"),
        (f"{'a' * 65}: {A}\n", 1, "is no name"),
        (f"a/b: {A}\n", 1, "is no name"),
        (f"a: {A} expire=2027-01-31\n", 1, "did you mean expires=?"),
        (f"a: {A} expires\n", 1, "did you mean expires=?"),
        (f"a: {A} zzz=1\n", 1, "there are tenant, expires, models, formerly, connections"),
        (f"a: {A} create=1\n", 1, "did you mean creates=?"),
        (f"a: {A} creates=\n", 1, "creates= has no value"),
        (f"a: {A} creates=-1\n", 1, "a: creates= must be a number from 0 to 1000000000"),
        (f"a: {A} running=1.5\n", 1, "or unlimited"),
        (f"a: {A} tokens=10k\n", 1, "tokens= must be a number"),
        (f"a: {A} connections=1000000001\n", 1, "connections= must be a number"),
        (f"a: {A} creates=1\n#\nb: {B} tenant=a creates=2\n", 3, "creates=1 or creates=2"),
        (f"a: {A} tokens=unlimited\nb: {B} tenant=a tokens=0\n", 2, "must be the same: tokens=un"),
        (f"a: {A} expires=2027-02-30\n", 1, "is no time"),
        (f"a: {A} expires=soon\n", 1, "is no time"),
        (f"a: {A} expires=\n", 1, "expires= has no value"),
        (f"a: {A} tenant=a tenant=b\n", 1, "has tenant= twice"),
        (f"a: {A} tenant=a/b\n", 1, "is no name of a tenant"),
        (f"a: {A} models=a,,b\n", 1, "names with commas between"),
        (f"a: {A} models=a*b\n", 1, "names with commas between"),
        (f"a: {A} formerly=xyz\n", 1, "as `multilane key add` writes them"),
        (f"a: {A} formerly={'0' * 16}\nb: {B} formerly={'0' * 16}\n", 2, "records of the same key"),
    ],
)
def test_a_wrong_line_is_named(text: str, line: int, why: str) -> None:
    with pytest.raises(BadKeysFile) as refused:
        parse(text.encode())
    said = str(refused.value)
    assert said.startswith(f"line {line}: ")
    assert why in said
    assert A not in said
    assert "a-key-itself" not in said


def test_what_is_no_text() -> None:
    with pytest.raises(BadKeysFile, match="line 2: is not text"):
        parse(b"# x\n\xff\xfe\n")
    with pytest.raises(BadKeysFile, match="too large"):
        parse(b"#" * (MAX_BYTES + 1))


@pytest.mark.parametrize(
    ("model", "allowed"),
    [
        ("small", True),
        ("small2", False),
        ("gpt-5", True),
        ("gpt-", True),
        ("gpt", False),
        ("", False),
    ],
)
def test_which_models(model: str, allowed: bool) -> None:
    key = NamedKey("a", b"", "a", models=("small", "gpt-*"))
    assert key.allows(model) is allowed
    assert NamedKey("a", b"", "a").allows(model)


def test_times_without_a_zone_are_utc() -> None:
    assert read_time("2027-01-31T12:00:00") == read_time("2027-01-31T13:00:00+01:00")
    key = NamedKey("a", b"", "a", expires=100.0)
    assert [key.expired(now) for now in (99.9, 100.0)] == [False, True]
