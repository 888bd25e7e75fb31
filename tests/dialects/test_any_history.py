"""Whatever a history holds, every backend takes it, in order, and loses nothing that it takes."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.upstream.dialect import find
from lanes.codec import decode, encode
from lanes.compaction.context import expanded
from lanes.compaction.plan import plan
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


@pytest.mark.parametrize("dialect", JUDGES)
@given(histories(), st.booleans(), st.booleans())
def test_a_compacted_history_is_taken(
    dialect: str, history: list[Item], goes_on: bool, keeps: bool
) -> None:
    """`keeps` says that the client sends the history in front of the item."""
    items = [encode(item) for item in history]
    content = plan(items, goes_on=goes_on).compacted("<999>")
    sent = [decode(item) for item in expanded(items if keeps else [], content)]
    request = asked(dialect, [*sent, {"role": "user", "content": "<1000>"}])
    assert refuses(dialect, request) is None
    said = pieces(request["input"], "message")
    assert said.count("999") == said.count("1000") == 1
    assert "compaction" not in [item.get("type") for item in request["input"]]


@pytest.mark.parametrize("dialect", ["openai", "azure"])
@given(histories())
def test_the_reference_gets_all_but_reasoning_as_it_is(dialect: str, history: list[Item]) -> None:
    given = asked(dialect, history)["input"]
    others = [item for item in history if item.get("type") != "reasoning"]
    assert [item for item in given if item.get("type") != "reasoning"] == others
    sealed = [item for item in given if item.get("type") == "reasoning"]
    assert all(item in history for item in sealed)
