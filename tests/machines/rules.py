"""Board and lineage together under random play, beside the model (protocol.md 1 to 3)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
)

from lanes.board import Board, LaneState, LaneStep
from lanes.errors import ClientFault, IllegalTransition
from lanes.frames import Create
from lanes.history.entries import Entry, input_items
from lanes.history.lineage import ENTRY_BYTES, NODE_BYTES, Lineage, Node, resolve_input
from tests.machines import plays
from tests.machines.draws import ASKED, CLOSES, ENDED, LANES, MAX_ACTIVE, TAKEN, output
from tests.machines.model import CacheModel, LanesModel, Record

if TYPE_CHECKING:
    from lanes.board import _Lane
    from tests.machines.draws import Asked, Ended

MAX_NAMED, MAX_QUEUED, MAX_QUEUED_BYTES = 4, 5, 60
MAX_BYTES = 8 * NODE_BYTES + 16 * ENTRY_BYTES

#: The rows of the transition table that some play has used.
visited: set[tuple[LaneState, LaneStep]] = set()


class Watched(Board):
    """A board that tells which rows it uses."""

    def _step(self, lane: _Lane, step: LaneStep) -> None:
        visited.add((lane.state, step))
        super()._step(lane, step)


@dataclass
class Run:
    """A create that was started, and what the model says it carries."""

    number: int
    node: Node | None
    entries: tuple[Entry, ...]
    ancestors: list[Record]


class Rules(RuleBasedStateMachine):
    """Every step is taken by the real parts and by the model, and must come to the same."""

    def __init__(self) -> None:
        super().__init__()
        self.board = Watched(MAX_ACTIVE, MAX_NAMED, MAX_QUEUED, MAX_QUEUED_BYTES)
        self.lineage = Lineage(MAX_BYTES)
        self.lanes = LanesModel(MAX_ACTIVE, MAX_NAMED, MAX_QUEUED, MAX_QUEUED_BYTES)
        self.cache = CacheModel(MAX_BYTES)
        self.runs: dict[str | None, Run] = {}
        self.creates: list[Create] = []
        self.accepted: list[int] = []
        self.started: list[int] = []
        self.dropped: list[int] = []
        self.taken: list[int] = []
        self.kept: list[int] = []

    def create(self, lane: str | None, size: int, parent: str | None, value: Any) -> Create:
        """A new create; its number names its response before it starts."""
        body = {"n": len(self.creates), "previous_response_id": parent, "input": value}
        self.creates.append(Create(lane, body, body.get("previous_response_id"), size=size))
        return self.creates[-1]

    @initialize(lanes=st.lists(st.sampled_from(LANES), min_size=2, max_size=7))
    def crowd(self, lanes: list[str | None]) -> None:
        """Begin with most slots taken, which is where it gets interesting."""
        for lane in lanes:
            self.submit(lane, 1, "none", "text", 0)

    @rule(
        asked=st.lists(st.sampled_from(ASKED), max_size=4),
        ended=st.lists(st.sampled_from(ENDED), max_size=2),
        taken=st.sampled_from(TAKEN),
        close=st.sampled_from(CLOSES),
    )
    def turn(
        self, asked: list[Asked], ended: list[Ended], taken: str | None, close: str | None
    ) -> None:
        """Creates arrive, some are taken back, runs end; seldom, as that ends it, all is closed.

        One rule, as hypothesis leaves out some rules in each play, and a play in which nothing
        arrives or nothing ends shows little.
        """
        for one in asked:
            self.submit(*one)
        if taken != "nobody":
            back = [create.body["n"] for create in self.board.clear(taken)]
            assert back == self.lanes.clear(taken)
            self.taken += back
        for pick, how, pad in ended:
            if self.runs:
                self.end(list(self.runs)[pick % len(self.runs)], how, pad)
        if close in self.board.lanes.values() and self.board.waiting:
            self.dropped = [create.body["n"] for create in self.board.close()]
            assert self.dropped == self.lanes.close()

    def submit(self, lane: str | None, size: int, parent: str, asks: str, back: int) -> None:
        """A new chain, a continuation or a fork; plain input, an output, a reference."""
        last = len(self.creates)
        candidates = {
            "none": [],
            "lane": [n for n in self.accepted if self.creates[n].stream_id == lane],
            "kept": self.kept[-1 - back :][:1],
            "any": [last - back],
        }[parent]
        if asks == "answer" and not candidates:
            asks = "text"
        values: dict[str, Any] = {
            "text": f"turn {last}",
            "items": [{"role": "user", "content": f"turn {last}", "none": None}],
            "answer": [self.answer(candidates, back)],
            "refer": [{"type": "item_reference", "id": f"i{back % 3}"}],
        }
        parent_id = f"r{candidates[-1]}" if candidates else None
        create = self.create(lane, size, parent_id, values[asks])
        if self.board.closed:
            with pytest.raises(IllegalTransition):
                self.board.submit(create)
            return
        expected = self.lanes.submit(last, lane, size)
        if isinstance(expected, str):
            with pytest.raises(ClientFault) as refused:
                self.board.submit(create)
            assert refused.value.code == expected
            return
        self.accepted.append(last)
        self.start(self.board.submit(create), expected)

    def answer(self, parents: list[int], back: int) -> dict[str, Any]:
        """An output for a call of the parent, of one of its parents, of anybody, of nobody."""
        call = parents[-1] if parents and back < 5 else -1
        for _ in range(max(0, back - 2)):
            before = self.creates[call].parent_id if call >= 0 else None
            call = int(before[1:]) if before else call - back
        return {"type": "function_call_output", "call_id": f"c{call}", "output": ""}

    def end(self, lane: str | None, how: str, pad: int) -> None:
        """Completed, with a successor, failed half-way, or refused by the backend."""
        run = self.runs.pop(lane)
        create = self.creates[run.number]
        if how in ("keep", "succeed"):
            self.keep(lane, run, pad)
        if how == "refuse":
            self.lineage.evict_failed(lane, create.parent_id)
            self.cache.evict_failed(lane, create.parent_id)
        if how == "succeed" and not self.board.closed:
            successor = self.create(lane, 0, f"r{run.number}", "steer")
            self.lanes.running[lane] = successor.body["n"]
            self.board.succeed(lane, successor)
            self.open(successor)
        else:
            self.finish(lane)

    def finish(self, lane: str | None) -> None:
        """Free the lane and start what comes next."""
        self.start(self.board.finish(lane), self.lanes.finish(lane))

    def start(self, creates: list[Create], expected: list[int]) -> None:
        """What starts is what the model says; each gets its parent now, not earlier."""
        assert [create.body["n"] for create in creates] == expected
        for create in creates:
            self.started.append(create.body["n"])
            self.open(create)

    def open(self, create: Create) -> None:
        """Resolve and check; a create that goes wrong here ends at once."""
        lane, number = create.stream_id, create.body["n"]
        assert lane not in self.runs, "two running on one lane"
        record = self.cache.find(create.parent_id) if create.parent_id else None
        try:
            node = self.lineage.resolve(create.parent_id)
        except ClientFault:
            assert record is None
            self.finish(lane)
            return
        assert (node is None) == (record is None)
        ancestors = record.line if record else []
        try:
            entries = resolve_input(input_items(create.body["input"]), node, self.lineage)
        except ClientFault:
            assert not self.allowed(create, ancestors)
            self.lineage.evict_failed(lane, create.parent_id)
            self.cache.evict_failed(lane, create.parent_id)
            self.finish(lane)
            return
        assert self.allowed(create, ancestors)
        self.check_entries(create, entries, ancestors)
        self.runs[lane] = Run(number, node, entries, ancestors)

    def allowed(self, create: Create, ancestors: list[Record]) -> bool:
        """Whether all that the input names is there."""
        item = input_items(create.body["input"])[0]
        if item.get("type") == "item_reference":
            return any(item["id"] in record.items for record in self.cache.held)
        call_id = item.get("call_id")
        return call_id is None or any(call_id in record.calls for record in ancestors)

    def check_entries(
        self, create: Create, entries: tuple[Entry, ...], ancestors: list[Record]
    ) -> None:
        """The input goes on value for value, a reference as the nearest item of that id."""
        (entry,) = entries
        item = input_items(create.body["input"])[0]
        if item.get("type") != "item_reference":
            assert entry.data == msgspec.json.encode(item)
            return
        near = [link.items[item["id"]] for link in ancestors if item["id"] in link.items]
        far = [link.items.get(item["id"]) for link in self.cache.held]
        assert entry.data in (near[-1:] or far)

    def keep(self, lane: str | None, run: Run, pad: int) -> None:
        """A response that can be continued from."""
        self.kept.append(run.number)
        outputs = output(run.number, pad)
        after = [Entry.of(item) for item in outputs]
        self.lineage.keep(f"r{run.number}", lane, run.node, run.entries, after)
        own = [entry.data for entry in run.entries] + [msgspec.json.encode(i) for i in outputs]
        items = {entry.id: entry.data for entry in run.entries if entry.id}
        items[outputs[0]["id"]] = msgspec.json.encode(outputs[0])
        self.cache.keep(
            Record(f"r{run.number}", lane, run.ancestors, own, {f"c{run.number}"}, items)
        )

    @invariant()
    def order(self) -> None:
        """Nothing lost, nothing doubled, FIFO per lane, no limit passed."""
        waiting = [create.number for create in self.lanes.waiting]
        assert sorted(self.started + waiting + self.dropped + self.taken) == self.accepted
        for lane in LANES:
            mine = [number for number in self.started if self.creates[number].stream_id == lane]
            assert mine == sorted(mine)
        states = self.board.lanes
        assert {lane for lane, state in states.items() if state == "running"} == set(self.runs)
        assert set(states) == self.lanes.names
        assert self.board.active == len(self.runs) <= MAX_ACTIVE
        assert self.board.waiting == len(waiting) <= MAX_QUEUED
        size = sum(create.size for create in self.lanes.waiting)
        assert self.board.waiting_bytes == size <= MAX_QUEUED_BYTES

    @invariant()
    def memory(self) -> None:
        """The same ids, the same histories, the same bytes."""
        assert self.lineage.bytes_held == self.cache.bytes_held
        # All cached ids are asked for in the order of their use, which leaves the order as it is.
        for record in list(self.cache.cached):
            node = self.lineage.find(record.id)
            assert node is not None
            assert self.lineage.effective(node) == record.effective
        cached = {record.id for record in self.cache.cached}
        for number in range(len(self.creates)):
            if f"r{number}" not in cached:
                assert self.lineage.find(f"r{number}") is None

    @invariant()
    def misuse(self) -> None:
        """No run, no end of it, and no successor; nor has a closed board one."""
        for lane in LANES:
            if lane not in self.runs:
                with pytest.raises(IllegalTransition):
                    self.board.finish(lane)
            if lane not in self.runs or self.board.closed:
                with pytest.raises(IllegalTransition):
                    self.board.succeed(lane, Create(lane, {}))

    @invariant()
    def running(self) -> None:
        """What a run started with stays as it was, whatever else is kept or forgotten."""
        for run in self.runs.values():
            before = [item for record in run.ancestors for item in record.own]
            assert self.lineage.effective(run.node) == before


play = partial(plays.play, Rules, steps=25)
