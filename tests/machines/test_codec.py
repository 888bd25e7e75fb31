"""JSON: strict from clients, forgiving from backends, and always strict again on its way out."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lanes.codec import decode, decode_lenient, encode
from tests.machines.drive import feed

FAR = sys.float_info.max
DEEP = b"[" * 100_000

REPAIRED: list[tuple[bytes, Any]] = [
    (b'{"a":NaN}', {"a": None}),
    (b' data: {"a":1}', {"a": 1}),
    (b"[Infinity,-Infinity,1e999,-1e999]", [FAR, -FAR, FAR, -FAR]),
    (b'"\\ud83d"', "\ufffd"),
    (b'{"\\udc00x":"\\ud83d\\ude00"}', {"\ufffdx": "😀"}),
    (b'"\xff"', "\ufffd"),
    (b'["NaN",0.1,9223372036854775808,-0.0]', ["NaN", 0.1, 2**63, -0.0]),
]


@pytest.mark.parametrize(("data", "value"), REPAIRED)
def test_a_backend_is_forgiven(data: bytes, value: Any) -> None:
    assert decode_lenient(data) == value
    assert decode(encode(decode_lenient(data))) == value


@pytest.mark.parametrize("data", [data for data, _ in REPAIRED[:-1]])
def test_a_client_is_not(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        decode(data)


@pytest.mark.parametrize("data", [b"", b"{", b"[1,]", b"nul", b"1 2", b"\xff\xfe", DEEP])
def test_nothing_can_be_made_of_this(data: bytes) -> None:
    for read in (decode, decode_lenient):
        with pytest.raises(ValueError, match=r"\w"):
            read(data)


@pytest.mark.parametrize("data", [b"NaN" + DEEP, b"[NaN," + DEEP])
def test_absurd_nesting_after_a_repair(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        decode_lenient(data)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)


@given(VALUES)
def test_whatever_is_read_can_be_written(value: Any) -> None:
    read = decode_lenient(json.dumps(value).encode())
    assert decode(encode(read)) == read


@given(st.binary(max_size=40))
def test_whatever_bytes(data: bytes) -> None:
    try:
        value = decode_lenient(data)
    except ValueError:
        return
    encode(value)


DEPTHS = [*range(300, 900, 50), *range(900, 1000)]


def test_whatever_depth_is_read_can_be_written_deeper() -> None:
    for depth in DEPTHS:
        data = b"[" * depth + b"]" * depth
        try:
            value = decode(data)
        except ValueError:
            assert depth > 800
        else:
            encode({"item": {"content": [value]}})


@pytest.mark.parametrize(
    "shape",
    [
        b'{"type":"response.zebra","k":%b}',
        b'{"type":"response.created","response":{"k":%b}}',
        b'{"type":"response.output_item.added","item":{"type":"zebra","k":%b}}',
        b'{"type":"response.output_item.done","item":{"type":"message","content":[%b]}}',
    ],
)
def test_a_run_survives_any_depth(shape: bytes) -> None:
    for depth in DEPTHS:
        assert feed([(None, shape % (b"[" * depth + b"]" * depth))]).run.over
