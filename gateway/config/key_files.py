"""Reads files that hold API keys, one per line."""

from __future__ import annotations

from pathlib import Path
from typing import Final

#: Far more than any number of keys needs.
_MAX_BYTES: Final = 1 << 20


def read(path: str, *, one: bool) -> list[str]:
    """Return the keys in a file: exactly `one`, or any number above zero.

    Raises:
        ValueError: The file does not hold that; the message never contains a key.
    """
    try:
        with Path(path).open("rb") as file:
            content = file.read(_MAX_BYTES + 1)
        if len(content) > _MAX_BYTES:
            raise ValueError(f"{path!r} is too large to hold keys")
        lines = [line.strip() for line in content.decode("utf-8").splitlines()]
    except OSError as error:
        raise ValueError(f"{path!r} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ValueError(f"{path!r} is not a text file in UTF-8") from None
    keys = [line for line in lines if line]
    if not keys or (one and len(keys) > 1):
        wanted = "one key" if one else "keys, one per line"
        raise ValueError(f"{path!r} must hold {wanted}; it has {len(keys)}")
    return keys
