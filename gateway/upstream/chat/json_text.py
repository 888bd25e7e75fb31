"""How far a JSON text has come that arrives in pieces. Pure."""

from __future__ import annotations

import copy
import re

_PLAIN = re.compile(r'[^"\\]+')  # within a string
_SPACE = re.compile(r"[ \t\r\n]+")
_SCALAR = re.compile(r"[-+.0-9A-Za-z]+")  # a number or a word; whether it is one is not checked


class JsonText:
    """Follows one object, without building it: what may come next, and whether it is whole.

    Each character is looked at once, in pieces of any size. `broken` says that the text is no
    object, or none any more.
    """

    __slots__ = ("_escaped", "_expected", "_nesting", "_within", "broken")

    def __init__(self) -> None:
        self.broken = False
        self._nesting = ""  # the brackets that are open
        self._expected = "object"
        self._within = ""  # `string` or `scalar`, while one is going on
        self._escaped = False

    @property
    def whole(self) -> bool:
        """Whether the object is closed, and nothing came after it."""
        return self._expected == "end" and not self.broken

    def takes(self, text: str) -> bool:
        """Return whether the object could go on with this text."""
        trial = copy.copy(self)
        trial.feed(text)
        return not trial.broken

    def feed(self, text: str) -> None:
        """Read on."""
        at = 0
        while at < len(text) and not self.broken:
            if self._within == "string":
                at = self._string(text, at)
            elif self._within == "scalar":
                match = _SCALAR.match(text, at)
                at = match.end() if match else at
                self._within = "" if match is None else "scalar"
            elif (match := _SPACE.match(text, at)) is not None:
                at = match.end()
            else:
                self._mark(text[at])
                at += 0 if self._within == "scalar" else 1

    def _string(self, text: str, at: int) -> int:
        if self._escaped:
            self._escaped = False
            return at + 1
        match = _PLAIN.match(text, at)
        if match is not None:
            return match.end()
        if text[at] == '"':
            self._within = ""
        else:
            self._escaped = True
        return at + 1

    def _mark(self, char: str) -> None:
        """Take the first character of what comes next."""
        expected = self._expected
        if char == '"' and expected in ("key", "key or }", "value", "value or ]"):
            self._within = "string"
            self._expected = "colon" if expected.startswith("key") else "comma"
        elif char == ":" and expected == "colon":
            self._expected = "value"
        elif char == "," and expected == "comma":
            self._expected = "key" if self._nesting[-1] == "{" else "value"
        elif char in "{[" and expected in ("object", "value", "value or ]"):
            self.broken = expected == "object" and char == "["
            self._nesting += char
            self._expected = "key or }" if char == "{" else "value or ]"
        elif char in "}]" and expected in ("comma", f"key or {char}", f"value or {char}"):
            self.broken = self._nesting[-1] + char not in ("{}", "[]")
            self._nesting = self._nesting[:-1]
            self._expected = "comma" if self._nesting else "end"
        elif expected in ("value", "value or ]") and _SCALAR.match(char):
            self._within, self._expected = "scalar", "comma"
        else:
            self.broken = True
