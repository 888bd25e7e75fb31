"""Pure: which upstream takes a model by the operator's tables, before any upstream is asked."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from gateway.upstream.options import UpstreamOptions


class ModelTaken(Exception):
    """Two upstreams claim one name.

    Args:
        at: The place of the upstream whose table has the name second.
        field: The field of that table.
        name: The name.
        owner: The upstream that has it first.
    """

    def __init__(self, at: int, field: str, name: str, owner: str) -> None:
        super().__init__(f"{name!r} is what {owner} takes")
        self.at = at
        self.field = field


def is_pattern(model: str) -> bool:
    """Return whether it stands for several models."""
    return any(sign in model for sign in "*?[")


def takes(options: UpstreamOptions, name: str) -> bool:
    """Return whether the table claims `name`, by an alias, an id or a pattern."""
    return name in options.aliases or any(_fits(model, name) for model in options.models)


def asked_as(options: UpstreamOptions, name: str) -> str:
    """Return what this upstream calls the model that a client calls `name`."""
    return options.aliases.get(name, name)


def _fits(model: str, name: str) -> bool:
    return fnmatchcase(name, model) if is_pattern(model) else name == model


class ModelClaims:
    """The names that upstreams claim: aliases and ids first, then patterns in order, then defaults.

    An upstream is known by its place in order. An id or alias belongs to one of them, and to those
    that step in for that one. Raises ModelTaken.
    """

    def __init__(self, upstreams: Sequence[UpstreamOptions]) -> None:
        self._upstreams = upstreams
        claimed: dict[str, dict[int, str]] = {}
        for at, field, name in _exact(upstreams):
            claimed.setdefault(name, {}).setdefault(at, field)
        self._exact = {name: self._owner(name, fields) for name, fields in claimed.items()}

    def find(self, name: str) -> int | None:
        """Return the place of the upstream that takes the model; None where only lists can say."""
        if name in self._exact:
            return self._exact[name]
        for at, one in enumerate(self._upstreams):
            if any(is_pattern(model) and fnmatchcase(name, model) for model in one.models):
                return at
        return next((at for at, one in enumerate(self._upstreams) if one.default == name), None)

    def _owner(self, name: str, fields: dict[int, str]) -> int:
        """Return who of those that claim a name is asked first."""
        own = [(self._upstreams[at].name, at) for at in fields]
        helped = {fallback for one, at in own for fallback in self._upstreams[at].fallbacks}
        first, *others = [at for one, at in own if one not in helped] or [own[0][1]]
        if others:
            raise ModelTaken(others[0], fields[others[0]], name, self._upstreams[first].name)
        return first


def _exact(upstreams: Sequence[UpstreamOptions]) -> Iterator[tuple[int, str, str]]:
    for at, one in enumerate(upstreams):
        yield from ((at, "aliases", name) for name in one.aliases)
        yield from ((at, "models", name) for name in one.models if not is_pattern(name))
