"""The chunks of a Chat Completions stream, read no further than is needed. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from lanes.codec import decode_lenient

if TYPE_CHECKING:
    from collections.abc import Iterator


# What may be null, or of another type than it should, is Any: the rest of the chunk still counts.
class Delta(msgspec.Struct, gc=False):
    """What a chunk adds to the message, or a whole message."""

    content: Any = None
    refusal: Any = None
    reasoning_content: Any = None
    reasoning: Any = None
    reasoning_details: Any = None
    tool_calls: Any = None
    function_call: Any = None
    annotations: Any = None


class Choice(msgspec.Struct, gc=False):
    """One of the answers in a chunk; only that of index 0 was asked for."""

    delta: Delta | None = None
    index: Any = 0
    finish_reason: Any = None
    logprobs: Any = None
    message: Delta | None = None
    usage: Any = None
    error: Any = None


class Chunk(msgspec.Struct, gc=False):
    """One event of the stream."""

    choices: list[Choice | None] | None = None
    usage: Any = None
    error: Any = None
    model: Any = None
    created: Any = None
    service_tier: Any = None
    system_fingerprint: Any = None


_decode = msgspec.json.Decoder(Chunk).decode


def read(data: bytes) -> Chunk | None:
    """Read one chunk, repairing its JSON if need be; None for what is none.

    Ask lanes.codec.check_depth before writing any of it again.
    """
    try:
        return _decode(data)
    except (ValueError, RecursionError):
        pass
    try:
        return msgspec.convert(decode_lenient(data), Chunk)
    except (ValueError, RecursionError):
        return None


def reasoning_of(delta: Delta) -> str:
    """The reasoning that a delta adds, wherever it is; several places repeat each other."""
    for told in (delta.reasoning_content, delta.reasoning, delta.reasoning_details):
        text = _joined(told, "text", "content", "summary")
        if text:
            return text
    return "".join(_of_kind(delta.content, "thinking", "reasoning"))


def text_of(delta: Delta) -> str:
    """The text that a delta adds; of a list of parts, that of those which are text."""
    if isinstance(delta.content, str):
        return delta.content
    return "".join(_of_kind(delta.content, "text", "output_text"))


def citations(delta: Delta) -> Iterator[dict[str, Any]]:
    """The annotations of a delta as the Responses API has them."""
    told = delta.annotations if isinstance(delta.annotations, list) else ()
    for one in told:
        inner = one.get("url_citation") if isinstance(one, dict) else None
        if isinstance(inner, dict) and isinstance(inner.get("url"), str):
            start, end, title = (inner.get(key) for key in ("start_index", "end_index", "title"))
            yield {
                "type": "url_citation",
                "url": inner["url"],
                "title": title if isinstance(title, str) else "",
                "start_index": start if type(start) is int else 0,
                "end_index": end if type(end) is int else 0,
            }


def _of_kind(content: object, *kinds: str) -> Iterator[str]:
    for part in content if isinstance(content, list) else ():
        if isinstance(part, dict) and part.get("type") in kinds:
            yield _joined(part, *kinds, "text")


def _joined(told: object, *keys: str) -> str:
    """The text in a string, in an object under the first of these keys, or in a list of either."""
    if isinstance(told, str):
        return told
    if isinstance(told, list):
        return "".join(_joined(one, *keys) for one in told)
    if isinstance(told, dict):
        return next(filter(None, (_joined(told.get(key), *keys) for key in keys)), "")
    return ""
