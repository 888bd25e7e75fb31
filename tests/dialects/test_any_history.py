"""Whatever a history holds, every backend takes it, in order, and loses nothing that it takes."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given

from gateway.upstream.dialect import find
from lanes.codec import encode
from tests.dialects.histories import histories
from tests.dialects.strict import JUDGES, refuses

if TYPE_CHECKING:
    Item = dict[str, Any]

PIECE = re.compile(r"<(\d+)>")
FUNCTIONS = ("function_call", "function_call_output")

#: Bounded by the number of histories; how long they take is the machine's affair.
pytestmark = pytest.mark.timeout(300)


def asked(dialect: str, items: list[Item]) -> Item:
    made: Item = json.loads(
        find(dialect).request({"model": "m", "input": []}, [encode(item) for item in items])
    )
    return made


def pieces(items: list[Item], *kinds: str) -> list[str]:
    """The pieces of text in the items of these kinds, in order."""
    chosen = [item for item in items if item.get("type", "message") in kinds]
    return PIECE.findall(json.dumps(chosen))


@pytest.mark.parametrize("dialect", JUDGES)
@given(histories())
def test_any_history_is_taken(dialect: str, history: list[Item]) -> None:
    request = asked(dialect, history)
    assert refuses(dialect, request) is None
    assert asked(dialect, request["input"]) == request
    given = request["input"]
    if dialect == "huggingface":
        replayed = {*pieces(given, "message")}
        assert replayed >= {*pieces(history, "message", *FUNCTIONS)}
        return
    assert pieces(given, "message") == pieces(history, "message")
    assert sorted(pieces(given, *FUNCTIONS)) == sorted(pieces(history, *FUNCTIONS))


@pytest.mark.parametrize("dialect", ["openai", "azure"])
@given(histories())
def test_the_reference_gets_all_but_reasoning_as_it_is(dialect: str, history: list[Item]) -> None:
    given = asked(dialect, history)["input"]
    others = [item for item in history if item.get("type") != "reasoning"]
    assert [item for item in given if item.get("type") != "reasoning"] == others
    sealed = [item for item in given if item.get("type") == "reasoning"]
    assert all(item in history for item in sealed)
