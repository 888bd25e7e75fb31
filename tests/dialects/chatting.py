"""Chunks of Chat Completions, and what the gateway makes of them: the converter and a run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gateway.dialects.chat import DIALECT
from gateway.upstream.transport.http.sse import SseSplitter
from lanes.codec import encode
from tests.machines.drive import REQUEST, Played, start
from tests.support.dialect_reading import LIMIT

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lanes.history.makers import Maker
    from lanes.stream.profile import Profile

Chunk = dict[str, Any]

HEAD = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1790000000, "model": "q"}
USAGE = {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}
DONE = b"data: [DONE]\n\n"


def chunk(finish: Any = None, /, **delta: Any) -> Chunk:
    """One chunk with that delta."""
    return {**HEAD, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}


def text(*pieces: str) -> list[Chunk]:
    return [chunk(content=piece) for piece in pieces]


def call(index: object, name: str | None = None, arguments: Any = "", id: Any = None) -> Chunk:
    """One chunk with one piece of a call; what is None is left out."""
    entry = {"index": index, "id": id}
    function = {"name": name, "arguments": arguments}
    made = {key: value for key, value in entry.items() if value is not None}
    made["function"] = {key: value for key, value in function.items() if value is not None}
    return chunk(tool_calls=[made])


def counted(**extra: Any) -> Chunk:
    """The chunk that only tells the usage."""
    return {**HEAD, "choices": [], "usage": USAGE, **extra}


def body(chunks: Iterable[Chunk | bytes], *, done: bool = True) -> bytes:
    """A body of these chunks; bytes are taken as they are."""
    events = (one if isinstance(one, bytes) else b"data: %b\n\n" % encode(one) for one in chunks)
    return b"".join(events) + (DONE if done else b"")


def hear(
    reads: Iterable[bytes],
    request: dict[str, Any] = REQUEST,
    *,
    cut: bool = False,
    steer_after: int | None = None,
    maker: Maker | None = None,
    profile: Profile = DIALECT.profile,
) -> Played:
    """Play the reads of one body of `maker`. `cut`: it broke off, perhaps within an event.

    `steer_after` so many events sent, the run is told to stop.
    """
    converter, splitter = DIALECT.reader(request, maker, profile), SseSplitter(LIMIT)
    assert converter is not None
    run, sent = start(request, profile)
    for data in reads:
        for name, value in converter.feed(splitter.feed(data)):
            run.receive(name, value)
            if steer_after is not None and len(sent) >= steer_after:
                run.cut()
    last = [] if cut else converter.feed(splitter.finish())
    for name, value in [*last, *converter.finish()]:
        run.receive(name, value)
    run.end()
    return Played(run, sent)


def played(*chunks: Chunk | bytes, done: bool = True, **request: Any) -> Played:
    """Play a whole body of these chunks."""
    return hear([body(chunks, done=done)], {**REQUEST, **request})


def whole(*chunks: Chunk, finish: str = "stop", **request: Any) -> Played:
    """Play an answer of these chunks that ends as it should."""
    return played(*chunks, chunk(finish), counted(), **request)


def described(item: dict[str, Any]) -> str:
    """The text of an item, its type before it."""
    parts = [*item.get("summary", ()), *item.get("content", ())]
    texts = [part.get("text", part.get("refusal")) for part in parts]
    call = [item[key] for key in ("name", "arguments", "input") if key in item]
    return " ".join([item["type"], "".join(texts), *call]).strip()


def outcome(played: Played) -> list[str]:
    """How it ended, and what was said."""
    return [played.terminal["status"], *map(described, played.output)]
