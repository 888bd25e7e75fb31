"""JSON as it goes over the wire: strict out, strict in from clients, forgiving in from backends."""

from __future__ import annotations

import json
import math
import sys
from typing import Any

import msgspec

#: Compact JSON bytes; refuses NaN and infinities by never being handed one.
encode = msgspec.json.Encoder().encode

#: With fewer brackets than this nothing is nested too deeply.
_SHALLOW = 400
#: How much deeper a value may be nested when it is written again.
_HEADROOM = 100
_decode = msgspec.json.Decoder().decode


def decode(data: bytes) -> Any:
    """Read strict JSON. Raises ValueError for anything else.

    NaN, lone surrogates, invalid UTF-8, numbers out of range and absurd nesting are errors, so
    `encode` can write again what this returns.
    """
    try:
        value = _decode(data)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    check_depth(value, data)
    return value


def check_depth(value: Any, data: bytes) -> None:
    """Raise ValueError if `value`, read from `data`, is nested too deeply.

    It must still be possible to write it inside of another value.
    """
    if data.count(b"[") + data.count(b"{") > _SHALLOW:
        for _ in range(_HEADROOM):
            value = [value]
        try:
            encode(value)
        except RecursionError:
            raise ValueError("nested too deeply") from None
        except UnicodeEncodeError:
            pass  # halves of surrogate pairs (`lanes.surrogates`), which are written in another way


def decode_lenient(data: bytes) -> Any:
    """Read what a backend wrote, and repair what strict JSON refuses. Raises ValueError.

    NaN becomes null, infinities the largest number there is, a lone surrogate U+FFFD; a second
    `data:` before it is none. Ask `check_depth` before writing it again.
    """
    try:
        return _decode(data)
    except (ValueError, RecursionError):
        pass
    try:
        return _decode(
            json.dumps(parse_leniently(data), ensure_ascii=False)
            .encode("utf-16", "surrogatepass")
            .decode("utf-16", "replace")
            .encode()
        )
    except RecursionError:
        raise ValueError("nested too deeply") from None


def parse_leniently(data: bytes) -> Any:
    """Read what a backend wrote, with its lone surrogates. Raises ValueError and RecursionError."""
    text = data.lstrip().removeprefix(b"data:").decode("utf-8", "replace")
    return json.loads(text, parse_constant=_constant, parse_float=_clamped)


def _constant(name: str) -> float | None:
    return None if name == "NaN" else math.copysign(sys.float_info.max, float(name))


def _clamped(digits: str) -> float:
    value = float(digits)
    return math.copysign(sys.float_info.max, value) if math.isinf(value) else value
