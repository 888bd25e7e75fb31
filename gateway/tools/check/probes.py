"""What is tried on a backend: each probe is a few tiny requests and one finding."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from gateway.tools.check.error_shapes import shape_of
from gateway.tools.check.findings import Finding, Verdict
from gateway.upstream.detection.detector import probe
from gateway.upstream.detection.rules import EndpointStatus, reception
from lanes.codec import decode
from lanes.errors import UpstreamFault
from lanes.stream.run_states import RunState

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from gateway.tools.check.backend_under_test import BackendUnderTest, CheckedAnswer

    Probe = Callable[["ProbeContext"], Awaitable[Finding]]

YES, PARTLY, NO, UNKNOWN = Verdict.YES, Verdict.PARTLY, Verdict.NO, Verdict.UNKNOWN

#: The least that the reference takes.
FEW: Final = 16
#: Once so much of a text has come it is in full flow.
FLOWING: Final = 3
#: There is enough of it to be cut, left or overtaken.
LONG: Final = "Tell me a long story about the sea in 200 words."
_WEATHER: Final = {
    "type": "function",
    "name": "get_weather",
    "description": "The weather of one city.",
    "parameters": {
        "type": "object",
        "properties": {"city": {"type": "string"}},
        "required": ["city"],
        "additionalProperties": False,
    },
}
#: One red pixel.
_PIXEL: Final = (
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1Pe"
    "AAAADElEQVR4nGP4z8AAAAMBAQDJ/pLvAAAAAElFTkSuQmCC"
)
#: The events of a text as the reference sends them, without `response.`.
_STREAM: Final = (
    *("created", "in_progress", "output_item.added", "content_part.added", "output_text.delta"),
    *("output_text.done", "content_part.done", "output_item.done"),
)


@dataclass
class ProbeContext:
    """The backend, and what the probes so far leave for those after them."""

    subject: BackendUnderTest
    first: CheckedAnswer | None = None
    calls: CheckedAnswer | None = None
    at_once: bool | None = None
    #: Seconds that a second answer took to begin beside a first one.
    waited: float = 0.0


async def text(known: ProbeContext) -> Finding:
    """A short answer: does it stream?"""
    heard = known.first = await known.subject.ask("Say hello in one short sentence, in 12 words.")
    if not heard.accepted:
        return Finding("text", NO, heard.complaint)
    if not heard.text:
        return Finding("text", NO, f"no text came; it ended as {heard.run.state}")
    count, first = len(heard.words), heard.words[0]
    told = f"{count} deltas, the first after {first:.2f} s, {heard.run.state}"
    if count == 1:
        return Finding("text", PARTLY, f"all in one delta after {first:.2f} s")
    return Finding("text", YES, told)


async def events(known: ProbeContext) -> Finding:
    """Which events the answer came in."""
    if known.subject.dialect.converter is not None:
        return Finding("events", PARTLY, "chunks of Chat Completions, converted")
    types = [_type(event) for event in _heard(known).raw]
    missing = [kind for kind in _STREAM if kind not in types]
    if not {"completed", "incomplete"} & set(types):
        missing.append("completed")
    if missing:
        return Finding("events", PARTLY, f"without {', '.join(missing)}")
    return Finding("events", YES, "all that the reference sends for a text")


async def usage(known: ProbeContext) -> Finding:
    """Whether tokens are counted."""
    counted = _heard(known).final.get("usage")
    if counted is None:
        return Finding("usage", NO, "not told")
    return Finding("usage", YES, f"{counted['input_tokens']} in, {counted['output_tokens']} out")


async def reasoning(known: ProbeContext) -> Finding:
    """In which forms reasoning comes."""
    heard = await known.subject.ask(
        "What is 2 + 3?",
        reasoning={"effort": "low", "summary": "auto"},
        include=["reasoning.encrypted_content"],
    )
    forms: dict[str, None] = {}
    for item in [one for run in (heard, _heard(known)) for one in run.output("reasoning")]:
        shown = {"text": "content", "summary": "summary", "encrypted": "encrypted_content"}
        forms |= dict.fromkeys(form for form, key in shown.items() if item.get(key))
    if forms:
        return Finding("reasoning", YES, f"as {', '.join(forms)}")
    if heard.accepted:
        return Finding("reasoning", NO, "none came")
    return Finding("reasoning", NO, f"refused ({heard.complaint})")


async def tools(known: ProbeContext) -> Finding:
    """A call that has to be made, with arguments that parse."""
    heard = await known.subject.ask(
        "Use the tool: what is the weather in Paris?", tools=[_WEATHER], tool_choice="required"
    )
    if not heard.accepted:
        return Finding("tools", NO, heard.complaint)
    calls = heard.output("function_call")
    if not calls:
        return Finding("tools", NO, "a call had to be made, and none came")
    call = calls[0]
    told = f"{call['name']}({call['arguments'][:60]})"
    if call["status"] == "incomplete" or not _is_object(call["arguments"]):
        return Finding("tools", NO, f"the arguments are no JSON object: {told}")
    known.calls = heard
    return Finding("tools", YES, told)


async def parallel(known: ProbeContext) -> Finding:
    """Several calls in one answer."""
    name = "parallel calls"
    if known.calls is None:
        return Finding(name, UNKNOWN, "there are no calls")
    heard = await known.subject.ask(
        "Use the tool twice: what is the weather in Paris, and in Oslo?",
        tools=[_WEATHER],
        parallel_tool_calls=True,
    )
    count = len(heard.output("function_call"))
    if not heard.accepted:
        return Finding(name, NO, heard.complaint)
    if count > 1:
        return Finding(name, YES, f"{count} calls in one answer")
    return Finding(name, UNKNOWN, f"two were asked for, {'one' if count else 'none'} came")


async def tool_outputs(known: ProbeContext) -> Finding:
    """The output of a call is taken, together with the call."""
    if known.calls is None:
        return Finding("tool outputs", UNKNOWN, "no call came that could be answered")
    outputs = [
        {"type": "function_call_output", "call_id": call["call_id"], "output": "18 degrees, sunny"}
        for call in known.calls.output("function_call")
    ]
    heard = await known.subject.ask(outputs, known.calls.history, tools=[_WEATHER])
    return _taken("tool outputs", heard, "the call and its output are taken")


async def images(known: ProbeContext) -> Finding:
    """An image in the input."""
    content = [
        {"type": "input_text", "text": "Which colour is this? One word."},
        {"type": "input_image", "image_url": _PIXEL, "detail": "auto"},
    ]
    heard = await known.subject.ask([{"type": "message", "role": "user", "content": content}])
    return _taken("images", heard, "a PNG in a data URL is taken")


async def errors(known: ProbeContext) -> Finding:
    """What a wrong request gets."""
    subject = known.subject
    wrong = {"model": subject.model or "none", "input": 42, "messages": 42, "stream": True}
    answer = await subject.post(wrong)
    told = f"{answer.status} and {shape_of(answer.headers, answer.body)} for a wrong request"
    if answer.status < 400:
        return Finding("errors", NO, told)
    return Finding("errors", YES if answer.status < 500 else PARTLY, told)


async def previous_response(known: ProbeContext) -> Finding:
    """What becomes of `previous_response_id`, which the gateway never sends."""
    name, subject = "previous_response_id", known.subject
    if subject.dialect.converter is not None:
        return Finding(name, NO, "there is none in Chat Completions; the gateway sends the history")
    answer = await subject.post(probe(subject.model))
    how = reception(answer.status, answer.headers, answer.body)
    verdicts = {EndpointStatus.HONOURS: YES, EndpointStatus.REFUSES: NO, EndpointStatus.IGNORES: NO}
    told = {
        EndpointStatus.HONOURS: "an unknown one is refused as unknown",
        EndpointStatus.REFUSES: "refused",
        EndpointStatus.IGNORES: "silently ignored",
    }.get(how, "not told")
    return Finding(name, verdicts.get(how, UNKNOWN), f"{told}; the gateway sends the history")


async def limit(known: ProbeContext) -> Finding:
    """Whether the token limit is told honestly."""
    heard = await known.subject.ask(LONG, max_output_tokens=FEW)
    if not heard.accepted:
        return Finding("token limit", UNKNOWN, heard.complaint)
    ends = [_type(event) for event in heard.raw]
    if "incomplete" in ends:
        return Finding("token limit", YES, f"incomplete after {FEW} tokens")
    if heard.run.state is RunState.INCOMPLETE:
        return Finding("token limit", NO, "it says completed; the gateway makes it incomplete")
    spent = (heard.final.get("usage") or {}).get("output_tokens")
    if spent is not None and spent < FEW:
        return Finding("token limit", UNKNOWN, f"the answer ended after {spent} tokens")
    said = "no usage" if spent is None else f"{spent} tokens"
    return Finding("token limit", NO, f"it says completed, with {said} at a limit of {FEW}")


async def replay(known: ProbeContext) -> Finding:
    """A second turn, with the whole first one in the input."""
    history = _heard(known).history
    heard = await known.subject.ask("Say it again, in 8 words.", history)
    return _taken("replay", heard, "a second turn with the first one in its input is taken")


async def steering(known: ProbeContext) -> Finding:
    """A text is cut, and goes back with another word from the user."""

    def cut(heard: CheckedAnswer) -> None:
        if len(heard.words) >= FLOWING:
            heard.run.cut()

    if not known.subject.dialect.profile.steerable:
        return Finding("steering", NO, "not with this dialect")
    heard = await known.subject.ask(LONG, watch=cut)
    if not heard.accepted:
        return Finding("steering", NO, heard.complaint)
    following = await known.subject.ask("Stop. Say goodbye in 8 words.", heard.history)
    if heard.run.state is RunState.STEERED:
        told = f"cut after {len(heard.text)} characters, taken back and gone on from there"
        return _taken("steering", following, told)
    found = _taken("steering", following, "the answer came too quickly to be cut; its end is taken")
    return replace(found, verdict=PARTLY) if found.verdict is YES else found


def skipped(name: str) -> Finding:
    """The finding of a probe that makes no sense without a text."""
    return Finding(name, UNKNOWN, "not tried, as no text came")


async def timed(probe: Probe, name: str, known: ProbeContext) -> Finding:
    """Run one probe; what goes wrong in it is its finding, and no other's."""
    since = time.monotonic()
    try:
        found = await probe(known)
    except UpstreamFault as fault:
        found = Finding(name, UNKNOWN, f"{fault.status}: {fault.message}")
    return replace(found, seconds=time.monotonic() - since)


def _taken(name: str, heard: CheckedAnswer, told: str) -> Finding:
    return Finding(name, YES, told) if heard.accepted else Finding(name, NO, heard.complaint)


def _heard(known: ProbeContext) -> CheckedAnswer:
    assert known.first is not None, "the text is asked for first"
    return known.first


def _type(event: tuple[str | None, bytes]) -> str:
    """The type of a raw event, without `response.`."""
    name, data = event
    try:
        value = decode(data)
    except ValueError:
        value = None
    kind = value.get("type") if isinstance(value, dict) else None
    return str(kind or name or "").removeprefix("response.")


def _is_object(text: str) -> bool:
    try:
        return isinstance(decode(text.encode()), dict)
    except ValueError:
        return False
