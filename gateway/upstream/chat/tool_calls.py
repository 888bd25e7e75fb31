"""Tool calls, assembled from the pieces of a Chat Completions stream. Pure.

Only the first piece of a call names the tool. A call is announced as soon as its name is there. It
is finished when its arguments are whole and something else begins, or when the answer ends. The run
holds back what comes after an unfinished call (D5), so pieces of several calls may be mixed.
"""

from __future__ import annotations

import logging
import weakref
from typing import TYPE_CHECKING, Any, Protocol

from gateway.upstream.chat.vendor_keys import keys_of_call, merged, shown
from lanes.codec import decode, encode
from lanes.history.makers import MADE_BY
from lanes.stream.parts import COLLECTED

if TYPE_CHECKING:
    from lanes.history.makers import Maker

log = logging.getLogger("multilane.dialect")
_COLLECTED = encode({"type": COLLECTED})[:-1] + b',"kept":'


class ChatCall:
    """One call; `item_id` is the id of its item, empty until the call is announced."""

    __slots__ = (
        *("_checked", "_kept", "_maker", "custom", "done", "head", "id", "item_id"),
        *("name", "pieces"),
    )

    def __init__(self, call_id: str, maker: Maker) -> None:
        self.id = call_id
        self._maker = maker
        self._kept: list[dict[str, Any]] = []  # pieces of what must go back with it
        self.name = ""
        self.custom = False
        self.pieces: list[str] = []
        self.item_id = ""
        self.head = b""
        self.done = False
        self._checked = (0, False)  # how many pieces were parsed, and whether they were whole

    @property
    def whole(self) -> bool:
        """Whether the arguments are a whole object."""
        if not self.pieces or not self.pieces[-1].rstrip().endswith("}"):
            return False
        if self._checked[0] != len(self.pieces):
            self._checked = (len(self.pieces), isinstance(_value("".join(self.pieces)), dict))
        return self._checked[1]

    def item(self, arguments: str) -> dict[str, Any]:
        """Return the item of the Responses API; where the backend gave no id, the run makes one."""
        kind, key = ("custom_tool_call", "input") if self.custom else ("function_call", "arguments")
        item: dict[str, Any] = {"type": kind, "id": self.item_id, "name": self.name, key: arguments}
        if self._kept:
            kept = shown(merged(self._kept))
            item = {**kept, MADE_BY: self._maker.mark(keys=list(kept)), **item}
        return {**item, "call_id": self.id} if self.id else item

    def keep(self, entry: dict[str, Any]) -> None:
        """Keep what an entry holds beside the keys of Chat Completions: it must go back."""
        if kept := keys_of_call(entry):
            self._kept.append(kept)

    def finished(self) -> dict[str, Any]:
        """Return the finished item. Missing arguments become `{}`, because clients parse them."""
        text = "".join(self.pieces)
        if not self.custom:
            return self.item(text if text.strip() else "{}")
        value = _value(text)
        if isinstance(value, dict):
            texts = [one for one in (value.get("input"), *value.values()) if isinstance(one, str)]
            value = texts[0] if texts else None
        return self.item(value if isinstance(value, str) else text)


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
        custom: The names of the custom tools, whose input is one text.
        writer: Takes their events. It holds these calls, so it is only referred to weakly (D13).
    """

    def __init__(
        self,
        maker: Maker,
        custom: frozenset[str],
        writer: CallWriter,
    ) -> None:
        self._maker = maker
        self._custom = custom
        self._writer: CallWriter = weakref.proxy(writer)
        self._calls: list[ChatCall] = []
        self._by_index: dict[int, ChatCall] = {}
        self._by_id: dict[str, ChatCall] = {}

    @property
    def whole(self) -> bool:
        """Whether no call is in the middle of its arguments."""
        return all(call.whole or call.done or not call.pieces for call in self._calls)

    def add(self, entry: object) -> None:
        """Take one entry of `tool_calls`."""
        if not isinstance(entry, dict):
            return
        function = entry.get("function")
        if not isinstance(function, dict):
            function = {}
        call_id, name, index = entry.get("id"), function.get("name"), entry.get("index")
        call = self._find(
            entry,
            index if type(index) is int else None,
            call_id if isinstance(call_id, str) else "",
            name if isinstance(name, str) else "",
        )
        self._grow(call, function.get("arguments"))
        if call.custom or not call.item_id:  # it is kept, and nothing is sent of it yet
            self._writer.put(_COLLECTED + encode(entry) + b"}")

    def add_whole(self, entries: list[object]) -> None:
        """Take the `tool_calls` of a whole message, which repeats what was streamed."""
        fresh = not self._calls
        for entry in entries:
            call_id = entry.get("id") if isinstance(entry, dict) else None
            if fresh or (call_id and call_id not in self._by_id):
                self.add(entry)

    def pause(self) -> None:
        """Finish the latest call if its arguments are whole, because something else begins."""
        if self._calls and self._calls[-1].whole:
            self._finish(self._calls[-1])

    def finish(self, *, cut: bool) -> None:
        """Finish the calls at the end of the answer, except for one torn apart by a `cut`."""
        for call in self._calls:
            if not cut or call.whole:
                self._finish(call)

    def _find(self, entry: dict[str, Any], index: int | None, call_id: str, name: str) -> ChatCall:
        """Return the call that an entry continues, by index and id, or a new one."""
        call = self._open_call(index, call_id, name)
        if call is not None and self._starts_over(call, index, call_id, name):
            call = None
        if call is None:
            self.pause()
            call = ChatCall("" if call_id in self._by_id else call_id, self._maker)
            self._calls.append(call)
        elif call_id and not call.id and not call.item_id:
            call.id = call_id
        call.keep(entry)
        if call.id:
            self._by_id.setdefault(call.id, call)
        if index is not None:
            self._by_index[index] = call
        if name and not call.name:
            call.name = name
            self._announce(call)
        return call

    def _open_call(self, index: int | None, call_id: str, name: str) -> ChatCall | None:
        if index is not None and index in self._by_index:
            return self._by_index[index]
        if call_id in self._by_id and not (index is not None and name):
            return self._by_id[call_id]
        if index is None and not call_id and self._calls:
            return self._calls[-1]
        return None

    def _starts_over(self, call: ChatCall, index: int | None, call_id: str, name: str) -> bool:
        """Return whether the id or the name of an entry makes it a new call after all."""
        if call_id and call.id:
            return call_id != call.id
        if not name or not call.name:
            return False
        return call.whole or (index is None and name != call.name)

    def _announce(self, call: ChatCall) -> None:
        call.custom = call.name in self._custom
        call.item_id = self._writer.name_call()
        self._writer.send({"type": "response.output_item.added", "item": call.item("")})
        kind = "response.function_call_arguments.delta"
        call.head = encode({"type": kind, "item_id": call.item_id})[:-1] + b',"delta":'
        if call.pieces:
            self._delta(call, "".join(call.pieces))

    def _grow(self, call: ChatCall, arguments: object) -> None:
        if isinstance(arguments, dict):
            arguments = encode(arguments).decode()
        if not isinstance(arguments, str) or not arguments or call.done:
            return
        call.pieces.append(arguments)
        if call.item_id:
            self._delta(call, arguments)

    def _delta(self, call: ChatCall, arguments: str) -> None:
        """Send a piece; a custom tool's input can be read from its JSON only at the end."""
        if not call.custom:
            self._writer.put(call.head + encode(arguments) + b"}")

    def _finish(self, call: ChatCall) -> None:
        if call.done:
            return
        call.done = True
        if call.item_id:
            self._writer.send({"type": "response.output_item.done", "item": call.finished()})
        else:
            log.warning("a tool call came without a name; left out")


def _value(text: str) -> Any:
    try:
        return decode(text.encode())
    except ValueError:
        return None
