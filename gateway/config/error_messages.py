"""Words for refused settings: what a field takes, which name was meant, what was given."""

from __future__ import annotations

import difflib
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Annotated, Any, Final, Union, get_args, get_origin

from annotated_types import Ge, Gt, Le
from pydantic.fields import FieldInfo

from gateway.config.setting_types import SIZE
from gateway.config.setting_words import choices, shown
from gateway.config.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pydantic import BaseModel

_KINDS: Final[dict[object, str]] = {
    bool: "true or false",
    int: "an integer",
    float: "seconds",
    tuple: "a list of text",
    dict: "a table of text",
}


def allowed(name: str, model: type[BaseModel] = Settings) -> str:
    """Return what a field takes, such as `an integer from 0 to 10`."""
    kind, metadata = _parts(model.model_fields[name])
    if SIZE in metadata:
        return "a size such as 8MiB, 512KiB or 1048576 (bytes)" + _bounds(name, metadata, model)
    if named := choices(name, model):
        return f"{', '.join(named[:-1])} or {named[-1]}"
    return _KINDS.get(get_origin(kind) or kind, "text") + _bounds(name, metadata, model)


def unknown(name: str, names: Iterable[str], what: str = "a setting") -> str:
    """Return the message for an unknown name, with the closest known one.

    Args:
        name: What was given.
        names: All that exist.
        what: What each of them is.
    """
    near = difflib.get_close_matches(name, names, n=1, cutoff=0.8)
    if not name.isprintable():
        name = repr(name)  # the message must stay on one line
    return f"{name} is not {what}" + (f"; did you mean {near[0]}?" if near else "")


def shape(value: object) -> str:
    """Return a value as a message names it; a list or a table may hold secrets."""
    if isinstance(value, list | dict):
        return "a list" if isinstance(value, list) else "a table"
    return repr(str(value)[:40])


def _parts(field: FieldInfo) -> tuple[Any, list[Any]]:
    """Return a field's type without `| None`, and its metadata."""
    kind, metadata = field.annotation, list(field.metadata)
    if get_origin(kind) in (Union, UnionType):
        kind = next(arg for arg in get_args(kind) if arg is not NoneType)
    if get_origin(kind) is Annotated:
        kind, *more = get_args(kind)
        for one in more:
            metadata += one.metadata if isinstance(one, FieldInfo) else [one]
    return kind, metadata


def _bounds(name: str, metadata: Iterable[Any], model: type[BaseModel]) -> str:
    bounds = {type(bound): bound for bound in metadata}
    match bounds.get(Ge), bounds.get(Gt), bounds.get(Le):
        case Ge(ge=least), None, Le(le=most):
            return f" from {shown(name, least, model)} to {shown(name, most, model)}"
        case None, Gt(gt=below), Le(le=most):
            return f", more than {shown(name, below, model)} and up to {shown(name, most, model)}"
        case Ge(ge=least), None, None:
            return f", at least {shown(name, least, model)}"
        case _:
            return ""
