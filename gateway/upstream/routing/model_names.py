"""Pure: which upstream takes a model by what the tables say, before any of them is asked."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from gateway.config.upstream_settings import UpstreamSettings


class ModelTaken(Exception):
    """A name that two upstreams claim: whose table has it second, and where."""

    def __init__(self, at: int, field: str, name: str, owner: str) -> None:
        super().__init__(f"{name!r} is what {owner} takes")
        self.at = at
        self.field = field


def is_pattern(model: str) -> bool:
    """Whether it stands for several models."""
    return any(sign in model for sign in "*?[")


def takes(settings: UpstreamSettings, name: str) -> bool:
    """Whether the table says so, by an alias, an id or a pattern."""
    return name in settings.aliases or any(_fits(model, name) for model in settings.models)


def asked_as(settings: UpstreamSettings, name: str) -> str:
    """What this upstream calls the model that a client calls `name`."""
    return settings.aliases.get(name, name)


def _fits(model: str, name: str) -> bool:
    return fnmatchcase(name, model) if is_pattern(model) else name == model


class ModelClaims:
    """Aliases and exact ids first, then patterns in order, then what an upstream has as `default`.

    Upstreams are known by their place in order. An id or alias belongs to one of them, and to those
    that step in for that one. Raises Taken.
    """

    def __init__(self, upstreams: Sequence[UpstreamSettings]) -> None:
        self._upstreams = upstreams
        claimed: dict[str, dict[int, str]] = {}
        for at, field, name in _exact(upstreams):
            claimed.setdefault(name, {}).setdefault(at, field)
        self._exact = {name: self._owner(name, fields) for name, fields in claimed.items()}

    def find(self, name: str) -> int | None:
        """Whose model it is; None where only a list could tell."""
        if name in self._exact:
            return self._exact[name]
        for at, one in enumerate(self._upstreams):
            if any(is_pattern(model) and fnmatchcase(name, model) for model in one.models):
                return at
        return next((at for at, one in enumerate(self._upstreams) if one.default == name), None)

    def _owner(self, name: str, fields: dict[int, str]) -> int:
        """Who of those that claim a name is asked first."""
        own = [(self._upstreams[at].name, at) for at in fields]
        helped = {fallback for one, at in own for fallback in self._upstreams[at].fallbacks}
        first, *others = [at for one, at in own if one not in helped] or [own[0][1]]
        if others:
            raise ModelTaken(others[0], fields[others[0]], name, self._upstreams[first].name)
        return first


def _exact(upstreams: Sequence[UpstreamSettings]) -> Iterator[tuple[int, str, str]]:
    for at, one in enumerate(upstreams):
        yield from ((at, "aliases", name) for name in one.aliases)
        yield from ((at, "models", name) for name in one.models if not is_pattern(name))
