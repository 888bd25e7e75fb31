"""The probes of a check: each sends a few tiny requests and returns one finding."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from gateway.tools.check.error_shapes import shape_of
from gateway.tools.check.findings import Finding, SupportLevel
from gateway.tools.check.probe_context import FEW, FLOWING, LONG, WEATHER, ProbeContext
from gateway.upstream.detection.detector import probe_request
from gateway.upstream.detection.rules import EndpointStatus, endpoint_status
from lanes.codec import decode
from lanes.errors import UpstreamFault
from lanes.stream.run_states import RunState

if TYPE_CHECKING:
    from gateway.tools.check.backend_under_test import CheckedAnswer
    from gateway.tools.check.probe_context import Probe

YES, PARTLY, NO, UNKNOWN = SupportLevel

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


async def text(context: ProbeContext) -> Finding:
    """Ask for a short text, and see whether it streams."""
    answer = context.first = await context.subject.ask(
        "Say hello in one short sentence, in 12 words."
    )
    if not answer.accepted:
        return Finding("text", NO, answer.complaint)
    if not answer.text:
        return Finding("text", NO, f"no text came; it ended as {answer.run.state}")
    count, first = len(answer.words), answer.words[0]
    detail = f"{count} deltas, the first after {first:.2f} s, {answer.run.state}"
    if count == 1:
        return Finding("text", PARTLY, f"all in one delta after {first:.2f} s")
    return Finding("text", YES, detail)


async def events(context: ProbeContext) -> Finding:
    """See which events of the reference the text came in."""
    if context.subject.dialect.converter is not None:
        return Finding("events", PARTLY, "chunks of Chat Completions, converted")
    types = [_type(event) for event in _first(context).raw]
    missing = [kind for kind in _STREAM if kind not in types]
    if not {"completed", "incomplete"} & set(types):
        missing.append("completed")
    if missing:
        return Finding("events", PARTLY, f"without {', '.join(missing)}")
    return Finding("events", YES, "all that the reference sends for a text")


async def usage(context: ProbeContext) -> Finding:
    """See whether the backend counts tokens."""
    counted = _first(context).final.get("usage")
    if counted is None:
        return Finding("usage", NO, "not reported")
    return Finding("usage", YES, f"{counted['input_tokens']} in, {counted['output_tokens']} out")


async def reasoning(context: ProbeContext) -> Finding:
    """Ask for reasoning, and see in which forms it comes."""
    answer = await context.subject.ask(
        "What is 2 + 3?",
        reasoning={"effort": "low", "summary": "auto"},
        include=["reasoning.encrypted_content"],
    )
    forms: dict[str, None] = {}
    for item in [one for run in (answer, _first(context)) for one in run.output("reasoning")]:
        shown = {"text": "content", "summary": "summary", "encrypted": "encrypted_content"}
        forms |= dict.fromkeys(form for form, key in shown.items() if item.get(key))
    if answer.output("reasoning"):
        context.reasoned = answer
    if forms:
        return Finding("reasoning", YES, f"as {', '.join(forms)}")
    if refused := answer.refused("reasoning", "reasoning_effort", "include"):
        return Finding("reasoning", NO, f"refused ({refused})")
    if answer.accepted:
        return Finding("reasoning", NO, "none came")
    return Finding("reasoning", NO, f"refused ({answer.complaint})")


async def tools(context: ProbeContext) -> Finding:
    """Ask for a call that is required, and see whether its arguments parse."""
    answer = await context.subject.ask(
        "Use the tool: what is the weather in Paris?", tools=[WEATHER], tool_choice="required"
    )
    if not answer.accepted:
        return Finding("tools", NO, answer.complaint)
    calls = answer.output("function_call")
    if not calls:
        return Finding("tools", NO, "a call had to be made, and none came")
    call = calls[0]
    detail = f"{call['name']}({call['arguments'][:60]})"
    if call["status"] == "incomplete" or not _is_object(call["arguments"]):
        return Finding("tools", NO, f"the arguments are no JSON object: {detail}")
    context.calls = answer
    return Finding("tools", YES, detail)


async def parallel(context: ProbeContext) -> Finding:
    """Ask for several calls in one answer."""
    name = "parallel calls"
    if context.calls is None:
        return Finding(name, UNKNOWN, "there are no calls")
    answer = await context.subject.ask(
        "Use the tool twice: what is the weather in Paris, and in Oslo?",
        tools=[WEATHER],
        parallel_tool_calls=True,
    )
    count = len(answer.output("function_call"))
    if not answer.accepted:
        return Finding(name, NO, answer.complaint)
    if count > 1:
        return Finding(name, YES, f"{count} calls in one answer")
    return Finding(name, UNKNOWN, f"two were asked for, {'one' if count else 'none'} came")


async def tool_outputs(context: ProbeContext) -> Finding:
    """Send a call back with its output."""
    if context.calls is None:
        return Finding("tool outputs", UNKNOWN, "no call came that could be answered")
    outputs = [
        {"type": "function_call_output", "call_id": call["call_id"], "output": "18 degrees, sunny"}
        for call in context.calls.output("function_call")
    ]
    answer = await context.subject.ask(outputs, context.calls.history, tools=[WEATHER])
    return _taken("tool outputs", answer, "the call and its output are taken")


async def images(context: ProbeContext) -> Finding:
    """Send an image."""
    content = [
        {"type": "input_text", "text": "Which colour is this? One word."},
        {"type": "input_image", "image_url": _PIXEL, "detail": "auto"},
    ]
    answer = await context.subject.ask([{"type": "message", "role": "user", "content": content}])
    return _taken("images", answer, "a PNG in a data URL is taken")


async def errors(context: ProbeContext) -> Finding:
    """Send a wrong request, and see what error comes back."""
    subject = context.subject
    wrong = {"model": subject.model or "none", "input": 42, "messages": 42, "stream": True}
    reply = await subject.post(wrong)
    detail = f"{reply.status} and {shape_of(reply.headers, reply.body)} for a wrong request"
    if reply.status < 400:
        return Finding("errors", NO, detail)
    return Finding("errors", YES if reply.status < 500 else PARTLY, detail)


async def previous_response(context: ProbeContext) -> Finding:
    """See what the backend does with `previous_response_id`, which the gateway never sends."""
    name, subject = "previous_response_id", context.subject
    if subject.dialect.converter is not None:
        return Finding(name, NO, "there is none in Chat Completions; the gateway sends the history")
    answer = await subject.post(probe_request(subject.model))
    how = endpoint_status(answer.status, answer.headers, answer.body)
    verdicts = {EndpointStatus.HONOURS: YES, EndpointStatus.REFUSES: NO, EndpointStatus.IGNORES: NO}
    detail = {
        EndpointStatus.HONOURS: "an unknown one is refused as unknown",
        EndpointStatus.REFUSES: "refused",
        EndpointStatus.IGNORES: "silently ignored",
    }.get(how, "not told")
    return Finding(name, verdicts.get(how, UNKNOWN), f"{detail}; the gateway sends the history")


async def limit(context: ProbeContext) -> Finding:
    """See whether the backend reports that it stopped at the token limit."""
    answer = await context.subject.ask(LONG, max_output_tokens=FEW)
    if not answer.accepted:
        return Finding("token limit", UNKNOWN, answer.complaint)
    ends = [_type(event) for event in answer.raw]
    if "incomplete" in ends:
        return Finding("token limit", YES, f"incomplete after {FEW} tokens")
    if answer.run.state is RunState.INCOMPLETE:
        return Finding("token limit", NO, "it says completed; the gateway makes it incomplete")
    spent = (answer.final.get("usage") or {}).get("output_tokens")
    if spent is not None and spent < FEW:
        return Finding("token limit", UNKNOWN, f"the answer ended after {spent} tokens")
    counted = "no usage" if spent is None else f"{spent} tokens"
    return Finding("token limit", NO, f"it says completed, with {counted} at a limit of {FEW}")


async def replay(context: ProbeContext) -> Finding:
    """Ask for a second turn, with the whole first one in the input."""
    history = _first(context).history
    answer = await context.subject.ask("Say it again, in 8 words.", history)
    return _taken("replay", answer, "a second turn with the first one in its input is taken")


async def steering(context: ProbeContext) -> Finding:
    """Cut a text, and send it back with another message of the user."""

    def cut(answer: CheckedAnswer) -> None:
        if len(answer.words) >= FLOWING:
            answer.run.cut()

    if not context.subject.dialect.profile.steerable:
        return Finding("steering", NO, "not with this dialect")
    answer = await context.subject.ask(LONG, watch=cut)
    if not answer.accepted:
        return Finding("steering", NO, answer.complaint)
    following = await context.subject.ask("Stop. Say goodbye in 8 words.", answer.history)
    if answer.run.state is RunState.STEERED:
        detail = f"cut after {len(answer.text)} characters, taken back and gone on from there"
        return _taken("steering", following, detail)
    finding = _taken(
        "steering", following, "the answer came too quickly to be cut; its end is taken"
    )
    return replace(finding, verdict=PARTLY) if finding.verdict is YES else finding


def skipped(name: str) -> Finding:
    """Return the finding of a probe that makes no sense without a text."""
    return Finding(name, UNKNOWN, "not tried, as no text came")


async def timed(probe: Probe, name: str, context: ProbeContext) -> Finding:
    """Run one probe and time it; an error in it becomes its finding.

    Args:
        probe: The probe.
        name: The name of its finding.
        context: What the probes share.
    """
    since = time.monotonic()
    try:
        finding = await probe(context)
    except UpstreamFault as fault:
        finding = Finding(name, UNKNOWN, f"{fault.status}: {fault.message}")
    return replace(finding, seconds=time.monotonic() - since)


def _taken(name: str, answer: CheckedAnswer, detail: str) -> Finding:
    return Finding(name, YES, detail) if answer.accepted else Finding(name, NO, answer.complaint)


def _first(context: ProbeContext) -> CheckedAnswer:
    assert context.first is not None, "the text is asked for first"
    return context.first


def _type(event: tuple[str | None, bytes]) -> str:
    """Return the type of a raw event, without `response.`."""
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
