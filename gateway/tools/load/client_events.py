"""The creates and steers that one connection sends, and what each of them continues. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from gateway.tools.load.markers import steer_marker
from gateway.tools.load.plan import parent_for, steer_input, steer_point
from gateway.tools.load.server_events import MARKER

if TYPE_CHECKING:
    from collections.abc import Sequence
    from random import Random

    from gateway.tools.load.plan import ChainHead, LoadPlan
    from gateway.tools.load.response_checks import SentCreate

#: The expected last sequence_number of an answer, until one is complete.
_LENGTH = 16


class ClientEvents:
    """Decides at random, as the plan asks, what a connection sends, and encodes it.

    Args:
        number: The connection's number.
        plan: The settings of the run.
        random: Where forks, steers and the connection's marker come from.
    """

    def __init__(self, number: int, plan: LoadPlan, random: Random) -> None:
        self.number = number
        self.marker = f"{random.getrandbits(32):08x}"
        self.timed = number >= plan.slow_readers  # the first connections are the slow ones
        self.steers = plan.steer_share > 0
        self.length = _LENGTH
        self._plan = plan
        self._random = random
        self._steered = 0

    def parent(self, own: ChainHead | None, others: Sequence[ChainHead]) -> ChainHead | None:
        """Return the parent of a lane's next create (see `plan.parent_for`)."""
        return parent_for(self._random, self._plan.fork_share, own, others)

    def steer_point(self, turn: int) -> int | None:
        """Return where to steer a response that begins, None for one that is not steered."""
        if not self.steers:
            return None
        return steer_point(self._random, self._plan.steer_share, turn, self.length)

    def next_steer(self) -> tuple[str, Any]:
        """Return the marker and the input of a new steer."""
        self._steered += 1
        marker = steer_marker(self.marker, self._steered)
        return marker, steer_input(marker, as_list=self._steered % 2 == 0)

    def steer(self, target: str | None, value: Any) -> bytes:
        """Encode the `response.steer` that gives the response `target` the input `value`."""
        steer = {"type": "response.steer", "previous_response_id": target, "input": value}
        return msgspec.json.encode(steer)

    def create(self, lane: str, create: SentCreate) -> bytes:
        """Encode the `response.create` of `create` on a lane."""
        event = {
            "type": "response.create",
            "stream_id": lane,
            "input": self._plan.prompt(create.marker, lane, create.turn),
            "store": False,
            "metadata": {MARKER: create.marker},
        }
        if self._plan.model:
            event["model"] = self._plan.model
        if create.parent:
            event["previous_response_id"] = create.parent
        return msgspec.json.encode(event)
