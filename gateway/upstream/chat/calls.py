"""Tool calls, put together from the pieces of a Chat Completions stream. Pure.

Only the first piece of a call says what it calls. A call is shown as soon as that is known, and is
finished when its arguments are whole and something else begins, or with the answer. What comes
after an unfinished call waits in the run (D5), so pieces of several calls may be mixed.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from lanes.codec import decode, encode

if TYPE_CHECKING:
    from collections.abc import Callable

log = logging.getLogger("multilane.dialect")


class ChatCall:
    """One call; `item_id` is the name of its item, empty until it is shown."""

    __slots__ = ("_known", "custom", "done", "head", "id", "item_id", "name", "pieces")

    def __init__(self, call_id: str) -> None:
        self.id = call_id
        self.name = ""
        self.custom = False
        self.pieces: list[str] = []
        self.item_id = ""
        self.head = b""
        self.done = False
        self._known = (0, False)

    @property
    def whole(self) -> bool:
        """Whether the arguments are a whole object."""
        if not self.pieces or not self.pieces[-1].rstrip().endswith("}"):
            return False
        if self._known[0] != len(self.pieces):
            self._known = (len(self.pieces), isinstance(_value("".join(self.pieces)), dict))
        return self._known[1]

    def item(self, arguments: str) -> dict[str, Any]:
        """The item of the Responses API. Without an id of the backend's the run makes one."""
        kind, key = ("custom_tool_call", "input") if self.custom else ("function_call", "arguments")
        item = {"type": kind, "id": self.item_id, "name": self.name, key: arguments}
        return {**item, "call_id": self.id} if self.id else item

    def finished(self) -> dict[str, Any]:
        """The item at its end. No arguments are an empty object: clients parse them."""
        text = "".join(self.pieces)
        if not self.custom:
            return self.item(text if text.strip() else "{}")
        value = _value(text)
        if isinstance(value, dict):
            texts = [one for one in (value.get("input"), *value.values()) if isinstance(one, str)]
            value = texts[0] if texts else None
        return self.item(value if isinstance(value, str) else text)


class ChatCalls:
    """The calls of one answer, in order.

    `custom` names the tools whose input is a text; `send` takes events, `name_item` makes the name
    of an item.
    """

    def __init__(
        self,
        custom: frozenset[str],
        send: Callable[[dict[str, Any]], None],
        put: Callable[[bytes], None],
        name_item: Callable[[], str],
    ) -> None:
        self._custom = custom
        self._send = send
        self._put = put
        self._name_item = name_item
        self._calls: list[ChatCall] = []
        self._by_index: dict[int, ChatCall] = {}
        self._by_id: dict[str, ChatCall] = {}

    @property
    def whole(self) -> bool:
        """Whether none is in the middle of its arguments."""
        return all(call.whole or call.done or not call.pieces for call in self._calls)

    def add(self, entry: object) -> None:
        """Take one entry of `tool_calls`."""
        if not isinstance(entry, dict):
            return
        function = entry.get("function")
        if not isinstance(function, dict):
            function = {}
        told, name, index = entry.get("id"), function.get("name"), entry.get("index")
        call = self._find(
            index if type(index) is int else None,
            told if isinstance(told, str) else "",
            name if isinstance(name, str) else "",
        )
        self._grow(call, function.get("arguments"))

    def add_whole(self, entries: list[object]) -> None:
        """Take the `tool_calls` of a whole message: what was streamed is in there again."""
        fresh = not self._calls
        for entry in entries:
            told = entry.get("id") if isinstance(entry, dict) else None
            if fresh or (told and told not in self._by_id):
                self.add(entry)

    def pause(self) -> None:
        """Something else begins: the call before it is finished if its arguments are whole."""
        if self._calls and self._calls[-1].whole:
            self._finish(self._calls[-1])

    def finish(self, *, cut: bool) -> None:
        """The answer is over; in a `cut` one a call may have been torn apart."""
        for call in self._calls:
            if not cut or call.whole:
                self._finish(call)

    def _find(self, index: int | None, call_id: str, name: str) -> ChatCall:
        """The call that an entry is about, by its index and id; a new one if it is none of them."""
        known = self._known(index, call_id, name)
        if known is not None and self._starts_over(known, index, call_id, name):
            known = None
        if known is None:
            self.pause()
            known = ChatCall("" if call_id in self._by_id else call_id)
            self._calls.append(known)
        elif call_id and not known.id and not known.item_id:
            known.id = call_id
        if known.id:
            self._by_id.setdefault(known.id, known)
        if index is not None:
            self._by_index[index] = known
        if name and not known.name:
            known.name = name
            self._show(known)
        return known

    def _known(self, index: int | None, call_id: str, name: str) -> ChatCall | None:
        if index is not None and index in self._by_index:
            return self._by_index[index]
        if call_id in self._by_id and not (index is not None and name):
            return self._by_id[call_id]
        if index is None and not call_id and self._calls:
            return self._calls[-1]
        return None

    def _starts_over(self, known: ChatCall, index: int | None, call_id: str, name: str) -> bool:
        """Whether an entry that seems to go on is another call: by a new id, or by its name."""
        if call_id and known.id:
            return call_id != known.id
        if not name or not known.name:
            return False
        return known.whole or (index is None and name != known.name)

    def _show(self, call: ChatCall) -> None:
        call.custom = call.name in self._custom
        call.item_id = self._name_item()
        self._send({"type": "response.output_item.added", "item": call.item("")})
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
        """A custom tool's input can be told from its JSON only at the end."""
        if not call.custom:
            self._put(call.head + encode(arguments) + b"}")

    def _finish(self, call: ChatCall) -> None:
        if call.done:
            return
        call.done = True
        if call.item_id:
            self._send({"type": "response.output_item.done", "item": call.finished()})
        else:
            log.warning("a tool call came without a name; left out")


def _value(text: str) -> Any:
    try:
        return decode(text.encode())
    except ValueError:
        return None
