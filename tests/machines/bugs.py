"""Planted bugs: each breaks one promise, and the rules of its machine must notice.

A bug is a function that gets the original and returns what takes its place; its name says what is
broken. Each machine has a file of them, and test_bugs.py lists the files:

    BUGS = Bugs(run_the_rules)

    @BUGS.plant(Board, "close")
    def close_forgets_the_queue(original: Any) -> Any: ...

`run_the_rules` plays a bounded number of times and raises when a promise is broken.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Mutation = Callable[[Any], Any]


@dataclass(frozen=True)
class Bug:
    """Something else in place of one attribute of a class or module, and who must catch it."""

    owner: object
    attribute: str
    mutate: Mutation
    rules: Callable[[], None]

    @property
    def name(self) -> str:
        """What is broken."""
        return self.mutate.__name__


class Bugs(list[Bug]):
    """The bugs that the same rules must catch."""

    def __init__(self, rules: Callable[[], None]) -> None:
        super().__init__()
        self._rules = rules

    def plant(self, owner: object, attribute: str) -> Callable[[Mutation], Mutation]:
        """Add the decorated mutation of `owner.attribute`."""

        def add(mutate: Mutation) -> Mutation:
            self.append(Bug(owner, attribute, mutate, self._rules))
            return mutate

        return add
