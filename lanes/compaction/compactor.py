"""SHELL: opens the answer to a history that was compacted, has to be, or may be too long."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec

from lanes.codec import encode
from lanes.compaction.budgets import CompactionBudgets
from lanes.compaction.compacting_stream import CompactingStream, CompactionSteps
from lanes.compaction.context import (
    check_outputs,
    cut,
    expanded,
    latest,
    opened,
    seal_of,
    standing,
    summary_message,
)
from lanes.compaction.estimate import estimated_tokens
from lanes.compaction.fitting import open_fitting
from lanes.compaction.plan import plan
from lanes.compaction.summary import summary_body, summary_request
from lanes.compaction.truncation import shorter
from lanes.cpu_thread import run_in_cpu_thread
from lanes.errors import ClientFault, Fault, unreadable_compaction
from lanes.history.archive import translated
from lanes.history.entries import COMPACTION, COMPACTION_TRIGGER
from lanes.stores.packing import THREAD_OVER
from lanes.stores.seals import BrokenSealError, is_seal

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from lanes.compaction.context import Compacted
    from lanes.compaction.plan import CompactionPlan
    from lanes.history.archive import KeyArchive
    from lanes.history.lineage import Node
    from lanes.ports import Stream, Upstream
    from lanes.stream.run import Run

T = TypeVar("T")

_TOOLS: Final = frozenset({"tools", "tool_choice", "parallel_tool_calls"})


class _Usage(msgspec.Struct):
    total_tokens: int


class _Item(msgspec.Struct):
    type: str


class _Ended(msgspec.Struct):
    """A stored response, of which only this is wanted."""

    output: list[_Item]
    usage: _Usage | None = None


_stored: Final = msgspec.json.Decoder(_Ended).decode


@dataclass(frozen=True, slots=True)
class ManagedRequest:
    """A request whose history the gateway looks after.

    Attributes:
        body: The create's body.
        items: The whole effective input.
        own: How many of these came with the create itself, at the end.
        triggers: Whether it asks for a compaction item alone.
        parent: The response that it continues.
        run: The response that it becomes.
    """

    body: Mapping[str, Any]
    items: list[bytes]
    own: int
    triggers: bool
    parent: Node | None
    run: Run


class Compactor:
    """Opens answers for one API key.

    Args:
        upstream: Answers the requests.
        archive: The stored responses of the key, and its seals.
        headers: The client's, as far as the upstream may see them.
    """

    def __init__(self, upstream: Upstream, archive: KeyArchive, headers: Mapping[str, str]) -> None:
        self._upstream = upstream
        self._archive = archive
        self._headers = headers

    async def open(self, request: ManagedRequest) -> Stream:
        """Return the answer to a request (see `lanes.ports.Upstream.open`).

        Raises:
            ClientFault: Its compaction item cannot be opened, an output answers a call that is not
                there, or there is nothing to compact.
            UpstreamFault: The backend refused, or did not answer.
            ArchiveUnavailable: The store is away, and has the key.
        """
        body = dict(request.body)
        items = await self.context(request.items, request.own, body)
        if not (request.triggers or body.get("context_management")):
            return await self._answer(body, items)
        if (await self._upstream.compaction(body["model"], self._headers)).makes:
            end = [encode({"type": COMPACTION_TRIGGER})] if request.triggers else []
            return await self._answer(body, [*items, *end])
        threshold = _threshold(body.pop("context_management", None))
        budgets = CompactionBudgets(threshold)
        if request.triggers:
            planned = await _aside(items, partial(_triggered, body, items, budgets))
            return await self._compacting(request, body, planned)
        if body.get("conversation") is not None or threshold is None:
            return await self._answer(body, items)
        size = await self._size(request, items)
        if size > threshold:
            planned = await _aside(items, partial(plan, items, goes_on=True, budgets=budgets))
            estimated = await _aside(items, partial(estimated_tokens, items, body))
            pays = budgets.pays(planned.fresh, max(1.0, size / max(1, estimated)))
            if planned.worthwhile and planned.fits and pays:
                return await self._compacting(request, body, planned)
        return await self._answer(body, items)

    async def check(self, request: ManagedRequest) -> None:
        """Raise what is wrong with the history of a request that is not sent, or not yet."""
        items = await self.context(request.items, request.own, request.body)
        body, headers = request.body, self._headers
        if request.triggers and not (await self._upstream.compaction(body["model"], headers)).makes:
            await _aside(items, partial(_triggered, body, items, CompactionBudgets()))

    async def context(self, items: list[bytes], own: int, body: Mapping[str, Any]) -> list[bytes]:
        """Return what the input of a create comes to (see `open` and `ManagedRequest`)."""
        place = await _aside(items, partial(latest, items))
        if place is None:
            return items
        before, behind = items[:place], items[place + 1 :]
        seal = await _aside(items[place : place + 1], partial(seal_of, items[place]))
        at = place - len(items) + own
        if not is_seal(seal):
            if not (await self._upstream.compaction(body["model"], self._headers)).reads:
                raise unreadable_compaction(_param(at))
            return [*await _aside(before, partial(cut, before)), items[place], *behind]
        content = await self._opened(seal, at)
        items = [*await _aside(before, partial(expanded, before, content)), *behind]
        if body.get("conversation") is None:
            await _aside(items, partial(check_outputs, items))
        return items

    async def _opened(self, seal: str, place: int) -> Compacted:
        """Return what a seal holds; it is at this place of the create's own input, or before it.

        Raises ClientFault, ArchiveUnavailable.
        """
        archive = self._archive
        try:
            with translated():
                return opened(await archive.seals.open(archive.key_id, seal))
        except BrokenSealError:
            raise unreadable_compaction(_param(place)) from None

    async def _answer(self, body: dict[str, Any], items: list[bytes]) -> Stream:
        """Ask for the answer, with a shorter history if it may be shortened."""
        opened_with = self._asking(body)
        if body.get("truncation") != "auto":
            return await opened_with(items)
        return await open_fitting(items, partial(_shorter, items), opened_with)

    async def _compacting(
        self, request: ManagedRequest, body: dict[str, Any], planned: CompactionPlan
    ) -> Stream:
        """Ask for a summary, for the compaction item and perhaps for the answer behind it."""
        asked = summary_body(body)
        summarised = planned.summarised

        async def summary(*, tools: bool) -> Stream:
            settings = {key: value for key, value in asked.items() if tools or key not in _TOOLS}
            ask = self._asking(settings, summary_request(planned.budgets.words))
            return await open_fitting(
                summarised, partial(_shorter, summarised, within_turns=True), ask
            )

        async def sealed(text: str) -> str:
            content = encode(planned.compacted(text))
            with translated():
                return await self._archive.seals.seal(self._archive.key_id, content)

        async def answer(text: str) -> Stream:
            return await self._answer(
                body, [*planned.before, summary_message(text), *planned.ahead]
            )

        first = await summary(tools=True)
        again = partial(summary, tools=False) if body.get("tools") else None
        wanted = None if request.triggers else answer
        steps = CompactionSteps(again, sealed, wanted, planned.budgets.text)
        return CompactingStream(first, asked, steps, request.run)

    def _asking(
        self, body: Mapping[str, Any], *end: bytes
    ) -> Callable[[list[bytes]], Awaitable[Stream]]:
        """Return what asks the upstream; `end` goes behind the items."""
        return lambda items: self._upstream.open(body, [*items, *end], self._headers)

    async def _size(self, request: ManagedRequest, items: list[bytes]) -> int:
        """Return how many tokens the answer's input has, counted as far as possible."""
        parent, start = request.parent, len(request.items) - request.own
        own = request.items[start:]
        if parent is not None and await _aside(own, partial(latest, own)) is None:
            counted = await self._counted(parent)
            if counted is not None:
                return counted + await _aside(own, partial(estimated_tokens, own, {}))
        return await _aside(items, partial(estimated_tokens, items, request.body))

    async def _counted(self, parent: Node) -> int | None:
        """Return how many tokens the backend counted when the parent ended."""
        if parent.tokens is not None or parent.id.startswith("conv_"):
            return parent.tokens
        with suppress(Fault):
            body = await self._archive.get(parent.id)
            stored = None if body is None else _stored(body)
            if stored is not None and all(item.type != COMPACTION for item in stored.output):
                return None if stored.usage is None else stored.usage.total_tokens
        return None


async def _aside(items: Sequence[bytes], work: Callable[[], T]) -> T:
    """Return what reads a history, in a thread if that takes milliseconds (D33)."""
    return await run_in_cpu_thread(work) if sum(map(len, items)) > THREAD_OVER else work()


async def _shorter(items: list[bytes], *, within_turns: bool = False) -> list[list[bytes]]:
    return await _aside(items, lambda: list(shorter(items, within_turns=within_turns)))


def _param(place: int) -> str:
    """Return the name of an item at this place of the create's own input, or before it."""
    return "input" if place < 0 else f"input[{place}]"


def _threshold(management: object) -> int | None:
    """Return the lowest number of tokens beyond which a request wants its history compacted."""
    entries = management if isinstance(management, list) else ()
    numbers = [
        entry.get("compact_threshold") for entry in entries if entry.get("type") == COMPACTION
    ]
    return min((number for number in numbers if number is not None), default=None)


def _triggered(
    body: Mapping[str, Any], items: list[bytes], budgets: CompactionBudgets
) -> CompactionPlan:
    """Return the plan of a request that asks for nothing else. Raises ClientFault."""
    if body.get("conversation") is not None:
        raise ClientFault(
            "The backend keeps this conversation, and does not compact it.",
            code="unsupported_value",
            param="conversation",
        )
    planned = plan(items, goes_on=False, budgets=budgets)
    if not planned.fits:
        message = "What has to be kept word for word is too large for a compaction item."
        raise ClientFault(message, code="value_too_large", param="input")
    if len(standing(planned.summarised)) == len(planned.summarised):
        message = (
            "There is nothing to compact: the input has no message and no call with its output."
        )
        raise ClientFault(message, code="invalid_value", param="input")
    return planned
