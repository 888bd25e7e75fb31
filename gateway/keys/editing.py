"""Edits a keys file: each change is whole on disk, or not made, whoever else edits it."""

from __future__ import annotations

import fcntl
import os
import secrets
import tempfile
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from gateway.keys.keys_file import BadKeysFile, NamedKey, parse

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

_HEADER: Final = "# Keys of clients: `name: SHA-256 of the key`, then options.\n"
#: Bytes of chance in a key.
_CHANCE: Final = 32


def new_key() -> str:
    """Return a key that nobody can guess; its signs fit into headers and subprotocols."""
    return f"sk-ml-{secrets.token_urlsafe(_CHANCE)}"


def add(path: Path, key: NamedKey) -> None:
    """Write a key into a file, which is made if there is none.

    Raises:
        BadKeysFile: The file cannot be used, or has this name or this key.
        OSError: It cannot be read or written.
    """
    _edit(path, lambda text: f"{text or _HEADER}{key.line()}\n")


def remove(path: Path, name: str) -> None:
    """Take a key out of a file; comments and other lines stay.

    Raises:
        BadKeysFile: The file cannot be used, or has no such key.
        OSError: It cannot be read or written.
    """

    def without(text: str) -> str:
        lines = text.splitlines(keepends=True)
        kept = [line for line in lines if _name(line) != name]
        if len(kept) == len(lines):
            raise BadKeysFile(f"there is no key called {name!r}")
        return "".join(kept) or _HEADER

    _edit(path, without)


def _name(line: str) -> str | None:
    return None if line.lstrip().startswith("#") else line.partition(":")[0].strip()


def _edit(path: Path, change: Callable[[str], str]) -> None:
    path = path.resolve()  # a link stays one
    with _alone(path.parent):
        before = path.read_bytes() if path.exists() else b""
        if before:
            parse(before)  # what is wrong already stays for its author
        after = change(before.decode("utf-8-sig")).encode()
        parse(after)
        _replace(path, after)


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Wait for whoever edits a file in this directory."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _replace(path: Path, content: bytes) -> None:
    """Put a file in the place of another, at once, with its owner and rights."""
    before = path.stat() if path.exists() else None
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            if before is not None:
                os.fchmod(file.fileno(), before.st_mode & 0o777)
                if (before.st_uid, before.st_gid) != (os.geteuid(), os.getegid()):
                    os.fchown(file.fileno(), before.st_uid, before.st_gid)
            os.fsync(file.fileno())
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise
