"""One output item of a response: opened once, closed once, whole at the end (protocol.md 4)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lanes.codec import encode
from lanes.history.entries import Entry
from lanes.stream.item_schema import fitting
from lanes.stream.parts import CALL_KINDS, KINDS, OUTPUT_TEXT, REASONING, SUMMARY, Part, kind_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lanes.stream.parts import Emit, Kind

PREFIXES = {
    "message": "msg",
    "reasoning": "rs",
    "function_call": "fc",
    "custom_tool_call": "ctc",
    "web_search_call": "ws",
    "file_search_call": "fs",
    "code_interpreter_call": "ci",
    "image_generation_call": "ig",
    "computer_call": "cu",
    "shell_call": "sh",
    "local_shell_call": "lsh",
    "apply_patch_call": "apc",
    "tool_search_call": "tsc",
    "mcp_call": "mcp",
    "mcp_list_tools": "mcpl",
    "mcp_approval_request": "mcpr",
    "compaction": "cmp",
}
#: What some backends add for themselves and no client should see.
PRIVATE_KEYS = frozenset(
    {"kv_transfer_params", "input_messages", "output_messages", "content_filters", "__verbose"}
    | {"timings", "cost", "cost_in_usd_ticks"}
)
#: How an item that was cut off says so, where `incomplete` is not in its vocabulary.
_CUT_STATUS = {"image_generation_call": "failed", "apply_patch_call": "in_progress"}
_RUNNING = frozenset({"in_progress", "searching", "interpreting", "generating", "calling"})


class Item:
    """An output item from its first sign to its end.

    `wire` is the finished item as the client got it, in JSON; `final` is the backend's own, if it
    came; `source_index` is the place that the backend claims for it. `call_id` serves a call that
    came without one; `encrypted` says whether the client asked for encrypted reasoning.
    """

    def __init__(
        self, added: dict[str, Any], index: int, item_id: str, call_id: str, *, encrypted: bool
    ) -> None:
        self.id = item_id
        self.type: str = added["type"]
        self.index = index
        self.open = True
        self.wire = b""
        self.source_index: int | None = None
        self.final: dict[str, Any] | None = None
        self.content: list[Part] = []
        self.summary: list[Part] = []
        self.call: Part | None = None
        self._encrypted = encrypted
        self._base = _clean(added, self.type)
        # Only the end has it whole, but that there is some is known from the beginning.
        self._sealed = self.type == "reasoning" and bool(self._base.pop("encrypted_content", None))
        self._others: list[Any] = []
        self._shown: dict[str, Any] = {}
        self._call_given = False
        self._made_up = added.keys() == {"type"}
        self._cut = False
        if self.type in CALL_KINDS:
            self._begin_call(call_id)

    def _begin_call(self, call_id: str) -> None:
        """`call_id` serves where the backend gave none; once sent it is never changed."""
        known = self._base.get("call_id")
        self._call_given = isinstance(known, str) and bool(known)
        if not self._call_given:
            self._base["call_id"] = call_id
        if not isinstance(self._base.get("name"), str):
            self._base["name"] = ""
        self.call = Part(CALL_KINDS[self.type], self.id, self.index, 0)
        if self.type == "function_call":
            self.call.trailer = {"name": self._base["name"]}

    def start(self, emit: Emit) -> None:
        """Send `output_item.added`: an empty item, and no encrypted reasoning yet."""
        item = {**self._base, "id": self.id}
        if self.type == "message":
            item |= {"status": "in_progress", "role": "assistant", "content": []}
        elif self.type == "reasoning":
            item["summary"] = []
            if "content" in item:
                item["content"] = []
        elif self.call is not None:
            item |= {"status": "in_progress", self.call.kind.text_key: ""}
        event = {"type": "response.output_item.added", "output_index": self.index, "item": item}
        emit(encode(event)[:-1])

    def part(self, kind: Kind, source_index: int | None) -> Part | None:
        """The part that an event of this kind is about, if there is one yet."""
        for part in reversed(self.summary if kind is SUMMARY else self.content):
            if part.kind is kind and (
                source_index is None or part.source_index in (source_index, None)
            ):
                return part
        return None

    def open_part(
        self, kind: Kind, emit: Emit, source_index: int | None, known: dict[str, Any] | None = None
    ) -> Part:
        """Open a new part, closing the one before it. `known` is the part as it was announced."""
        for part in self.content + self.summary:
            part.close(emit)
        line = self.summary if kind is SUMMARY else self.content
        part = Part(kind, self.id, self.index, len(line), source_index)
        if known is not None:
            part.adopt({**known, "logprobs": None})
        line.append(part)
        part.start(emit)
        return part

    def close(self, emit: Emit, status: str) -> None:
        """Send whatever is missing up to `output_item.done`, by the backend's `final` if it came.

        `status` holds where `final` has none, and always where it is `incomplete`. A `final` that
        comes for a closed item is for its replay alone: the client keeps the item it was sent.
        """
        if not self.open:
            return
        if self.final is not None:
            self._finish(self.summary, self.final.get("summary"), emit)
            self._finish(self.content, self.final.get("content"), emit)
        for part in self.content + self.summary:
            part.close(emit)
        if self.call is not None:
            self._close_call(self.call, emit)
        self.open = False
        self._shown = self._compose(status)
        self.wire = encode(self._shown)
        head = {"type": "response.output_item.done", "output_index": self.index}
        emit(encode(head)[:-1] + b',"item":' + self.wire)

    def replayable(self, *, plain_reasoning: bool) -> bool:
        """Whether the backend can be given the item back.

        Not what was cut off, but for text that was sent; not reasoning in the clear, unless the
        backend takes it.
        """
        if self.type == "reasoning" and not plain_reasoning:
            return bool((self.final or {}).get("encrypted_content"))
        return not self._cut

    def missed(self, final: dict[str, Any]) -> bool:
        """Whether the next item closed this one before any of the text in `final` was sent."""
        if self.open or self.final is not None or self.call is not None:
            return False
        texts = _texts(final.get("content"), *KINDS) + _texts(final.get("summary"), *KINDS)
        return any(texts) and self.blank

    @property
    def busy(self) -> bool:
        """Whether a call or a hosted tool is still at work: it must not be cut by the next item."""
        return self.call is not None or (not self.text and self._base.get("status") in _RUNNING)

    @property
    def text(self) -> bool:
        """Whether it is all text: said to the client, or thought."""
        return self.type in ("message", "reasoning")

    @property
    def blank(self) -> bool:
        """Whether none of its text was sent."""
        return not any(part.pieces for part in self.content + self.summary)

    @property
    def cuttable(self) -> bool:
        """Whether it may stop in the middle: plain text, and reasoning in the clear."""
        return self.type == "message" or (self.type == "reasoning" and not self._sealed)

    @property
    def shown(self) -> Mapping[str, Any]:
        """The item as the client got it at its end; empty while it is open."""
        return self._shown

    def announced_by(self, added: dict[str, Any], index: int | None) -> bool:
        """Whether `added` is the announcement of this one, come late or once more."""
        named = added.get("id") or added.get("call_id")
        expected = self._made_up or (self.blank and self.call is None and not named)
        late = expected and self.type == added["type"] and not self.elsewhere(index)
        self._made_up = self._made_up and not late
        return late

    def elsewhere(self, source_index: int | None) -> bool:
        """Whether the backend has put this item in another place than `source_index`."""
        return None not in (source_index, self.source_index) and self.source_index != source_index

    def contradicts(self, final: dict[str, Any]) -> bool:
        """Whether `final` is another call than this one: both have a call_id of the backend's."""
        return self.call is not None and bool(self._call_given and final.get("call_id"))

    def _close_call(self, call: Part, emit: Emit) -> None:
        call.finish_text(emit, (self.final or {}).get(call.kind.text_key))
        call.open = False

    def _finish(self, line: list[Part], finals: object, emit: Emit) -> None:
        """Bring the parts of one line to what the finished item says they are."""
        if not isinstance(finals, list):
            return
        seen = 0
        for final in finals:
            kind = kind_of(final)
            misplaced = (kind is SUMMARY) is not (line is self.summary)
            if kind is None or kind.item_type != self.type or misplaced:
                unknown = kind is None and isinstance(final, dict)
                self._others += [final] if unknown and isinstance(final.get("type"), str) else []
                continue
            if seen == len(line):
                self.open_part(kind, emit, None, final)
            line[seen].close(emit, final)
            seen += 1

    def _compose(self, status: str) -> dict[str, Any]:
        """The finished item: the backend's fields, our id, the text that was really sent."""
        item = {**self._base, **_clean(self.final or {}, self.type)}
        # What was said once about whose call it is stays.
        item |= {key: self._base[key] for key in ("call_id", "name") if key in self._base}
        item |= {"id": self.id, "type": self.type}
        if self.type == "message":
            content = [part.snapshot(part.text) for part in self.content] + self._others
            item |= {"role": "assistant", "content": content, "status": self._status(status)}
        elif self.type == "reasoning":
            self._compose_reasoning(item, status)
        elif self.call is not None:
            item[self.call.kind.text_key] = self.call.text
            item["status"] = self._status(status)
        elif item.get("status") in _RUNNING:
            cut = _CUT_STATUS.get(self.type, "incomplete")
            item["status"] = "completed" if status == "completed" else cut
        self._cut = self._is_cut(item, status)
        return item

    def _is_cut(self, item: dict[str, Any], status: str) -> bool:
        """Whether the item is of no use to anybody, cut off as it was."""
        if self.type == "message":
            said = self._others or any(part.pieces for part in self.content)
            return not said and (self.final is None or item["status"] == "incomplete")
        if self.call is not None:
            return bool(item["status"] == "incomplete")
        return self.type != "reasoning" and self.final is None and status != "completed"

    def _status(self, status: str) -> str:
        said = (self.final or {}).get("status")
        return said if said in ("completed", "incomplete") and status == "completed" else status

    def _compose_reasoning(self, item: dict[str, Any], status: str) -> None:
        item["summary"] = [part.snapshot(part.text) for part in self.summary]
        if not self._encrypted or not item.get("encrypted_content"):
            item.pop("encrypted_content", None)
        if self.content or "content" in item:
            item["content"] = [part.snapshot(part.text) for part in self.content]
        if "status" in item:
            item["status"] = self._status(status)

    def entry(self) -> Entry:
        """The item as history keeps it: the client's names for it, and what the backend gets back.

        That is the backend's own finished item, value for value, if it says what was sent.
        """
        agreed = self.final is not None and self._agrees(self.final)
        return Entry.of(self._shown, encode(self.final) if agreed else self.wire)

    def _agrees(self, final: dict[str, Any]) -> bool:
        if self.call is not None:
            same_text = final.get(self.call.kind.text_key) == self.call.text
            return same_text and final.get("call_id") == self._base["call_id"]
        return _texts(final.get("content"), OUTPUT_TEXT, REASONING) == [
            part.text for part in self.content if part.kind in (OUTPUT_TEXT, REASONING)
        ] and _texts(final.get("summary"), SUMMARY) == [part.text for part in self.summary]


def _texts(parts: object, *kinds: Kind) -> list[Any]:
    listed = parts if isinstance(parts, list) else ()
    told = [(part, kind_of(part)) for part in listed]
    return [part.get(kind.text_key) for part, kind in told if kind is not None and kind in kinds]


def _clean(item: dict[str, Any], item_type: str) -> dict[str, Any]:
    """Without what only the backend needs, what does not fit, and nulls that mean absence."""
    absent = {"phase", "content", "encrypted_content"}
    return {
        key: value
        for key, value in fitting(item_type, item).items()
        if key not in PRIVATE_KEYS and not (value is None and key in absent)
    }
