"""Which keys are in force, and what is open under each named one, so that it ends with its key."""

from __future__ import annotations

import time
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING
from weakref import WeakSet

from gateway.keys.keys_file import digest_of
from lanes.errors import ClientFault, UpstreamFault

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from gateway.keys.keys_file import NamedKey
    from gateway.limits.limits import GivenLimits

    #: Ends something that was opened under a key.
    End = Callable[[UpstreamFault], None]


class LiveKey:
    """A named key that lets clients in, until it is revoked or expires.

    Attributes:
        key: What the file says of it now.
        over: Why it lets nobody in any more.
    """

    __slots__ = ("_ends", "key", "over")

    def __init__(self, key: NamedKey) -> None:
        self.key = key
        self.over: UpstreamFault | None = None
        self._ends: dict[object, End] = {}

    @contextmanager
    def holding(self, end: End) -> Iterator[None]:
        """Wrap the time in which something is open under the key: `end` is called if it ends."""
        token = object()
        self._ends[token] = end
        if self.over is not None:
            end(self.over)
        try:
            yield
        finally:
            self._ends.pop(token, None)

    def expire(self, now: float) -> int:
        """End all that is open if the key has expired by now; return how much that is."""
        return self._end(self.has_ended()) if self.key.expired(now) else 0

    def has_ended(self) -> UpstreamFault:
        """Return the fault of whoever shows it after its time."""
        return expired()

    def revoke(self) -> int:
        """End all that is open, and what is opened yet; return how much is open."""
        self.over = over("api_key_revoked", "This API key was revoked.")
        return self._end(self.over)

    @property
    def bound(self) -> bool:
        """Whether there are models that it may not ask for."""
        return bool(self.key.models)

    def allows(self, model: str) -> bool:
        """Return whether it may ask for this model."""
        return self.key.allows(model)

    def check_model(self, model: object) -> None:
        """Raise ClientFault if the key may not ask for this model; what is no name is left."""
        if isinstance(model, str) and not self.allows(model):
            raise ClientFault(
                f"This API key may not ask for the model '{model[:80]}'.",
                code="model_not_allowed",
                status=403,
                param="model",
            )

    def _end(self, fault: UpstreamFault) -> int:
        ends = list(self._ends.values())
        self._ends.clear()  # once is enough, however long each takes to end
        for end in ends:
            end(fault)
        return len(ends)


def expired() -> UpstreamFault:
    """Return the fault of whoever shows a key that has expired."""
    return over("api_key_expired", "This API key has expired.")


def over(code: str, message: str) -> UpstreamFault:
    """Return the fault of whoever shows what lets nobody in any more."""
    return UpstreamFault(message, code=code, status=401, type="invalid_request_error")


class KeyRing:
    """Every key that is known, by its SHA-256.

    Args:
        nameless: SHA-256 of a key without a name -> its id.
        clock: Returns the seconds since 1970.
    """

    def __init__(self, nameless: dict[bytes, str], clock: Callable[[], float] = time.time) -> None:
        self._nameless = nameless
        self._clock = clock
        self._named: dict[bytes, LiveKey] | None = None
        self._homes: dict[str, tuple[str, ...]] = {}
        #: What ends by itself, besides the keys of the file: client secrets in use.
        self._watched: WeakSet[LiveKey] = WeakSet()
        self._limits: dict[str, dict[str, int | None]] = {}
        #: Called once other named keys are in force.
        self.changed: Callable[[], None] = _nobody_asks

    @property
    def open(self) -> bool:
        """Whether there are no keys to show, so that everyone may come in."""
        return self._named is None and not self._nameless

    def find(self, key: bytes | None) -> LiveKey | str | None:
        """Return a named key, the id of a nameless one, or None for one that is not known.

        A look-up takes its time by the digest, which nobody can choose by guessing keys.
        """
        if not key:
            return None
        return self.of_digest(digest_of(key))

    def of_digest(self, digest: bytes) -> LiveKey | str | None:
        """Return the key of which this is the SHA-256 (see `find`)."""
        live = (self._named or {}).get(digest)
        return self._nameless.get(digest) if live is None else live

    def watch(self, live: LiveKey) -> None:
        """End what is open under something in its time, as long as it is in use."""
        self._watched.add(live)

    def expired(self, live: LiveKey) -> bool:
        """Return whether a key has expired."""
        return live.key.expired(self._clock())

    def check(self, keys: Iterable[NamedKey]) -> None:
        """Raise ValueError if a nameless key is among these: revoking it would not end it."""
        for key in keys:
            if key.digest in self._nameless:
                raise ValueError(
                    f"{key.name} is among the keys without a name, too; take it out there"
                )

    def homes(self, owner: str) -> tuple[str, ...]:
        """Return under which keys an owner's records are, its own first."""
        return self._homes.get(owner, (owner,))

    def limits(self, owner: str) -> GivenLimits:
        """Return the limits of a tenant, as far as the lines of its keys say them."""
        return tuple(self._limits.get(owner, {}).items())

    def replace(self, keys: Iterable[NamedKey]) -> Change:
        """Let these named keys be in force, and end what is open under those that are gone.

        A key that is another tenant's now is gone as well: what is open has the records of the
        one before.
        """
        before = self._named or {}
        now: dict[bytes, LiveKey] = {}
        for key in keys:
            live = before.get(key.digest)
            if live is not None and live.key.owner == key.owner:
                live.key = key
            else:
                live = LiveKey(key)
            now[key.digest] = live
        self._named = now
        self._homes = _homes(live.key for live in now.values())
        self._limits = {}
        for live in now.values():
            self._limits.setdefault(live.key.owner, {}).update(live.key.limits)
        self.changed()
        gone = [live for digest, live in before.items() if now.get(digest) is not live]
        ended = sum(live.revoke() for live in gone)
        new = [live.key.name for digest, live in now.items() if before.get(digest) is not live]
        return Change(len(now), new, [live.key.name for live in gone], ended)

    def expire(self) -> Iterator[tuple[str, int]]:
        """End what is open under what has expired; yield each name, and how much it was."""
        now = self._clock()
        for live in [*(self._named or {}).values(), *self._watched]:
            if ended := live.expire(now):
                yield live.key.name, ended


def _homes(keys: Iterable[NamedKey]) -> dict[str, tuple[str, ...]]:
    """Return the homes of those owners whose records are not only under their own name."""
    former: dict[str, dict[str, None]] = {}
    for key in keys:
        former.setdefault(key.owner, {}).update(dict.fromkeys(key.formerly))
    return {owner: (owner, *others) for owner, others in former.items() if others}


def _nobody_asks() -> None:
    """Do nothing about other keys."""


@dataclass(frozen=True, slots=True)
class Change:
    """What became of a keys file that was read again.

    Attributes:
        total: Keys that are in force.
        new: Names of keys that are new.
        gone: Names of keys that are revoked.
        ended: Connections and requests that ended with these.
    """

    total: int
    new: list[str]
    gone: list[str]
    ended: int

    def __str__(self) -> str:
        """Say it in a line of the log."""
        parts = [f"{self.total} in force"]
        parts += [f"new: {', '.join(self.new)}"] if self.new else []
        if self.gone:
            parts.append(f"revoked: {', '.join(self.gone)}, which ends {self.ended} open")
        return "; ".join(parts)
