"""Shapes: functions that check whether a JSON value is what the official types ask for."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    #: Returns whether a value fits.
    Shape = Callable[[object], bool]


def of(*types: type) -> Shape:
    """Accept a value of exactly these types: a boolean is no number."""
    return lambda value: type(value) in types


def one_of(*names: str) -> Shape:
    """Accept one of these strings."""
    return lambda value: isinstance(value, str) and value in names


def either(*shapes: Shape) -> Shape:
    """Accept a value of any of these shapes."""
    return lambda value: any(fits(value) for fits in shapes)


def each(fits: Shape) -> Shape:
    """Accept a list of values of this shape."""
    return lambda value: isinstance(value, list) and all(map(fits, value))


def values(fits: Shape) -> Shape:
    """Accept an object whose values, under any keys, have this shape."""
    return lambda value: isinstance(value, dict) and all(map(fits, value.values()))


def record(needed: Mapping[str, Shape], optional: Mapping[str, Shape] | None = None) -> Shape:
    """Accept an object with the needed keys; optional ones may be null, others are free."""

    def fits(value: object) -> bool:
        if not isinstance(value, dict):
            return False
        whole = all(key in value and fits(value[key]) for key, fits in needed.items())
        others = ((fits, value.get(key)) for key, fits in (optional or {}).items())
        return whole and all(inner is None or fits(inner) for fits, inner in others)

    return fits


def tagged(shapes: Mapping[str, Shape], *, others: bool = False) -> Shape:
    """Accept an object by the shape of its `type`; `others` says whether an unknown type fits."""

    def fits(value: object) -> bool:
        kind = value.get("type") if isinstance(value, dict) else None
        if not isinstance(kind, str) or not kind:
            return False
        return shapes[kind](value) if kind in shapes else others

    return fits
