"""The table of D1: a delta parsed and encoded, against two ways to move its JSON token unread."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import msgspec

from bench.measure import Case, main, stepping
from bench.pipeline import delta

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AsyncExitStack

TITLE = "D1, one delta of 250 bytes"
_HEAD = b'{"type":"response.output_text.delta","item_id":"msg_0","output_index":0,"delta":'
_TAIL = b',"stream_id":"lane-1","sequence_number":'

_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode


def _frame(payload: bytes) -> bytes:
    size = len(payload)
    return b"\x81\x7e%c%c%b" % (size >> 8, size & 255, payload)


def _parsing(data: bytes) -> Callable[[], object]:
    source: dict[str, Any] = _decode(data)
    kind, item_id = source["type"], source["item_id"]
    keys = frozenset(source)

    def step() -> bytes:
        event = _decode(data)
        if (
            type(event) is dict
            and event.get("type") == kind
            and event.get("item_id") == item_id
            and event.get("content_index") == 0
            and event.keys() <= keys
            and not event.get("logprobs")
            and type(text := event.get("delta")) is str
        ):
            return _frame(b"%b%b%d}" % (_HEAD + _encode(text), _TAIL, 12))
        raise AssertionError("the delta has another shape")

    return step


def _splicing(data: bytes) -> Callable[[], object]:
    """Compare what surrounds the number and the token, and check the token's text."""
    number, token = data.index(b"12,"), data.index(b'"delta":') + len(b'"delta":')
    end = data.index(b',"logprobs"')
    prefix, middle, suffix = data[:number], data[number + 2 : token], data[end:]
    after = len(prefix)

    def step() -> bytes:
        comma = data.find(b",", after)
        start = comma + len(middle)
        if (
            data.startswith(prefix)
            and data[after:comma].isdigit()
            and data.startswith(middle, comma)
            and data.endswith(suffix)
        ):
            value = data[start : len(data) - len(suffix)]
            inner = value[1:-1]
            quoted = value[:1] == b'"' == value[-1:] and b'"' not in inner and b"\\" not in inner
            if quoted and inner.decode().isprintable():
                return _frame(b"%b%b%d}" % (_HEAD + value, _TAIL, 12))
        raise AssertionError("the delta has another shape")

    return step


def _matching(data: bytes) -> Callable[[], object]:
    """Match the whole event with one regular expression, and make no frame."""
    token = data.index(b'"delta":') + len(b'"delta":')
    end = data.index(b',"logprobs"')
    number = re.sub(rb"12", rb"\\d+", re.escape(data[:token]), count=1)
    string = rb'"(?:[^"\\\x00-\x1f]|\\["\\/bfnrt]|\\u[0-9a-fA-F]{4})*"'
    match = re.compile(number + b"(" + string + b")" + re.escape(data[end:])).fullmatch

    def step() -> bytes:
        matched = match(data)
        assert matched is not None, "the delta has another shape"
        return _HEAD + matched[1]

    return step


async def cases(_: AsyncExitStack) -> list[Case]:
    """Return the rows."""
    data = _encode(delta())
    return [
        stepping("msgspec into a dict, checks, encode, frame", _parsing(data)),
        stepping("surroundings compared, token cut out, checked, frame", _splicing(data)),
        stepping("one regular expression, without the frame", _matching(data)),
    ]


if __name__ == "__main__":
    main(TITLE, cases, count=200_000)
