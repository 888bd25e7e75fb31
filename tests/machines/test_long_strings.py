"""What is cut out of JSON comes back, whatever happened to the rest in between."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lanes import long_strings
from lanes.codec import decode, encode
from lanes.long_strings import LONG, LongStrings, TooMuch, values_in

PLAIN = "QUJD" * LONG
LONG_TEXTS = (
    PLAIN,
    PLAIN + "=",
    "data:image/png;base64," + PLAIN,
    "é渐🙂" * LONG,
    "a word and another " * LONG,
    "a line\n" * LONG,
    "\\" * LONG,
    '"' * LONG,
    "/" * 2 * LONG,
    json.dumps({"file": PLAIN, "numbers": list(range(LONG)), "text": "x" * LONG}),
    f"{PLAIN}\n{PLAIN}\\{PLAIN}",
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-99, 99) | st.text() | st.sampled_from(LONG_TEXTS),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@pytest.fixture(autouse=True, scope="module")
def _small_windows() -> Any:
    """Windows that end within characters and escapes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(long_strings, "WINDOW", 1021)
        yield


def written(value: Any) -> list[bytes]:
    """JSON as several encoders write it."""
    compact = json.dumps(value, separators=(",", ":"))
    return [
        encode(value),
        json.dumps(value, indent=1).encode(),
        compact.replace("/", "\\/").encode(),
        compact.replace("=", "\\u003d").encode(),
    ]


@given(VALUES)
def test_it_comes_back(value: Any) -> None:
    for data in written(value):
        strings = LongStrings(check=True)
        rest = strings.cut(data)
        assert decode(strings.restore(rest)) == value
        assert decode(strings.restore(encode(decode(rest)))) == value
        assert strings.restored_size(rest) == len(strings.restore(rest))


@given(VALUES)
def test_within_a_string_of_another(value: Any) -> None:
    """As a call's arguments hold JSON, and as some backends get calls as text."""
    strings = LongStrings()
    rest = strings.cut(encode({"k": value}))
    nested = encode([f"Called with {encode(decode(rest)).decode()}"])
    assert decode(strings.restore(nested)) == [f"Called with {encode({'k': value}).decode()}"]


@pytest.mark.parametrize("text", LONG_TEXTS)
def test_arguments_stay_json(text: str) -> None:
    """Also where they are cut: they may be parsed before they are whole again."""
    strings = LongStrings()
    given = {"k": [[n] for n in range(LONG)], "text": text, "b": 10 ** (LONG - 1000), "c": text}
    arguments = json.dumps(given, indent=1)
    [rest] = decode(strings.cut(encode([arguments])))
    assert decode(strings.restore(encode(decode(rest.encode())))) == decode(arguments.encode())


@pytest.mark.parametrize("text", [PLAIN, f"data:image/png;base64,{PLAIN}==", PLAIN + "/"])
def test_base64_is_cut_out_however_it_is_escaped(text: str) -> None:
    for data in written([text]):
        assert len(LongStrings().cut(data)) < 200


@given(VALUES)
def test_values_are_counted(value: Any) -> None:
    for data in written([value, *[0] * 1000]):
        assert values_in(data) == count(value) + 1001


def count(value: Any) -> int:
    """Its brackets and commas."""
    inner = list(value.values()) if isinstance(value, dict) else value
    if not isinstance(inner, list):
        return 0
    return 1 + max(0, len(inner) - 1) + sum(map(count, inner))


def test_equal_strings_have_equal_marks() -> None:
    once = PLAIN.replace("QUJD", "QUJE", 1)
    middle = f"{PLAIN}x{PLAIN}", f"{PLAIN}y{PLAIN}"
    first, second, third, *rest = decode(LongStrings().cut(encode([PLAIN, once, PLAIN, *middle])))
    assert first == third
    assert len({first, second, *rest}) == 4


def test_a_mark_has_a_blank_if_its_string_has_one() -> None:
    word, words = decode(LongStrings().cut(encode([PLAIN, "a b" * LONG])))
    assert (len(word.split()), len(words.split())) == (1, 2)


def test_two_never_have_the_same_marks() -> None:
    data = encode([PLAIN])
    assert LongStrings().cut(data) != LongStrings().cut(data)


@pytest.mark.parametrize(
    "bad", [b"\xff", b"\xed\xa0\xbd", b"\xc0\xaf", b"\xf0\x9f", b"\n", b"\x00", b"\x80" * 9]
)
@pytest.mark.parametrize("place", [0, 1020, 1021, 5000])
def test_what_was_not_decoded_is_checked(bad: bytes, place: int) -> None:
    text = bytearray(PLAIN.encode())
    text[place:place] = bad
    with pytest.raises(ValueError, match=r"\w"):
        LongStrings(check=True).cut(b'["%b"]' % bytes(text))


@pytest.mark.parametrize("data", [b'["', b'["' + b"x" * 9000, b'["\\"' * 9000, b'"\\' * 9000])
def test_what_has_no_end_stays(data: bytes) -> None:
    assert LongStrings(check=True).cut(data) == data


def test_too_much_is_refused() -> None:
    for data in (b"[" + b"1," * 300 + b"1]", b'["","' + b'","' * 300 + b'"]'):
        with pytest.raises(TooMuch, match="200 values"):
            LongStrings(max_values=200).cut(data)
        with pytest.raises(TooMuch, match="500 bytes"):
            LongStrings(max_rest=500).cut(data)
    LongStrings(max_values=200, max_rest=200).cut(encode(["," * 9000, PLAIN]))
