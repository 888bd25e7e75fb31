"""Reads a backend's body at any chunking into a run, and judges all that comes out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from openai import omit
from openai.lib.streaming.responses import ResponseStreamState
from openai.types.responses import ResponseStreamEvent
from pydantic import TypeAdapter

from gateway.dialects import llamacpp, openai
from gateway.upstream.sse import Splitter
from tests.judge import judge
from tests.machines.drive import REQUEST, Played, start

if TYPE_CHECKING:
    from lanes.profile import Profile

LIMIT = 8 * 2**20
_EVENT: TypeAdapter[Any] = TypeAdapter(ResponseStreamEvent)


def profile(name: str) -> Profile:
    """The profile that fits a tape: llama.cpp's own, else the reference's."""
    dialect = llamacpp.DIALECT if name.startswith("llamacpp") else openai.DIALECT
    return dialect.profile


def chunks(body: bytes, size: int) -> list[bytes]:
    return [body[at : at + size] for at in range(0, len(body), size)]


def read(
    reads: list[bytes], profile: Profile, request: dict[str, Any] = REQUEST, *, cut: bool = False
) -> Played:
    """Play the reads of one body. `cut`: it broke off, so its last event may be half of one."""
    run, sent = start(request, profile)
    splitter = Splitter(LIMIT)
    for data in reads:
        for name, value in splitter.feed(data):
            run.receive(name, value)
    for name, value in () if cut else splitter.finish():
        run.receive(name, value)
    run.end()
    return Played(run, sent)


def check(played: Played) -> dict[str, Any]:
    """Judge the stream, then let the official accumulator follow it. Returns the terminal."""
    (terminal,) = judge(played.events).values()
    state: ResponseStreamState[object] = ResponseStreamState(text_format=omit, input_tools=omit)
    for event in played.events:
        state.handle_event(_EVENT.validate_python(event))
    made: dict[str, Any] = terminal
    return made
