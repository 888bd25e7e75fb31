"""Reads a backend's body at any chunking into a run, and judges all that comes out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from openai import omit
from openai.lib.streaming.responses import ResponseStreamState
from openai.types.responses import ResponseStreamEvent
from pydantic import TypeAdapter

from gateway.upstream.dialect import find
from gateway.upstream.transport.http.sse import SseSplitter
from tests.machines.drive import REQUEST, Played, feed
from tests.support.judge import validate
from tests.support.judge_response import TERMINALS, ResponseJudge

if TYPE_CHECKING:
    from gateway.upstream.dialect import Dialect
    from lanes.ports import Event
    from lanes.stream.profile import Profile

LIMIT = 8 * 2**20
_EVENT: TypeAdapter[Any] = TypeAdapter(ResponseStreamEvent)


#: Whose the mutations are that are not called after their dialect.
_OF = {
    "hf": "huggingface",
    "copilot": "openai",
    "vllm_dead": "vllm",
    "llamacpp_error": "llamacpp",
    "error_nested": "openai",
    "error_flat": "openai",
}


def dialect_of(name: str) -> Dialect:
    """The dialect of a tape, `vllm_text.sse`, or of a mutation."""
    return find(_OF.get(name) or name.split("_")[0])


def profile(name: str) -> Profile:
    return dialect_of(name).profile


def chunks(body: bytes, size: int) -> list[bytes]:
    return [body[at : at + size] for at in range(0, len(body), size)]


def received(reads: list[bytes], *, cut: bool = False) -> list[Event]:
    """The events of a body. `cut`: it broke off, so its last event may be half of one."""
    splitter = SseSplitter(LIMIT)
    events = [event for data in reads for event in splitter.feed(data)]
    return events if cut else [*events, *splitter.finish()]


def read(
    reads: list[bytes], profile: Profile, request: dict[str, Any] = REQUEST, *, cut: bool = False
) -> Played:
    """Play the reads of one body; of one that broke off where it is `cut`."""
    return feed(received(reads, cut=cut), request, profile)


def check(played: Played) -> dict[str, Any]:
    """Judge the stream, then let the official accumulator follow it. Returns the terminal."""
    response = ResponseJudge(played.events[0])
    state: ResponseStreamState[object] = ResponseStreamState(text_format=omit, input_tools=omit)
    for event in played.events:
        validate(event)
        response.receive(event)
        state.handle_event(_EVENT.validate_python(event))
    ends = [event["type"] in TERMINALS for event in played.events]
    assert ends.count(True) == ends[-1]
    assert response.terminal is not None
    return response.terminal
