"""No frame of a client holds up the event loop for long, also if it is only refused (D33)."""

from __future__ import annotations

import pytest

from bench.stalls import FRAMES, measure

#: Some frames cost 30 ms, and cost seconds if they are read in one go. The slack is for a machine
#: with a processor half as fast, and a collection of garbage in between.
MOST_MS = 150


#: What is accepted, and what refuses the others for their number of values.
COMPLETED = ["one base64 string", "strings of 30 KB", "as many items as go", "as many values as go"]
REFUSED = ["empty arrays", "items", "pairs of metadata", "nested arrays", "numbers", "tools"]


@pytest.mark.parametrize(("dialect", "names"), [("openai", list(FRAMES)), ("chat", COMPLETED)])
async def test_no_frame_stalls_the_gateway(dialect: str, names: list[str]) -> None:
    outcomes = await measure(dialect, 60_000_000, ["--redis-url", "memory"], names)
    stalls = {name: outcome.stall_ms for name, outcome in outcomes.items()}
    assert {name: ms for name, ms in stalls.items() if ms > MOST_MS} == {}
    ended = {name: outcome.ended for name, outcome in outcomes.items()}
    assert {ended[name] for name in COMPLETED} == {"response.completed"}
    assert {ended.get(name, "too_many_values") for name in REFUSED} == {"too_many_values"}
