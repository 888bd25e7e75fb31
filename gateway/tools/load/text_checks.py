"""The check that deltas, done events and final output of a response hold the same text. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gateway.tools.load.server_events import ServerEvent

#: Event types without `.delta`/`.done`, and where done events, parts and calls hold the whole text.
_FIELDS = {
    "response.output_text": "text",
    "response.refusal": "refusal",
    "response.reasoning_text": "text",
    "response.reasoning_summary_text": "text",
    "response.function_call_arguments": "arguments",
    "response.mcp_call_arguments": "arguments",
    "response.custom_tool_call_input": "input",
    "response.code_interpreter_call_code": "code",
}
DELTAS = {f"{kind}.delta": kind for kind in _FIELDS}
DONES = {f"{kind}.done": kind for kind in _FIELDS}

_PARTS = {
    ("content", "output_text"): "response.output_text",
    ("content", "refusal"): "response.refusal",
    ("content", "reasoning_text"): "response.reasoning_text",
    ("summary", "summary_text"): "response.reasoning_summary_text",
}
_CALLS = {
    "function_call": "response.function_call_arguments",
    "mcp_call": "response.mcp_call_arguments",
    "custom_tool_call": "response.custom_tool_call_input",
    "code_interpreter_call": "response.code_interpreter_call_code",
}

#: Where a text belongs: its event type, output_index, and content or summary index (-1: the text
#: of a call). A plain tuple, as one is made for every delta.
TextPlace = tuple[str, int, int]


class ResponseTexts:
    """The texts of one response while it streams."""

    def __init__(self) -> None:
        self._open: dict[TextPlace, list[str]] = {}
        self._done: dict[TextPlace, str] = {}

    def add(self, kind: str, event: ServerEvent) -> None:
        """Take one delta."""
        place = _place(kind, event)
        parts = self._open.get(place)
        if parts is None:
            parts = self._open[place] = []
        parts.append(event.delta if isinstance(event.delta, str) else "")

    def close(self, kind: str, event: ServerEvent) -> str | None:
        """Compare a done event with its deltas; return what is wrong, if anything."""
        place = _place(kind, event)
        streamed = "".join(self._open.pop(place, []))
        self._done[place] = streamed
        return _differ(place, streamed, getattr(event, _FIELDS[kind]), "the done event has")

    def finish(self, output: list[Any], *, partial: bool) -> Iterator[str]:
        """Compare the terminal event's output with everything streamed; yield what is wrong.

        A failed response is `partial`: its output may lack what was cut off.
        """
        whole = dict(_texts(output))
        for place, parts in self._open.items():
            self._done[place] = "".join(parts)
            if not partial:
                yield f"{_named(place)} got no done event"
        for place in self._done.keys() | whole.keys():
            if partial and place not in whole:
                continue
            streamed = self._done.get(place, "")
            problem = _differ(place, streamed, whole.get(place, ""), "the final output has")
            if problem:
                yield problem


def message_text(output: list[Any]) -> str:
    """Return the text of a final output's messages."""
    texts = _texts(output)
    return " ".join(str(text) for (kind, _, _), text in texts if kind == "response.output_text")


def _place(kind: str, event: ServerEvent) -> TextPlace:
    part = event.content_index if event.content_index >= 0 else event.summary_index
    return kind, event.output_index, part


def _named(place: TextPlace) -> str:
    kind, output, part = place
    where = f", part {part}" if part >= 0 else ""
    return f"{kind.removeprefix('response.')} of output {output}{where}"


def _differ(place: TextPlace, streamed: str, whole: Any, source: str) -> str | None:
    if streamed == whole:
        return None
    return f"{_named(place)}: the deltas join to {_short(streamed)}, {source} {_short(whole)}"


def _short(text: Any) -> str:
    shown = repr(text)
    return (
        shown if len(shown) <= 90 else f"{shown[:40]}…{shown[-40:]} ({len(shown) - 2} characters)"
    )


def _texts(output: list[Any]) -> Iterator[tuple[TextPlace, Any]]:
    for index, item in enumerate(output):
        if not isinstance(item, dict):
            continue
        if kind := _CALLS.get(item.get("type", "")):
            yield (kind, index, -1), item.get(_FIELDS[kind]) or ""
        yield from _part_texts(index, item, "content")
        yield from _part_texts(index, item, "summary")


def _part_texts(index: int, item: dict[str, Any], name: str) -> Iterator[tuple[TextPlace, Any]]:
    for number, part in enumerate(item.get(name) or ()):
        kind = _PARTS.get((name, part.get("type", ""))) if isinstance(part, dict) else None
        if kind:
            yield (kind, index, number), part.get(_FIELDS[kind])
