"""The chunks of a Chat Completions stream, and the texts in them. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from lanes.codec import decode_lenient
from lanes.surrogates import decode_halves

if TYPE_CHECKING:
    from collections.abc import Iterator


#: Reasoning that came as parts of the content.
IN_CONTENT: Final = "content"
#: The keys under which backends send the text of their reasoning.
TEXT_KEYS: Final = ("reasoning_content", "reasoning", "thinking", "reasoning_text")
#: The keys of a message that hold what its backend sealed or signed.
SEALED_KEYS: Final = (
    *("reasoning_details", "thinking_blocks", "reasoning_opaque", "extra_content"),
    "provider_specific_fields",
)


# A field that may be null or of a wrong type is Any: the rest of the chunk is still good.
class Delta(msgspec.Struct, gc=False):
    """What a chunk adds to the message, or the whole message."""

    content: Any = None
    refusal: Any = None
    reasoning_content: Any = None
    reasoning: Any = None
    thinking: Any = None
    reasoning_text: Any = None
    reasoning_details: Any = None
    thinking_blocks: Any = None
    reasoning_opaque: Any = None
    extra_content: Any = None
    provider_specific_fields: Any = None
    tool_calls: Any = None
    function_call: Any = None
    annotations: Any = None
    images: Any = None


class Choice(msgspec.Struct, gc=False):
    """A part of the answer in a chunk: some backends give text and calls an index each."""

    delta: Delta | None = None
    index: Any = 0
    finish_reason: Any = None
    native_finish_reason: Any = None
    logprobs: Any = None
    message: Delta | None = None
    text: Any = None
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
    x_groq: Any = None
    timings: Any = None


#: The keys of texts that may come with half of a character at an end, and the way to them.
_TEXTS: Final = frozenset({*TEXT_KEYS, "content", "refusal", "text", "arguments", "input"})
_WITHIN: Final = frozenset(
    {"choices", "delta", "message", "content", "tool_calls", "function", "custom", "function_call"}
)

#: Reads a chunk of strict JSON; `repaired` reads any other.
decode: Final = msgspec.json.Decoder(Chunk).decode


def repaired(data: bytes) -> Chunk | None:
    """Return a chunk, its JSON repaired; None if the data is none. Texts may end with halves.

    Call `lanes.codec.check_depth` before encoding any of it again.
    """
    try:
        value = decode_halves(data, _TEXTS, _WITHIN)
        return msgspec.convert(_typed(decode_lenient(data) if value is None else value), Chunk)
    except (ValueError, RecursionError):
        return None


def _typed(value: object) -> object:
    """Return a chunk whose choices have their types: one may be bare, a delta may be its text."""
    if not isinstance(value, dict):
        return value
    choices = value.get("choices")
    listed = choices if isinstance(choices, list) else [choices]
    kept = [{**one, **_messages(one)} for one in listed if isinstance(one, dict)]
    return {**value, "choices": kept}


def _messages(choice: dict[str, Any]) -> dict[str, Any]:
    """Return the delta and the message of a choice, each an object or null."""
    given = {key: choice.get(key) for key in ("delta", "message")}
    texts = {key: {"content": value} for key, value in given.items() if isinstance(value, str)}
    objects = {key: value for key, value in given.items() if isinstance(value, dict)}
    return {"delta": None, "message": None} | texts | objects


def counts_of(chunk: Chunk) -> dict[str, Any] | None:
    """Return the usage that a chunk tells, wherever its server has it; None if it tells none."""
    if isinstance(chunk.usage, dict) and chunk.usage:
        return chunk.usage  # nearly always, and with some servers in every chunk
    inner = chunk.x_groq.get("usage") if isinstance(chunk.x_groq, dict) else None
    choices = (choice.usage for choice in chunk.choices or () if choice is not None)
    for counts in (*choices, inner):
        if isinstance(counts, dict) and counts:
            return counts
    timings = chunk.timings
    if not isinstance(timings, dict) or "predicted_n" not in timings:
        return None
    read, cached = timings.get("prompt_n"), timings.get("cache_n") or 0
    if type(read) is not int or type(cached) is not int:
        return None
    written = timings["predicted_n"]
    return {"prompt_tokens": read + cached, "completion_tokens": written, "cached_tokens": cached}


def place(choice: Choice) -> int:
    """Return the index of a choice; 0 where it says nothing that can be one."""
    return choice.index if type(choice.index) is int else 0


def reasoning_of(delta: Delta) -> tuple[str, str]:
    """Return the reasoning that a delta adds and its key, the first that has any: they repeat it.

    The key is empty where the text is part of what goes back anyway.
    """
    for key in TEXT_KEYS:
        text = _joined(getattr(delta, key), "text", "content", "summary")
        if text:
            return key, text
    for value in (delta.reasoning_details, delta.thinking_blocks):
        text = _joined(value, "text", "thinking", "content", "summary")
        if text:
            return "", text
    return IN_CONTENT, "".join(_of_kind(delta.content, "thinking", "reasoning"))


def holds_sealed(delta: Delta) -> bool:
    """Return whether a delta holds more than text, which is to go back."""
    return bool(
        delta.reasoning_details
        or delta.extra_content
        or delta.provider_specific_fields
        or delta.thinking_blocks
        or delta.reasoning_opaque
    )


def text_of(delta: Delta) -> str:
    """Return the text that a delta adds; of a list of parts, the text parts."""
    if isinstance(delta.content, str):
        return delta.content
    return "".join(_of_kind(delta.content, "text", "output_text"))


def response_of(chunk: Chunk) -> dict[str, Any]:
    """Return what a chunk says of the whole response."""
    response: dict[str, Any] = {}
    if isinstance(chunk.model, str) and chunk.model:
        response["model"] = chunk.model
    if type(chunk.created) is int and chunk.created > 0:
        response["created_at"] = chunk.created
    for key in ("service_tier", "system_fingerprint"):
        value = getattr(chunk, key)
        if isinstance(value, str):
            response[key] = value
    return response


def images_of(delta: Delta) -> Iterator[str]:
    """Yield the URLs of the images that a delta adds, beside its text or as parts of it."""
    for given in (delta.images, delta.content):
        for part in given if isinstance(given, list) else ():
            inner = part.get("image_url") if isinstance(part, dict) else None
            url = inner.get("url") if isinstance(inner, dict) else inner
            if isinstance(url, str) and url:
                yield url


def citations(delta: Delta) -> Iterator[dict[str, Any]]:
    """Yield the annotations of a delta in the form of the Responses API."""
    annotations = delta.annotations if isinstance(delta.annotations, list) else ()
    for one in annotations:
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


def _joined(value: object, *keys: str) -> str:
    """Return the text of a string, of an object under the first of these keys, or of a list."""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return "".join(_joined(one, *keys) for one in value)
    if isinstance(value, dict):
        return next(filter(None, (_joined(value.get(key), *keys) for key in keys)), "")
    return ""
