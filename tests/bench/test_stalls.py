"""No peer holds up the event loop for long, also if it is only refused (D33)."""

from __future__ import annotations

import pytest

from bench.stalling_frames import FRAMES
from bench.stalls import Outcome, Way, crowds, frames, requests, stored_answers

#: In CPU time, of which a busy machine takes little more. Read in one go, some cost seconds.
MOST_MS = 50

#: What is accepted, and what refuses the others for their number of values.
COMPLETED = ["one base64 string", "strings of 30 KB", "as many items as go", "as many values as go"]
REFUSED = ["empty arrays", "items", "pairs of metadata", "nested arrays", "numbers", "tools"]
COMPACTED = ["a text to compact", "an image to compact", "an output to compact"]
UNREADABLE = "invalid_compaction_item"


def too_long(outcomes: dict[str, Outcome]) -> dict[str, Outcome]:
    return {name: one for name, one in outcomes.items() if one.stall_ms > MOST_MS}


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("way", "names"),
    [
        (Way(), list(FRAMES)),
        (Way("chat"), [*COMPLETED, *COMPACTED]),
        (Way(upstream="https"), COMPLETED[:2]),
        (Way(upstream="websocket"), COMPLETED[:2]),
    ],
    ids=lambda value: f"{value.dialect}-{value.upstream}" if isinstance(value, Way) else "",
)
async def test_no_frame_stalls_the_gateway(way: Way, names: list[str]) -> None:
    outcomes = await frames(way, 60_000_000, names)
    assert too_long(outcomes) == {}
    ended = {name: outcome.ended for name, outcome in outcomes.items()}
    completed = [name for name in (*COMPLETED, *COMPACTED) if name in ended]
    assert {ended[name] for name in completed} == {"response.completed"}
    assert {ended.get(name, "too_many_values") for name in REFUSED} == {"too_many_values"}
    assert ended.get("a compaction item", UNREADABLE) == UNREADABLE


@pytest.mark.timeout(300)
async def test_no_request_over_http_stalls_the_gateway() -> None:
    outcomes = await requests(Way(), 60_000_000)
    assert too_long(outcomes) == {}
    assert {outcome.ended for outcome in outcomes.values()} == {"200"}


@pytest.mark.timeout(300)
async def test_no_stored_answer_stalls_the_gateway() -> None:
    outcomes = await stored_answers(Way(), 7_500_000)
    assert too_long(outcomes) == {}
    assert {outcome.ended for outcome in outcomes.values()} == {"200"}


@pytest.mark.timeout(300)
async def test_no_crowd_stalls_the_gateway() -> None:
    assert too_long(await crowds()) == {}
