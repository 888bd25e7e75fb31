"""Which paths below /v1/ are passed on to an upstream as they are (D36). Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated, Final

from pydantic import AfterValidator, BeforeValidator

#: What keeps nothing at the backend: each is one path, and takes a POST.
STATELESS: Final = (
    *("chat/completions", "completions", "embeddings", "moderations", "rerank"),
    *("audio/speech", "audio/transcriptions", "audio/translations"),
    *("images/generations", "images/edits"),
)
#: Stands for every path.
ALL: Final = "all"
#: Stands for no path.
NONE: Final = "none"
#: What the gateway answers itself, and is never passed on.
OWN: Final = frozenset({"responses", "models", "steers", "conversations", "client_secrets"})
_BASE: Final = b"/v1/"
#: Signs that mean themselves to whoever reads a path, and those that may only come encoded: none
#: that ends a segment, begins a parameter or could be read as one that does.
_PLAIN: Final = "A-Za-z0-9._~!$&'()*+,=:@-"
_ENCODED: Final = [
    f"{code:02x}" for code in range(0x20, 0x7F) if not re.match(r"[\w./\\;%?#~-]", chr(code))
]
_SEGMENT: Final = rf"(?!\.{{1,2}}(?:/|\Z))(?:[{_PLAIN}]|(?i:%(?:{'|'.join(_ENCODED)})))+"
_PATH: Final = re.compile(rf"{_SEGMENT}(?:/{_SEGMENT})*".encode())


def _prefixes(value: object) -> object:
    if isinstance(value, str):
        value = value.split(",")
    if not isinstance(value, Sequence):
        return value
    return tuple(_prefix(one) if isinstance(one, str) else one for one in value)


def _prefix(text: str) -> str:
    return text.strip().removeprefix("/").removeprefix("v1/").rstrip("/")


def _checked(value: tuple[str, ...]) -> tuple[str, ...]:
    lowered = [one.lower() for one in value]
    if len(value) == 1 and lowered[0] in (ALL, NONE):
        return (ALL,) if lowered[0] == ALL else ()
    for one in lowered:
        if one in (ALL, NONE):
            raise ValueError(f"{one} goes with nothing else")
        if one.partition("/")[0] in OWN:
            raise ValueError(f"the gateway answers {', '.join(sorted(OWN))} itself")
        if not _PATH.fullmatch(one.encode()):
            raise ValueError("must be paths below /v1/ such as chat/completions, or all or none")
    return value


Prefixes = Annotated[tuple[str, ...], BeforeValidator(_prefixes), AfterValidator(_checked)]


def relative(raw: bytes) -> str | None:
    """Return a request's path below /v1/, as it came; None if it may not be passed on.

    What a backend could read as another path than the gateway does is not: dots as segments, empty
    segments, backslashes, parameters, and encoded signs that need no encoding or are one of these.
    """
    path = raw.removeprefix(_BASE)
    if path == raw or not _PATH.fullmatch(path):
        return None
    text = path.decode()
    return None if text.partition("/")[0].lower() in OWN else text


def is_below(path: str, prefix: str) -> bool:
    """Return whether a relative path is one that a prefix allows."""
    return prefix == ALL or path == prefix or path.startswith(f"{prefix}/")
