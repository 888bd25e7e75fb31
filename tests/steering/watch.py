"""Reads along with the machines: which rows of their tables are used."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING
from unittest import mock

import steering.clerk
from lanes.stream.run import Run
from steering.ledger import Ledger

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lanes.stream.run_states import RunState, RunStep
    from steering.states import SubmissionState, SubmissionStep
    from steering.targets import Submission

#: The rows of both tables that some play has used.
visited: set[tuple[SubmissionState, SubmissionStep]] = set()
cut: set[tuple[RunState, RunStep]] = set()
#: The last step of any run.
last: list[RunStep] = []


@contextmanager
def watched() -> Iterator[None]:
    """Note the rows of the tables that are used; and the clerk tries again at once."""
    step, run = Ledger._step, Run._step

    def step_of_ledger(ledger: Ledger, submission: Submission, move: SubmissionStep) -> None:
        visited.add((submission.state, move))
        step(ledger, submission, move)

    def step_of_run(self: Run, move: RunStep) -> None:
        cut.add((self.state, move))
        last[:] = [move]
        run(self, move)

    with (
        mock.patch.object(steering.clerk, "_RETRY", 0),
        mock.patch.object(Ledger, "_step", step_of_ledger),
        mock.patch.object(Run, "_step", step_of_run),
    ):
        yield
