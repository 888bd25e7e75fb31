"""The text of a keys file: one named key a line, of which only the hash is there (D47). Pure.

    # name: SHA-256 of the key, then options
    acme: 2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824
    ci: 486ea46224d1bb4fb680f34f7c9ad96a8f24ec88be73ea8e5a6c65260e9cb8a7 tenant=acme models=gpt-*

docs/operations.md explains it to operators.
"""

from __future__ import annotations

import difflib
import hashlib
import re
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from gateway.limits.limits import NAMES as LIMITS
from gateway.limits.limits import GivenLimits, read_limit, shown_limit

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

#: Far more than any number of keys needs.
MAX_BYTES: Final = 1 << 20
NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_HASH: Final = re.compile(r"[0-9a-f]{64}")
_FORMER: Final = re.compile(r"[0-9a-f]{16}")
_OPTIONS: Final = ("tenant", "expires", "models", "formerly", *LIMITS)


class BadKeysFile(ValueError):
    """A keys file cannot be used; one line says where and why, and holds no hash."""


@dataclass(frozen=True, slots=True)
class NamedKey:
    """A key as its line describes it.

    Attributes:
        name: Its name, of which there is one in a file.
        digest: The SHA-256 of the key.
        tenant: Whose it is: what is stored under it belongs to the tenant.
        expires: When it stops to be valid, in seconds since 1970; None for never.
        models: The models that it may ask for, `*` standing for any end; empty for all.
        formerly: The ids of nameless keys whose records are the tenant's, too.
        limits: The tenant's limits as far as the line says them.
    """

    name: str
    digest: bytes = field(repr=False)
    tenant: str
    expires: float | None = None
    models: tuple[str, ...] = ()
    formerly: tuple[str, ...] = ()
    limits: GivenLimits = ()

    @property
    def owner(self) -> str:
        """What the tenant's records are kept under; it cannot be the id of a nameless key."""
        return f"tenant-{self.tenant}"

    def expired(self, now: float) -> bool:
        """Return whether the key is no longer valid at this time."""
        return self.expires is not None and self.expires <= now

    def allows(self, model: str) -> bool:
        """Return whether the key may ask for this model."""
        return not self.models or any(_matches(one, model) for one in self.models)

    def line(self) -> str:
        """Return the line of the file, without its end."""
        words = [f"{self.name}: {self.digest.hex()}"]
        if self.tenant != self.name:
            words.append(f"tenant={self.tenant}")
        if self.expires is not None:
            words.append(f"expires={shown_time(self.expires)}")
        if self.models:
            words.append(f"models={','.join(self.models)}")
        if self.formerly:
            words.append(f"formerly={','.join(self.formerly)}")
        words += [f"{limit}={shown_limit(most)}" for limit, most in self.limits]
        return " ".join(words)


def digest_of(key: bytes) -> bytes:
    """Return what a keys file holds of a key."""
    return hashlib.sha256(key).digest()


def key_id(key: str) -> str:
    """Return the id of a key without a name, under which its records are kept.

    It is short and stable, and does not reveal the key.
    """
    return hashlib.sha256(b"multilane key id\n" + key.encode()).hexdigest()[:16]


def parse(content: bytes) -> tuple[NamedKey, ...]:
    """Return the keys in the text of a file.

    Raises:
        BadKeysFile: The text breaks a rule; the message names the line.
    """
    if len(content) > MAX_BYTES:
        raise BadKeysFile("is too large to hold keys")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        number = content.count(b"\n", 0, error.start) + 1
        raise BadKeysFile(f"line {number}: is not text in UTF-8") from None
    # Whoever saves a file writes it in pieces: what has no end yet may have lost its options.
    if not text.endswith("\n"):
        number = text.count("\n") + 1
        raise BadKeysFile(
            f"line {number}: does not end with a line break, so it may be half-written"
        )
    keys: list[NamedKey] = []
    earlier = _Earlier()
    for number, raw in enumerate(text.split("\n"), 1):
        line = raw.strip()
        if not line or line.startswith("#"):
            continue
        try:
            key = parse_line(line)
            earlier.add(key, number)
        except BadKeysFile as bad:
            raise BadKeysFile(f"line {number}: {bad}") from None
        keys.append(key)
    return tuple(keys)


def parse_line(line: str) -> NamedKey:
    """Return the key that a line describes; raises BadKeysFile, without a number of the line."""
    name, colon, rest = line.partition(":")
    name = name.strip()
    if not colon:
        raise BadKeysFile("must be `name: hash`, and has no colon")
    digest, *words = rest.split() or [""]
    if not NAME.fullmatch(name):
        raise BadKeysFile(f"{_quoted(name)} is no name: up to 64 letters, digits, '.', '_' and '-'")
    if not _HASH.fullmatch(digest.lower()):
        raise BadKeysFile(f"{name}: must have the SHA-256 of the key, which is 64 hex digits")
    given = _options(name, words)
    tenant = given.get("tenant", name)
    if not NAME.fullmatch(tenant):
        raise BadKeysFile(f"{name}: {_quoted(tenant)} is no name of a tenant")
    return NamedKey(
        name,
        bytes.fromhex(digest),
        tenant,
        read_time(given["expires"]) if "expires" in given else None,
        models_of(given.get("models", "")),
        _former(given.get("formerly", "")),
        _limits(name, given),
    )


def _options(name: str, words: Iterable[str]) -> dict[str, str]:
    """Return the options of a line, whose values are not read yet."""
    given: dict[str, str] = {}
    for word in words:
        option, equals, value = word.partition("=")
        if option not in _OPTIONS or not equals:
            near = difflib.get_close_matches(option, _OPTIONS, 1)
            hint = f"did you mean {near[0]}=?" if near else f"there are {', '.join(_OPTIONS)}"
            raise BadKeysFile(f"{name}: {_quoted(word)} is no option; {hint}")
        if option in given:
            raise BadKeysFile(f"{name}: has {option}= twice")
        if not value:
            raise BadKeysFile(f"{name}: {option}= has no value")
        given[option] = value
    return given


def read_time(text: str) -> float:
    """Return a date or a time in ISO 8601, UTC unless it says otherwise, in seconds since 1970."""
    try:
        time = datetime.fromisoformat(text)
        return (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        example = "2027-01-31 or 2027-01-31T12:00:00Z"
        raise BadKeysFile(f"expires={_quoted(text)} is no time; write it as {example}") from None


def shown_time(seconds: float) -> str:
    """Return a time as a keys file has it."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def models_of(text: str) -> tuple[str, ...]:
    """Return names of models that commas separate, the last sign of each perhaps a `*`."""
    names = tuple(text.split(",")) if text else ()
    if any(not name or "*" in name[:-1] for name in names):
        raise BadKeysFile("models= must be names with commas between; a `*` may end a name")
    return names


def _matches(pattern: str, model: str) -> bool:
    return model.startswith(pattern[:-1]) if pattern.endswith("*") else model == pattern


def _former(text: str) -> tuple[str, ...]:
    ids = tuple(text.split(",")) if text else ()
    if not all(_FORMER.fullmatch(one) for one in ids):
        raise BadKeysFile("formerly= must be ids as `multilane key add` writes them")
    return ids


def _limits(name: str, given: Mapping[str, str]) -> GivenLimits:
    try:
        return tuple((one, read_limit(one, given[one])) for one in LIMITS if one in given)
    except ValueError as bad:
        raise BadKeysFile(f"{name}: {bad}") from None


class _Earlier:
    """What earlier lines said, which no later one may contradict."""

    def __init__(self) -> None:
        self._lines: dict[str, int] = {}
        self._digests: dict[bytes, str] = {}
        self._former: dict[str, NamedKey] = {}
        self._limits: dict[tuple[str, str], tuple[NamedKey, int | None]] = {}

    def add(self, key: NamedKey, line: int) -> None:
        """Note a line; raise BadKeysFile if it contradicts one before."""
        if key.name in self._lines:
            raise BadKeysFile(
                f"the name {key.name} is on line {self._lines[key.name]} already;"
                " a further key of a tenant has a name of its own, and tenant="
            )
        if key.digest in self._digests:
            raise BadKeysFile(f"{key.name} is the same key as {self._digests[key.digest]}")
        for one in key.formerly:
            other = self._former.setdefault(one, key)
            if other.tenant != key.tenant:
                raise BadKeysFile(f"{key.name} and {other.name} claim the records of the same key")
        for limit, most in key.limits:
            other, its = self._limits.setdefault((key.tenant, limit), (key, most))
            if its != most:
                raise BadKeysFile(
                    f"{key.name} and {other.name} are keys of one tenant, and its limits must be"
                    f" the same: {limit}={shown_limit(its)} or {limit}={shown_limit(most)}"
                )
        self._lines[key.name] = line
        self._digests[key.digest] = key.name


def _quoted(word: str) -> str:
    """Return a word for a message, shortened: a key that was put in a wrong place is a secret."""
    return repr(word if len(word) <= 16 else word[:6] + "…")
