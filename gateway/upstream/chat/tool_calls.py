"""Tool calls, assembled from the pieces of a Chat Completions stream. Pure.

Servers disagree on what says which call a piece is of: its `index`, its `id`, or only that it comes
next. Any of these may be missing, constant or wrong, and names and arguments may be said again. So
a piece goes to the call that it can be of, by all that it says (D43).

A call is announced as soon as its name is whole. It is finished when its arguments are whole and
something else begins, or when the answer ends. The run holds back what comes after an unfinished
call (D5), so pieces of several calls may be mixed.
"""

from __future__ import annotations

import logging
import weakref
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

from gateway.upstream.chat.chat_call import ChatCall
from lanes.codec import encode
from lanes.stream.parts import COLLECTED
from lanes.surrogates import encode_halves

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from gateway.upstream.chat.tool_names import ToolNames
    from lanes.history.makers import Maker

log = logging.getLogger("multilane.dialect")
_COLLECTED = encode({"type": COLLECTED})[:-1] + b',"kept":'
#: What an entry of `tool_calls` has; an object without any of it holds entries.
_ENTRY = frozenset({"id", "index", "function", "custom", "name", "arguments"})
#: Where a call is: the index of its choice, and its own.
Place = tuple[int, int]


@dataclass(frozen=True, slots=True)
class _Piece:
    """What one entry of `tool_calls` says."""

    place: Place | None
    id: str
    name: str
    arguments: str

    @property
    def begins(self) -> bool:
        """Whether a call may begin with it."""
        return bool(self.id or self.name or self.arguments.lstrip().startswith("{"))

    @classmethod
    def of(cls, entry: dict[str, Any], choice: int) -> _Piece:
        function = entry.get("function") or entry.get("custom")
        if not isinstance(function, dict):
            function = entry
        arguments = function.get("arguments", function.get("input"))
        if isinstance(arguments, dict):
            arguments = encode_halves(arguments).decode()
        index, name = _integer(entry.get("index")), _string(function.get("name"))
        place = None if index is None else (choice, index)
        return cls(place, _string(entry.get("id")), name, _string(arguments))


class CallWriter(Protocol):
    """What takes the events of calls."""

    def send(self, event: dict[str, Any]) -> None:
        """Take an event."""

    def put(self, data: bytes) -> None:
        """Take an event's JSON."""

    def name_call(self) -> str:
        """Return the id of a call's item, which begins now."""
        ...


class ChatCalls:
    """The calls of one answer, in order.

    Args:
        maker: The backend.
        names: The tools of the request.
        writer: Takes their events. It holds these calls, so it is only referred to weakly (D13).
        history: The input of the request, each item as JSON.
    """

    def __init__(
        self, maker: Maker, names: ToolNames, writer: CallWriter, history: Sequence[bytes] = ()
    ) -> None:
        self._history = history
        self._maker = maker
        self._names = names
        self._writer: CallWriter = weakref.proxy(writer)
        self._calls: list[ChatCall] = []
        self._by_place: dict[Place, ChatCall] = {}
        self._by_id: dict[str, ChatCall] = {}

    @property
    def any(self) -> bool:
        """Whether there are any that have a name."""
        return any(call.name for call in self._calls)

    @property
    def whole(self) -> bool:
        """Whether no call is in the middle of its arguments."""
        return all(call.whole or call.done or not call.pieces for call in self._calls)

    def add(self, given: Any, choice: int = 0) -> None:
        """Take the `tool_calls` of one chunk."""
        begun: list[ChatCall] = []
        for entry in _entries(given):
            if isinstance(entry, dict):
                self._add(entry, _Piece.of(entry, choice), begun)

    def add_whole(self, given: Any, choice: int = 0) -> None:
        """Take the `tool_calls` of a whole message, which repeats what was streamed."""
        if not self._calls:
            self.add(given, choice)
            return
        for at, entry in enumerate(_entries(given)):
            if not isinstance(entry, dict):
                continue
            piece = _Piece.of(entry, choice)
            call = self._by_id.get(piece.id)
            if call is None and at < len(self._calls):
                call = self._calls[at]
            if call is None or (call.name and call.name != piece.name):
                self._add(entry, piece, [])
            elif piece.arguments.startswith(call.arguments):
                call.add_name(piece.name, certain=True)
                self._grow(call, piece.arguments[len(call.arguments) :])

    def pause(self) -> None:
        """Finish the latest call if its arguments are whole, because something else begins."""
        for call in self._calls:
            if call.name in self._names.names and not call.item_id:
                self._announce(call)
        if self._calls and self._calls[-1].item_id and self._calls[-1].whole:
            self._finish(self._calls[-1])

    def finish(self, *, cut: bool) -> None:
        """Finish the calls at the end of the answer, except for one torn apart by a `cut`."""
        for call in self._calls:
            call.name = call.name or call.presumed
            if call.name and not call.item_id:
                self._announce(call)
            if not cut or call.whole:
                self._finish(call)

    def _add(self, entry: dict[str, Any], piece: _Piece, begun: list[ChatCall]) -> None:
        call = self._find(piece, begun)
        if call is None:
            if not piece.begins:
                return
            call = self._begin(piece)
            begun.append(call)
        elif call.whole:  # all of it was said before, but perhaps its name
            entry = entry if not piece.arguments else {}
            piece = replace(piece, arguments="")
        same_place = piece.place is None or self._by_place.get(piece.place) in (None, call)
        call.keep(entry)
        self._identify(call, piece)
        call.add_name(piece.name, certain=same_place)
        self._grow(call, piece.arguments)
        if call.custom is not None or not call.item_id:  # nothing may be sent of it yet
            self._writer.put(_COLLECTED + encode_halves(entry) + b"}")

    def _identify(self, call: ChatCall, piece: _Piece) -> None:
        """Note what a call is known by from now on. No two of a conversation show the same id."""
        if piece.id:
            if not (call.id or call.own_id):
                taken = call.item_id or piece.id in self._by_id or self._is_earlier(piece.id)
                call.id, call.own_id = ("", piece.id) if taken else (piece.id, "")
            call.ids.add(piece.id)
            self._by_id[piece.id] = call
        if piece.place is not None:
            self._by_place[piece.place] = call

    def _is_earlier(self, call_id: str) -> bool:
        """Return whether a call of the history has that id: some backends count them by answer."""
        id_ = encode(call_id)
        forms = b'"call_id":' + id_, b'"call_id": ' + id_
        return any(form in item for item in self._history for form in forms)

    def _find(self, piece: _Piece, begun: list[ChatCall]) -> ChatCall | None:
        """Return the call that a piece is of, None for a new one; `begun` are those of its list."""
        for call, certain in self._candidates(piece):
            same = piece.id in call.ids or (piece.place is not None and not piece.id)
            again = bool(piece.name) and piece.name == call.name and not call.pieces
            if piece.name and call in begun and not same and (call.whole or again):
                continue  # two entries of one list, and nothing says that they are one call
            other = bool(call.ids) and piece.id not in {"", *call.ids}
            if other and again and not piece.arguments:
                continue  # it announces another call of the same tool
            apart = other and bool(piece.name or piece.arguments)
            if call.whole and not apart and call.restates(piece.name, piece.arguments):
                return call
            if not call.whole and call.continues(
                piece.name, piece.arguments, certain=certain, other=other
            ):
                return call
        return None

    def _candidates(self, piece: _Piece) -> Iterator[tuple[ChatCall, bool]]:
        """Yield the calls that a piece may be of, the likeliest first, and what is certain."""
        at = self._by_place.get(piece.place) if piece.place is not None else None
        named = self._by_id.get(piece.id) if piece.id else None
        if at is not None and piece.id in at.ids:
            yield at, True
        elif named is not None:
            yield named, piece.place is None or piece.place in self._by_place
        if at is not None and piece.id not in at.ids:
            yield at, not (piece.id and at.ids)
        if at is not None or named is not None or not self._calls:
            return
        latest = self._calls[-1]
        if piece.place is None:
            yield latest, not piece.id and not piece.name
            if not piece.id and not piece.name:
                yield from ((call, False) for call in reversed(self._calls[:-1]))
            return
        start = piece.arguments.lstrip()[:1]
        awaited = latest.name and not latest.pieces and not (piece.id or piece.name)
        grown = latest.name and not (piece.id or piece.name) and latest.restated(piece.arguments)
        if start and (start != "{" or awaited or grown):
            yield latest, False  # it has only got another number

    def _begin(self, piece: _Piece) -> ChatCall:
        """Return a new call."""
        before = self._by_id.get(piece.id) or self._by_place.get(piece.place or (-1, -1))
        self.pause()
        call = ChatCall(self._maker, self._names)
        self._calls.append(call)
        if before is not None:
            call.presumed = before.name
        return call

    def _announce(self, call: ChatCall) -> None:
        call.announce(self._writer.name_call())
        self._writer.send({"type": "response.output_item.added", "item": call.item("")})
        kind = "function_call_arguments" if call.custom is None else "custom_tool_call_input"
        event = {"type": f"response.{kind}.delta", "item_id": call.item_id}
        call.head = encode(event)[:-1] + b',"delta":'
        if call.pieces:
            self._delta(call, "".join(call.pieces))

    def _grow(self, call: ChatCall, arguments: str) -> None:
        if call.done:
            return
        if arguments:
            arguments = call.add(arguments)
            if call.item_id:
                self._delta(call, arguments)
        if not call.item_id and call.nameable:
            self._announce(call)

    def _delta(self, call: ChatCall, arguments: str) -> None:
        """Send a piece, or what of a custom tool's input can be read after it."""
        text = arguments if call.custom is None else call.custom.feed(arguments)
        if text:
            self._writer.put(call.head + encode_halves(text) + b"}")

    def _finish(self, call: ChatCall) -> None:
        if call.done:
            return
        call.done = True
        if call.item_id:
            self._writer.send({"type": "response.output_item.done", "item": call.finished()})
        else:
            log.warning("a tool call came without a name; left out")


def _entries(given: Any) -> list[Any]:
    """Return the entries of `tool_calls`, which may be one bare entry, or an object of them."""
    if not isinstance(given, dict):
        return given if isinstance(given, list) else []
    return [given] if given.keys() & _ENTRY else list(given.values())


def _string(value: object) -> str:
    return value if isinstance(value, str) else ""


def _integer(value: object) -> int | None:
    """Return an index, which some servers write as a string or as a float."""
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 9:
        return int(value)
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value if type(value) is int else None
