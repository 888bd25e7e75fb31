"""Reads along with the output of a run: which rows of its two tables are used."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from unittest import mock

from lanes.stream.held_events import HeldEvents
from lanes.stream.items import Item

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lanes.stream.item_states import HoldState, HoldStep, ItemState, ItemStep


@dataclass
class UsedRows:
    """The rows of both tables that were used, in order."""

    items: list[tuple[ItemState, ItemStep]] = field(default_factory=list)
    held: list[tuple[HoldState, HoldStep]] = field(default_factory=list)

    def clear(self) -> None:
        """Forget what was used so far."""
        self.items.clear()
        self.held.clear()


@contextmanager
def watched() -> Iterator[UsedRows]:
    """Note each row that is used."""
    rows = UsedRows()
    step_item, step_held = Item.step, HeldEvents._step

    def step_of_item(self: Item, step: ItemStep) -> None:
        rows.items.append((self.state, step))
        step_item(self, step)

    def step_of_held(self: HeldEvents, step: HoldStep) -> None:
        rows.held.append((self.state, step))
        step_held(self, step)

    with (
        mock.patch.object(Item, "step", step_of_item),
        mock.patch.object(HeldEvents, "_step", step_of_held),
    ):
        yield rows
