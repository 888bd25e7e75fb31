"""One tool call of a Chat Completions stream, as far as it has come. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gateway.upstream.chat.custom_input import CustomInput
from gateway.upstream.chat.json_text import JsonText
from gateway.upstream.chat.vendor_keys import keys_of_call, merged, shown
from lanes.codec import decode
from lanes.history.makers import MADE_BY
from lanes.surrogates import whole

if TYPE_CHECKING:
    from gateway.upstream.chat.tool_names import ToolNames
    from lanes.history.makers import Maker


class ChatCall:
    """A call in pieces; `item_id` is the id of its item, empty until the call is announced.

    `id` is the id for the client, empty where the run has to make one; `own_id` is then the first
    that the backend used, and `ids` are all. `presumed` is its name if none comes: that of an
    earlier call under the same id or at the same place.
    """

    __slots__ = (
        *(
            "_grows",
            "_kept",
            "_maker",
            "_names",
            "_progress",
            "_read",
            "custom",
            "done",
            "head",
            "id",
        ),
        *("ids", "item_id", "name", "own_id", "pieces", "presumed"),
    )

    def __init__(self, maker: Maker, names: ToolNames) -> None:
        self.id = self.own_id = ""
        self._maker = maker
        self._kept: list[dict[str, Any]] = []  # pieces of what must go back with it
        self.ids: set[str] = set()
        self.name = self.presumed = ""
        self.custom: CustomInput | None = None
        self.pieces: list[str] = []
        self.item_id = ""
        self.head = b""
        self.done = False
        self._names = names
        self._progress = JsonText()
        self._grows = False  # whether each piece repeats all before it
        self._read = 0  # how many pieces `_progress` has read

    @property
    def arguments(self) -> str:
        """All arguments so far."""
        return whole(self.pieces)

    @property
    def whole(self) -> bool:
        """Whether the arguments are a whole object."""
        if not self.pieces or not self.pieces[-1].rstrip().endswith("}"):
            return False
        return self._json.whole

    @property
    def _json(self) -> JsonText:
        self._progress.feed("".join(self.pieces[self._read :]))
        self._read = len(self.pieces)
        return self._progress

    @property
    def nameable(self) -> bool:
        """Whether the name is there, and nothing says that there is more of it to come."""
        if not self.name:
            return False
        if not self._names.leave_open(self.name):
            return True
        whole = self.name in self._names.names or not self._names.begin_with(self.name)
        return bool(self.pieces) and whole

    def continues(self, name: str, arguments: str, *, certain: bool, other: bool) -> bool:
        """Return whether this call, which is not whole, may go on with a piece.

        Args:
            name: The name in the piece, if it has one.
            arguments: The arguments in the piece.
            certain: Whether the backend says that it is of this call, by place or id.
            other: Whether it has an id that is none of this call's.
        """
        if self.done:
            return False
        if name and self.name and name != self.name:
            joined = self._names.joined(self.name, name, same_place=certain)
            if joined is None or (self.item_id and joined != self.name):
                return False
        if not arguments or (certain and not name):
            return True
        begins = arguments.lstrip().startswith("{")
        if certain and not begins:
            return True  # if it does not fit, the model has written something else than an object
        if not self.pieces:
            return certain or begins
        if self.restated(arguments) is not None:
            return True
        return self._fits(arguments) and not (begins and name and other)

    def restates(self, name: str, arguments: str) -> bool:
        """Return whether a piece only says once more what this call, which is whole, has said."""
        if name and self.name and name != self.name:
            return False
        return not arguments.strip() or _same(arguments, self.arguments)

    def restated(self, arguments: str) -> str | None:
        """Return what is new in arguments that begin anew with all that came before, else None."""
        if not self.pieces or not arguments.startswith("{"):
            return None
        before = self.arguments
        if not arguments.startswith(before) or not (self._grows or not self._fits(arguments)):
            return None
        return arguments[len(before) :]

    def _fits(self, arguments: str) -> bool:
        progress = self._json
        return progress.broken or progress.takes(arguments)

    def add(self, arguments: str) -> str:
        """Take the arguments in a piece; return what is new in them."""
        rest = self.restated(arguments)
        if rest is not None:
            self._grows, arguments = True, rest
        self.pieces.append(arguments)
        return arguments

    def add_name(self, piece: str, *, certain: bool) -> None:
        """Take the name in a piece that `continues` this call."""
        if not piece or self.item_id:
            return
        if self.name:
            piece = self._names.joined(self.name, piece, same_place=certain) or self.name
        self.name = piece

    def announce(self, item_id: str) -> None:
        """Give the call its item: from here on its name and its id stay."""
        self.item_id = item_id
        self.custom = CustomInput() if self.name in self._names.custom else None

    def item(self, arguments: str) -> dict[str, Any]:
        """Return the item of the Responses API; where the backend gave no id, the run makes one."""
        custom = self.custom is not None
        kind, key = ("custom_tool_call", "input") if custom else ("function_call", "arguments")
        item: dict[str, Any] = {"type": kind, "id": self.item_id, "name": self.name, key: arguments}
        kept = shown(merged(self._kept)) if self._kept else {}
        if kept or self.own_id:
            named = {"call_id": self.own_id} if self.own_id else {}
            keys = {"keys": list(kept)} if kept else {}
            item = {**kept, MADE_BY: self._maker.mark(**named, **keys), **item}
        return {**item, "call_id": self.id} if self.id else item

    def keep(self, entry: dict[str, Any]) -> None:
        """Keep what an entry holds beside the keys of Chat Completions: it must go back."""
        if kept := keys_of_call(entry):
            self._kept.append(kept)

    def finished(self) -> dict[str, Any]:
        """Return the finished item. Missing arguments become `{}`, because clients parse them."""
        text = self.arguments
        if self.custom is not None:
            return self.item(self.custom.finish(text))
        return self.item(text if text.strip() else "{}")


def _same(arguments: str, others: str) -> bool:
    if arguments == others:
        return True
    try:
        return bool(decode(arguments.encode()) == decode(others.encode()))
    except ValueError:
        return False
