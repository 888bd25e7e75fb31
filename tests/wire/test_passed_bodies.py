"""Which model a body names is found without decoding it, wherever the body is cut."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.http.json_field import last_field
from gateway.http.multipart import FormField, boundary_of
from lanes.errors import ClientFault

TEXT = st.text(max_size=6) | st.sampled_from(['"', "\\", '"model":"x"', "model", "{[", "]}", "\n"])
SCALARS = TEXT | st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=12,
)


def dumped(value: Any, draw: st.DrawFn) -> bytes:
    written = json.dumps(
        value, ensure_ascii=draw(st.booleans()), indent=draw(st.sampled_from([None, 0, 2]))
    )
    return written.encode("utf-8", "surrogatepass")


@st.composite
def bodies(draw: st.DrawFn) -> tuple[bytes, str | None]:
    """An object, perhaps with a model among other fields, and that model."""
    others = draw(st.dictionaries(TEXT.filter(lambda key: key != "model"), VALUES, max_size=5))
    model = draw(st.none() | TEXT)
    fields = list(others.items())
    if draw(st.booleans()) or model is not None:
        fields.insert(draw(st.integers(0, len(fields))), ("model", model))
    return dumped(dict(fields), draw), model


@given(body=bodies())
def test_the_model_of_json_is_what_a_decoder_reads(body: tuple[bytes, str | None]) -> None:
    data, model = body
    span = last_field(data, "model")
    assert (None if span is None else json.loads(data[slice(*span)])) == model


@given(data=st.binary(max_size=60) | st.text('"{}[]:,\\ model', max_size=60).map(str.encode))
def test_whatever_is_no_json_has_a_model_or_none(data: bytes) -> None:
    with suppress(ClientFault):
        span = last_field(data, "model")
        assert span is None or 0 <= span[0] < span[1] <= len(data)


@pytest.mark.parametrize(
    ("kind", "boundary"),
    [
        ("multipart/form-data; boundary=abc", b"abc"),
        ('Multipart/Form-Data; charset=utf-8; Boundary="a b"', b"a b"),
        ("multipart/form-data;boundary=a;x=y", b"a"),
        ("multipart/form-data", None),
        ("multipart/mixed; boundary=abc", None),
        ("application/json; boundary=abc", None),
        ("", None),
    ],
)
def test_the_boundary(kind: str, boundary: bytes | None) -> None:
    assert boundary_of(kind) == boundary


HEADS = (
    'Content-Disposition: form-data; name="model"',
    "content-disposition: form-data; name=model",
    'Content-Type: text/plain\r\nContent-Disposition: form-data; name="model"; x=y',
    'Content-Disposition: form-data; name="file"; filename="model"',
    'Content-Disposition: form-data; filename="; name=model"; name="file"',
    'Content-Disposition: form-data; name="models"',
    'Content-Disposition: form-data; xname="model"',
    'X: form-data; name="model"',
)
NAMED = HEADS[:3]
PARTS = st.lists(
    st.tuples(
        st.sampled_from(HEADS),
        st.sampled_from(["", "m", "two words", "--b", "\r\n--", "\r\n\r\n", "x" * 50, "\r\n-b"]),
    ),
    max_size=5,
)


@given(parts=PARTS, preamble=st.sampled_from(["", "\r\n", "words\r\n"]), data=st.data())
def test_the_model_of_a_form_at_any_chunking(
    parts: list[tuple[str, str]], preamble: str, data: st.DataObject
) -> None:
    text = preamble + "".join(f"--b7\r\n{head}\r\n\r\n{value}\r\n" for head, value in parts)
    form = f"{text}--b7--\r\n".encode()
    wanted = next((value for head, value in parts if head in NAMED), None)
    field = FormField(b"b7", "model")
    cuts = sorted(data.draw(st.lists(st.integers(0, len(form)), max_size=6)))
    for end in [*cuts, len(form)]:
        field.feed(form[:end])
    found = None if field.span is None else form[slice(*field.span)].decode()
    assert found == wanted
    assert field.over or field.span is not None


@pytest.mark.parametrize(("length", "is_there"), [(8_000, True), (9_000, False)])
def test_the_head_of_a_part_is_searched_within_bounds(length: int, is_there: bool) -> None:
    head = f"X: {'x' * length}\r\nContent-Disposition: form-data; name=model"
    field = FormField(b"b7", "model")
    field.feed(f"--b7\r\n{head}\r\n\r\na\r\n--b7--\r\n".encode())
    assert (field.span is not None) == is_there


@given(form=st.text("-b7\r\nmodel", max_size=80).map(str.encode))
def test_whatever_is_no_form_has_an_end(form: bytes) -> None:
    field = FormField(b"b7", "model")
    for end in range(len(form) + 1):
        field.feed(form[:end])
