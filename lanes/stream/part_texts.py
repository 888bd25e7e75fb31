"""The texts in a backend's own form of an item, beside those that were sent. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from msgspec import Raw

from lanes.stream.parts import KINDS, OUTPUT_TEXT, REASONING, SUMMARY, kind_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from lanes.stream.parts import Part, PartKind

#: The kinds of parts in the content of an item whose texts have to be those that were sent.
_CONTENT: Final = (OUTPUT_TEXT, REASONING)


def has_text(final: Mapping[str, Any]) -> bool:
    """Return whether a backend's own item has any text in its parts."""
    given = (_texts(final.get(key), *KINDS) for key in ("content", "summary"))
    return any(map(any, given))


def have_texts(content: Iterable[Part], summary: Iterable[Part], final: Mapping[str, Any]) -> bool:
    """Return whether an item says what the backend's own form of it says.

    Args:
        content: Its parts.
        summary: Those of its summary.
        final: The backend's own form.
    """
    texts = [part.text for part in content if part.kind in _CONTENT]
    if _texts(final.get("content"), *_CONTENT) != texts:
        return False
    return _texts(final.get("summary"), SUMMARY) == [part.text for part in summary]


def with_texts(
    call: Part | None, content: Iterable[Part], summary: Iterable[Part], final: dict[str, Any]
) -> dict[str, Any]:
    """Return a backend's own form with the JSON of its texts that is there already (D33).

    Args:
        call: What a call says; the item has just these texts (see `have_texts`).
        content: The item's parts.
        summary: Those of its summary.
        final: The backend's own form.
    """
    if call is not None:
        return {**final, call.kind.text_key: Raw(call.final)}
    sent = iter([part for part in content if part.kind in _CONTENT])
    lines = ("content", _CONTENT, sent), ("summary", (SUMMARY,), iter(summary))
    return final | {
        key: [_with_text(part, kinds, parts) for part in final[key]]
        for key, kinds, parts in lines
        if isinstance(final.get(key), list)
    }


def _with_text(final: Any, kinds: tuple[PartKind, ...], sent: Iterator[Part]) -> Any:
    kind = kind_of(final)
    if kind not in kinds:
        return final
    part = next(sent)
    return {**final, kind.text_key: Raw(part.final)} if part.text_done else final


def _texts(parts: object, *kinds: PartKind) -> list[Any]:
    listed = parts if isinstance(parts, list) else ()
    pairs = [(part, kind_of(part)) for part in listed]
    return [part.get(kind.text_key) for part, kind in pairs if kind is not None and kind in kinds]
