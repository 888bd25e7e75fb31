"""Edits a keys file: each change is whole on disk, or not made, whoever else edits it."""

from __future__ import annotations

import fcntl
import os
import secrets
import tempfile
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from gateway.keys.keys_file import BadKeysFile, NamedKey, parse
from gateway.limits.limits import NAMES as LIMITS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

_HEADER: Final = "# Keys of clients: `name: SHA-256 of the key`, then options.\n"
#: Bytes of chance in a key.
_CHANCE: Final = 32


def new_key() -> str:
    """Return a key that nobody can guess; its signs fit into headers and subprotocols."""
    return f"sk-ml-{secrets.token_urlsafe(_CHANCE)}"


def add(path: Path, key: NamedKey) -> None:
    """Write a key into a file, which is made if there is none.

    It says what was its tenant's before and the tenant's limits, as the others of the tenant do:
    each of these may go.

    Raises:
        BadKeysFile: The file cannot be used, or has this name or this key.
        OSError: It cannot be read or written.
    """

    def with_it(text: str) -> str:
        earlier = _of_tenant(text, key.tenant)
        return f"{text or _HEADER}{_with_those_of(key, earlier).line()}\n"

    _edit(path, with_it)


def remove(path: Path, name: str) -> None:
    """Take a key out of a file; comments and other lines stay.

    What was the tenant's before stays its own, and so do its limits, by the line of another of its
    keys.

    Raises:
        BadKeysFile: The file cannot be used, or has no such key.
        OSError: It cannot be read or written.
    """

    def without(text: str) -> str:
        lines = text.splitlines(keepends=True)
        kept = [line for line in lines if _name(line) != name]
        if len(kept) == len(lines):
            raise BadKeysFile(f"there is no key called {name!r}")
        (gone,) = (key for key in parse(text.encode()) if key.name == name)
        others = [key for key in _of_tenant(text, gone.tenant) if key.name != name]
        if others and _with_those_of(others[0], others) != _with_those_of(
            others[0], [*others, gone]
        ):
            line = f"{_with_those_of(others[0], [gone]).line()}\n"
            kept = [line if _name(one) == others[0].name else one for one in kept]
        return "".join(kept) or _HEADER

    _edit(path, without)


def _of_tenant(text: str, tenant: str) -> list[NamedKey]:
    keys = parse(text.encode()) if text else ()
    return [key for key in keys if key.tenant == tenant]


def _with_those_of(key: NamedKey, others: Iterable[NamedKey]) -> NamedKey:
    """Return a key that says of its tenant what others of its keys say, too."""
    every = (key, *others)
    former = dict.fromkeys(one for other in every for one in other.formerly)
    said = {name: most for other in reversed(every) for name, most in other.limits}
    limits = tuple((name, said[name]) for name in LIMITS if name in said)
    return replace(key, formerly=tuple(former), limits=limits)


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
