"""Runs the examples of a run without pytest, for the bugs planted in it."""

from __future__ import annotations

import inspect
from itertools import product
from typing import TYPE_CHECKING, Any

from tests.dialects import test_replay, test_tapes
from tests.machines import (
    test_response_schema,
    test_run,
    test_run_calls,
    test_run_cancelled,
    test_run_faults,
    test_run_interleaved,
    test_run_items,
    test_run_parts,
    test_run_passthrough,
    test_run_reference,
    test_run_tools,
    test_snapshots,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

#: The quick ones first: most bugs are caught by them.
_MODULES = (
    test_run_parts,
    test_run_passthrough,
    test_run_reference,
    test_run_tools,
    test_run_faults,
    test_run,
    test_snapshots,
    test_replay,
    test_run_items,
    test_run_calls,
    test_response_schema,
    test_run_cancelled,
    test_run_interleaved,
    test_tapes,
)


def run_examples() -> None:
    """Every example of these modules that needs no fixture, up to the first that fails."""
    for module in _MODULES:
        for name, test in vars(module).items():
            if name.startswith("test_") and callable(test):
                for arguments in _cases(test):
                    test(**arguments)


def _cases(test: Callable[..., object]) -> Iterator[dict[str, Any]]:
    """What pytest would call it with; nothing where it asks for a fixture."""
    columns = []
    for mark in getattr(test, "pytestmark", ()):
        names, values = mark.args
        if isinstance(names, str):
            columns.append([{names: value} for value in values])
        else:
            columns.append([dict(zip(names, row, strict=True)) for row in values])
    for row in product(*columns):
        arguments = {name: value for column in row for name, value in column.items()}
        if arguments.keys() == inspect.signature(test).parameters.keys():
            yield arguments
