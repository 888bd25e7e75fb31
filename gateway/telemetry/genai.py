"""What a span says of a response, in OpenTelemetry's names for generative AI. Pure.

The names are those of the semantic conventions 1.37 and later (`gen_ai.provider.name`). No value is
content: models, numbers, ids and reasons only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from gateway.telemetry.access_log import short
from lanes.errors import UpstreamFault
from lanes.stream.backend_errors import response_error

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lanes.attempt import Attempt
    from lanes.errors import Fault
    from lanes.frames import Create

    #: Names of attributes and their values.
    Attributes = dict[str, Any]

#: Which operation it is, as the conventions have it for the Responses API.
OPERATION: Final = "chat"
#: Who answers, if nobody is known to: the form of the answer is OpenAI's.
_PROVIDER: Final = "openai"
#: Settings of a create that are numbers -> their attributes.
_NUMBERS: Final = {
    "temperature": "gen_ai.request.temperature",
    "top_p": "gen_ai.request.top_p",
    "max_output_tokens": "gen_ai.request.max_tokens",
}
#: Counts of a usage -> their attributes; a dot leads into its details.
_COUNTS: Final = {
    "input_tokens": "gen_ai.usage.input_tokens",
    "output_tokens": "gen_ai.usage.output_tokens",
    "input_tokens_details.cached_tokens": "gen_ai.usage.cache_read.input_tokens",
    "output_tokens_details.reasoning_tokens": "gen_ai.usage.reasoning.output_tokens",
}


def span_name(create: Create) -> str:
    """Return the name of a create's span."""
    model = short(create.body.get("model"))
    return OPERATION if model is None else f"{OPERATION} {model}"


def asked(create: Create) -> Attributes:
    """Return what a span says from its beginning: what was asked for."""
    body = create.body
    said: Attributes = {
        "gen_ai.operation.name": OPERATION,
        "gen_ai.provider.name": _PROVIDER,
        "gen_ai.request.stream": True,
        "openai.api.type": "responses",
        "gen_ai.request.model": short(body.get("model")),
        "multilane.lane": short(create.stream_id),
        "multilane.previous_response_id": short(create.parent_id),
    }
    if isinstance(conversation := body.get("conversation"), dict):
        conversation = conversation.get("id")
    said["gen_ai.conversation.id"] = short(conversation)
    for name, attribute in _NUMBERS.items():
        number = body.get(name)
        if isinstance(number, int | float) and not isinstance(number, bool):
            said[attribute] = number
    return _without_none(said)


def ended(attempt: Attempt) -> Attributes:
    """Return what a span says of a response that is over."""
    run = attempt.run
    said: Attributes = {
        "gen_ai.response.id": run.id,
        "gen_ai.response.finish_reasons": [run.snapshots.why or str(run.state)],
        "multilane.upstream": run.profile.upstream or None,
        "multilane.status": str(run.state),
        "multilane.steers": len(attempt.bound) or None,
        "error.type": error_of(attempt),
    }
    if attempt.begun and not attempt.create.body.get("background"):
        said["gen_ai.response.time_to_first_chunk"] = attempt.begun - attempt.since
    said.update(_usage(run.snapshots.usage or {}))
    return _without_none(said)


def error_of(attempt: Attempt) -> str | None:
    """Return the code of the error that a response ended with, if it did."""
    run = attempt.run
    if run.fault is not None:
        return code_of(run.fault)
    return run.snapshots.why if str(run.state) == "failed" else None


def code_of(fault: Fault) -> str:
    """Return the code of a fault; in place of a backend's own word, one of the reference's."""
    code = response_error(fault)["code"] if isinstance(fault, UpstreamFault) else fault.code
    return str(code or fault.status)


def _usage(usage: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, attribute in _COUNTS.items():
        place, _, inner = name.partition(".")
        count = usage.get(place)
        if inner:
            count = (count or {}).get(inner)
        yield attribute, count


def _without_none(said: Attributes) -> Attributes:
    return {name: value for name, value in said.items() if value is not None}
