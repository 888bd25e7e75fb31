"""MACHINE: finds one field of a multipart form while the form arrives."""

from __future__ import annotations

import re
from typing import Final

#: The parameter that separates the parts, quoted or not.
_BOUNDARY: Final = re.compile(r""";\s*boundary=(?:"([^"\r\n]{1,200})"|([^\s;"]{1,200}))""", re.I)
#: Bytes of a part's headers in which its name is looked for.
_MAX_HEAD: Final = 8192


def boundary_of(content_type: str) -> bytes | None:
    """Return what separates the parts of a form; None if the type is another, or names none."""
    if not content_type.lstrip().lower().startswith("multipart/form-data"):
        return None
    found = _BOUNDARY.search(content_type)
    return None if found is None else (found[1] or found[2]).encode("latin-1")


class FormField:
    """The first field of a name; feed it the form as far as it has come.

    Args:
        boundary: Separates the parts.
        name: The field's name.
    """

    def __init__(self, boundary: bytes, name: str) -> None:
        self._delimiter = b"\r\n--" + boundary
        named = re.escape(name.encode())
        self._named = re.compile(
            rb"^content-disposition:[^\r\n]*;[ \t]*name=(?:\"%b\"|%b)[ \t]*(?:;|\r?$)"
            % (named, named),
            re.IGNORECASE | re.MULTILINE,
        )
        #: Where the field's value begins and ends, once it has come.
        self.span: tuple[int, int] | None = None
        #: Whether the form has ended.
        self.over = False
        self._at = 0  # nothing before needs to be looked at again
        self._head: int | None = None  # where the headers of the part begin
        self._body: int | None = None  # where its value begins

    def feed(self, form: bytes | bytearray) -> None:
        """Look at a form, of which more may have come since."""
        while self.span is None and not self.over and self._step(form):
            pass

    def _step(self, form: bytes | bytearray) -> bool:
        """Go one part of a part further; return False if more has to come first."""
        if self._head is not None and self._body is None:
            return self._read_head(form, self._head)
        return self._find_end(form)

    def _find_end(self, form: bytes | bytearray) -> bool:
        """Find the delimiter that ends the part; the first one has no line before it."""
        first = self._head is None and form.startswith(self._delimiter[2:])
        end = -2 if first else form.find(self._delimiter, self._at)
        if not first and end < 0:
            self._at = max(self._at, len(form) - len(self._delimiter))
            return False
        after = end + len(self._delimiter)
        if len(form) < after + 2:
            return False
        if self._body is not None and self._wanted(form):
            self.span = self._body, end
        self.over = form[after : after + 2] == b"--"
        self._head, self._body, self._at = after, None, after
        return True

    def _read_head(self, form: bytes | bytearray, start: int) -> bool:
        end = form.find(b"\r\n\r\n", self._at)
        if end < 0:
            self._at = max(start, len(form) - 3)
            return False
        self._body = end + 4
        self._at = end + 2  # an empty value ends with the line break of its head
        return True

    def _wanted(self, form: bytes | bytearray) -> bool:
        assert self._head is not None
        assert self._body is not None
        end = min(self._body, self._head + _MAX_HEAD)
        return self._named.search(form, self._head, end) is not None
