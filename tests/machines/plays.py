"""How a machine's rules are played: always the same plays, whatever has run before."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING
from unittest import mock

from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.internal.conjecture import providers
from hypothesis.internal.constants_ast import Constants
from hypothesis.stateful import run_state_machine_as_test

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hypothesis.stateful import RuleBasedStateMachine


def play(
    machine: type[RuleBasedStateMachine],
    max_examples: int,
    *,
    steps: int,
    shrink: bool = False,
    chosen: int = 0,
) -> None:
    """Play at random, the same for the same `chosen` seed, so that red means a bug and never luck.

    What is played follows from the strategies alone: not from the machine's source, the modules
    that are loaded, or how busy the computer is.
    """
    phases = [Phase.explicit, Phase.generate] + ([Phase.shrink] if shrink else [])
    with _nothing_read():
        run_state_machine_as_test(
            seed(chosen)(machine),
            settings=settings(
                max_examples=max_examples,
                stateful_step_count=steps,
                deadline=None,
                database=None,
                phases=phases,
                suppress_health_check=list(HealthCheck),
                report_multiple_bugs=False,
            ),
        )


@contextmanager
def _nothing_read() -> Iterator[None]:
    """Hypothesis likes to draw numbers that it reads in the modules loaded so far; not in here."""
    constants = providers.CONSTANTS_CACHE.cache
    with mock.patch.object(providers, "_get_local_constants", Constants):
        constants.clear()
        try:
            yield
        finally:
            constants.clear()
