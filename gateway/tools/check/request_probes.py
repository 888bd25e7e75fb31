"""The probes of what a request may be: its order, its tools, its keys, and what goes back in it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from gateway.tools.check.findings import Finding, SupportLevel
from gateway.tools.check.probe_context import FEW, WEATHER
from gateway.upstream.refused.request import INPUT
from lanes.codec import encode

if TYPE_CHECKING:
    from gateway.tools.check.backend_under_test import CheckedAnswer
    from gateway.tools.check.probe_context import ProbeContext

YES, PARTLY, NO, UNKNOWN = SupportLevel

_IN_ORDER: Final = "the gateway puts them in order"
_SPACE: Final = "city"
#: Two messages of the user in a row, and the system in the middle: what strict templates refuse.
_ORDER: Final = (
    ("user", "Hello."),
    ("user", "Are you there?"),
    ("assistant", "Yes."),
    ("system", "Be brief."),
    ("user", "Say hello in 3 words."),
)


async def reasoning_returned(context: ProbeContext) -> Finding:
    """Ask a second question, with the reasoning of the first answer in its input."""
    name, before = "reasoning returned", context.reasoned
    if before is None:
        return Finding(name, UNKNOWN, "no reasoning came")
    answer = await context.subject.ask("And 3 + 4? One word.", before.history)
    if not answer.accepted:
        return Finding(name, NO, answer.complaint)
    if any(encode(text)[1:-1] in answer.asked for text in _thoughts(before)):
        return Finding(name, YES, "it goes back with the history, and is taken")
    return Finding(name, PARTLY, "this dialect leaves it out of the history")


def _thoughts(answer: CheckedAnswer) -> list[str]:
    """Return what of an answer's reasoning would be in a request: the beginning of each text."""
    texts = []
    for item in answer.output("reasoning"):
        parts = [*item.get("content", ()), *item.get("summary", ())]
        texts += [item.get("encrypted_content"), *(part.get("text") for part in parts)]
    return [text[:24] for text in texts if text]


async def alternation(context: ProbeContext) -> Finding:
    """Send messages in an order that strict chat templates refuse."""
    name, subject = "alternation", context.subject
    taken = Finding(name, YES, "it takes the user twice in a row, and the system in the middle")
    if subject.dialect.converter is None:
        answer = await subject.ask([_item(role, text) for role, text in _ORDER])
        if any(refusal.key == INPUT for refusal in answer.learnt):
            return Finding(name, NO, f"refused; {_IN_ORDER}")
        return taken if answer.accepted else Finding(name, NO, answer.complaint)
    # The gateway would put them in order from the start.
    model = subject.model or "none"
    messages = [{"role": role, "content": text} for role, text in _ORDER]
    reply = await subject.post({"model": model, "messages": messages, "max_tokens": FEW})
    if reply.status < 300:
        return taken
    detail = f"{reply.status} for the user twice in a row and the system in the middle"
    return Finding(name, NO, f"{detail}; {_IN_ORDER}")


def _item(role: str, text: str) -> dict[str, Any]:
    """Return a message as an input item; the assistant's as a backend would have sent it."""
    content = [{"type": "output_text", "text": text, "annotations": []}]
    said: str | list[dict[str, Any]] = content if role == "assistant" else text
    return {"type": "message", "role": role, "content": said}


async def namespaces(context: ProbeContext) -> Finding:
    """Ask for a call of a tool in a namespace."""
    name = "namespace tools"
    if context.calls is None:
        return Finding(name, UNKNOWN, "there are no calls")
    space = {"type": "namespace", "name": _SPACE, "description": "A city.", "tools": [WEATHER]}
    answer = await context.subject.ask(
        "Use the tool: what is the weather in Paris?", tools=[space], tool_choice="required"
    )
    if not answer.accepted:
        return Finding(name, NO, answer.complaint)
    calls = answer.output("function_call")
    if not calls:
        return Finding(name, NO, "a call had to be made, and none came")
    if (calls[0].get("namespace"), calls[0]["name"]) != (_SPACE, WEATHER["name"]):
        return Finding(name, NO, f"{calls[0]['name'][:80]} was called, which is in no namespace")
    way = "as they are" if context.subject.dialect.namespaces else "by flat names"
    return Finding(name, YES, f"they are sent {way}, and called")


async def stream_options(context: ProbeContext) -> Finding:
    """See whether the backend takes the key `stream_options`."""
    name = "stream_options"
    answer = await context.subject.ask(
        "Say hello in 3 words.", stream_options={"include_obfuscation": False}
    )
    if not answer.accepted:
        return Finding(name, NO, answer.complaint)
    if answer.refused(name):
        return Finding(name, NO, "refused; the gateway leaves it out")
    return Finding(name, YES, "taken")
