"""How many tokens a response took, whatever words its backend has for that (protocol.md 4)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

_READ = ("input_tokens", "prompt_tokens")
_WRITTEN = ("output_tokens", "completion_tokens")
_DETAILS_OF_INPUT = ("input_tokens_details", "prompt_tokens_details")
_DETAILS_OF_OUTPUT = ("output_tokens_details", "completion_tokens_details")
#: Names of tokens that were read from a cache. Some backends have them beside their totals.
_CACHED = (
    *("cached_tokens", "prompt_cache_hit_tokens", "cache_read_input_tokens"),
    *("cached_prompt_tokens", "cache_read_tokens", "num_cached_tokens"),
)
_CACHE_WRITTEN = ("cache_write_tokens", "cache_creation_input_tokens", "cache_creation_tokens")


def usage(reported: object) -> dict[str, Any] | None:
    """Return a backend's usage in the reference's shape; None if it sent none, not zeros."""
    if not isinstance(reported, dict):
        return None
    read, written = _count([reported], *_READ), _count([reported], *_WRITTEN)
    if read is None and written is None:
        return None
    into = _places(reported, _DETAILS_OF_INPUT)
    cached, kept = _count(into, *_CACHED) or 0, _count(into, *_CACHE_WRITTEN) or 0
    read = read or 0
    if cached > read:  # counted beside the rest of the input: the reference counts all of it
        read += cached + kept
    total = _count([reported], "total_tokens")
    reasoned = _count(_places(reported, _DETAILS_OF_OUTPUT), "reasoning_tokens")
    return {
        "input_tokens": read,
        "input_tokens_details": {"cached_tokens": cached, "cache_write_tokens": kept},
        "output_tokens": written or 0,
        "output_tokens_details": {"reasoning_tokens": reasoned or 0},
        "total_tokens": read + (written or 0) if total is None else total,
    }


def tells_tokens(reported: Mapping[str, Any]) -> bool:
    """Return whether a usage has totals that are not all zero."""
    return any(reported.get(name) not in (None, 0, "0") for name in (*_READ, *_WRITTEN))


def _places(counts: Mapping[str, Any], names: tuple[str, ...]) -> list[Mapping[str, Any]]:
    """Return where details may be: in objects under these names, then beside the totals."""
    inner = [counts[name] for name in names if isinstance(counts.get(name), dict)]
    return [*inner, counts]


def _count(places: list[Mapping[str, Any]], *names: str) -> int | None:
    """Return the first of these that is a number of tokens, but a zero only if no other is."""
    found = [
        number
        for place in places
        for name in names
        if (number := _number(place.get(name))) is not None
    ]
    return next(filter(None, found), found[0] if found else None)


def _number(value: object) -> int | None:
    """Return a number of tokens, which some backends write as a float or as text."""
    if isinstance(value, str):
        try:
            value = float(value) if len(value) < 20 else None
        except ValueError:
            return None
    if type(value) is float and value.is_integer():
        value = int(value)
    return value if type(value) is int and value >= 0 else None
