"""Whether a value read from JSON is of the shape that the official types ask for."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    #: Whether a value fits.
    Shape = Callable[[object], bool]


def of(*types: type) -> Shape:
    """A value of just these types: a boolean is no number."""
    return lambda value: type(value) in types


def one_of(*names: str) -> Shape:
    """One of these strings."""
    return lambda value: isinstance(value, str) and value in names


def either(*shapes: Shape) -> Shape:
    """A value of any of these shapes."""
    return lambda value: any(fits(value) for fits in shapes)


def each(fits: Shape) -> Shape:
    """A list of such values."""
    return lambda value: isinstance(value, list) and all(map(fits, value))


def values(fits: Shape) -> Shape:
    """An object of such values under any keys."""
    return lambda value: isinstance(value, dict) and all(map(fits, value.values()))


def record(needed: Mapping[str, Shape], optional: Mapping[str, Shape] | None = None) -> Shape:
    """An object that has these keys; those that are optional may be null, others are free."""

    def fits(value: object) -> bool:
        if not isinstance(value, dict):
            return False
        known = all(key in value and fits(value[key]) for key, fits in needed.items())
        found = ((fits, value.get(key)) for key, fits in (optional or {}).items())
        return known and all(inner is None or fits(inner) for fits, inner in found)

    return fits


def tagged(shapes: Mapping[str, Shape], *, others: bool = False) -> Shape:
    """An object whose `type` tells its shape. `others` says whether an unknown type fits."""

    def fits(value: object) -> bool:
        kind = value.get("type") if isinstance(value, dict) else None
        if not isinstance(kind, str) or not kind:
            return False
        return shapes[kind](value) if kind in shapes else others

    return fits
