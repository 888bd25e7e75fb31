"""The input of a custom tool's call: the text in whatever the model made of its wrapper. Pure.

Chat Completions knows functions only, so a custom tool was declared as one with a single string
`input` (`tools.py`). What is clearly that, or clearly no JSON, is read as it comes; anything else
at the end.
"""

from __future__ import annotations

import json
import re
from enum import Enum, auto
from typing import Any, Final

from lanes.codec import decode, encode
from lanes.surrogates import edged, whole

_WRAPPER: Final = '{"input":"'
_OPENING = re.compile(r'\s*\{\s*"input"\s*:\s*"')
#: A code block around the wrapper, whole or begun.
_BLOCK = re.compile(r"\s*```[\w+-]*\s*(.*?)\s*```\s*", re.S)
_BLOCK_BEGUN = re.compile(r"```[\w+-]*\s*|`{1,2}")
_SPACE = re.compile(r"\s+")
_HIGH, _LOW = r"\\u[dD][89abAB][0-9a-fA-F]{2}", r"\\u[dD][c-fC-F][0-9a-fA-F]{2}"
_OTHER = r"\\u(?![dD][89abAB])[0-9a-fA-F]{4}"
#: Whole characters of a JSON string. Half of a surrogate pair waits for the other one.
_WHOLE = re.compile(
    rf'(?:[^"\\]|\\["\\/bfnrt]|{_OTHER}|{_HIGH}(?:{_LOW}|(?=[^\\]|\\[^u]|(?!{_LOW}){_OTHER})))*'
)
#: What may still become a character with more text.
_BEGUN = re.compile(rf"(?:\\(?:u[0-9a-fA-F]{{0,3}})?|{_HIGH}(?:\\(?:u[0-9a-fA-F]{{0,3}})?)?)?")
#: Names that models give the wrapper's only key.
_KEYS = ("input", "arguments")


class _Form(Enum):
    UNKNOWN = auto()
    WRAPPED = auto()  # the string in the wrapper is going on
    CLOSED = auto()  # that string is over
    RAW = auto()
    AT_THE_END = auto()


class CustomInput:
    """The input of one call, from the pieces of its arguments."""

    __slots__ = ("_form", "_rest", "_sent")

    def __init__(self) -> None:
        self._form = _Form.UNKNOWN
        self._rest = ""  # what was not read yet
        self._sent: list[str] = []

    def feed(self, piece: str) -> str:
        """Return the text that can be sent after this piece."""
        if self._form is _Form.CLOSED:
            return ""
        self._rest += piece
        if self._form is _Form.UNKNOWN:
            self._recognise()
        if self._form is _Form.RAW:
            text, self._rest = self._rest, ""
        elif self._form is _Form.WRAPPED:
            text = self._string()
        else:
            return ""
        self._sent.append(text)
        return text

    def finish(self, arguments: str) -> str:
        """Return the whole input; `arguments` are all pieces together."""
        if self._form in (_Form.UNKNOWN, _Form.AT_THE_END):
            return unwrapped(arguments)
        return whole(self._sent)

    def _recognise(self) -> None:
        start = self._rest.lstrip()
        if not start:
            return
        if start[0] == "`":
            if _BLOCK_BEGUN.fullmatch(start) is None:
                within = _BLOCK_BEGUN.sub("", start, count=1)
                self._form = _Form.AT_THE_END if within.startswith("{") else _Form.RAW
            return
        if start[0] not in '{["':
            self._form = _Form.RAW
            return
        opening = _OPENING.match(self._rest)
        if opening is None:
            compact = _SPACE.sub("", start)
            self._form = _Form.UNKNOWN if _WRAPPER.startswith(compact) else _Form.AT_THE_END
            return
        content = self._rest[opening.end() :].lstrip()
        if content and content != "\\":
            # Perhaps the wrapper once more, which only its end shows.
            again = content.startswith(("{", '"', '\\"'))
            self._form = _Form.AT_THE_END if again else _Form.WRAPPED
            self._rest = self._rest[opening.end() :]

    def _string(self) -> str:
        """Return the whole characters of the rest, decoded."""
        text = ""
        while self._form is _Form.WRAPPED:
            match = _WHOLE.match(self._rest)
            assert match is not None, "it matches nothing at all as well"
            text += edged(json.loads(f'"{match[0]}"', strict=False))
            self._rest = self._rest[match.end() :]
            if self._rest.startswith('"'):
                self._form = _Form.CLOSED
            elif _BEGUN.fullmatch(self._rest):
                break
            else:  # no escape of JSON: the model forgot to double the backslash
                text += self._rest[0]
                self._rest = self._rest[1:]
        return text


def unwrapped(arguments: str) -> str:
    """Return the input in whole arguments: of the wrapper, its relatives, a string or raw text."""
    value = _value(arguments)
    if value is None and (block := _BLOCK.fullmatch(arguments)) is not None:
        value = _value(block[1])
        value = value if isinstance(value, dict) and value.keys() <= {*_KEYS} else None
    return arguments if value is None else _text(value, arguments)


def _text(value: Any, written: str) -> str:
    """Return the text in a value; `written` is how the value was written."""
    if isinstance(value, str):
        inner = _value(value) if value.lstrip()[:1] in ("{", '"') else None
        again = isinstance(inner, dict) and len(inner) == 1 and inner.keys() <= {*_KEYS}
        return _text(inner, value) if again or isinstance(inner, str) else value
    if not isinstance(value, dict):
        return written
    for key in _KEYS:
        if key in value:
            inner = value[key]
            return "" if inner is None else _text(inner, encode(inner).decode())
    texts = [one for one in value.values() if isinstance(one, str)]
    return _text(texts[0], texts[0]) if texts else written


def _value(text: str) -> Any:
    try:
        return decode(text.encode())
    except ValueError:
        return None
