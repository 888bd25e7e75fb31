"""The table of D22: Chat Completions turned into Responses events, in bursts of 20."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench.measure import Case, main
from bench.pipeline import chunk, delta, opening, sse
from bench.token_path import BURST, replayed
from gateway.upstream.chat.stream import ChatConverter

if TYPE_CHECKING:
    from contextlib import AsyncExitStack

    from gateway.upstream.chat.chunks import Chunk

TITLE = f"D22, one event in bursts of {BURST}, splitter to frame"
_USAGE = {"prompt_tokens": 10, "completion_tokens": 20, "total_tokens": 30}


class _WithoutShortcut(ChatConverter):
    """Sends every chunk through the general path."""

    def _more(self, chunk: Chunk) -> str | None:  # noqa: ARG002
        return None


async def cases(_: AsyncExitStack) -> list[Case]:
    """Return the rows."""
    first = chunk({"role": "assistant", "content": "Once "})
    more = chunk({"content": "of the sea and the wind, "})
    thought = chunk({"role": "assistant", "reasoning_content": "They "})
    thinking = chunk({"reasoning_content": "want to hear of the sea, "})
    counted = chunk({"content": "of the sea and the wind, "}, usage=_USAGE)
    responses = b"".join(sse(event) for event in opening())
    return [
        replayed("openai, a text delta", responses, sse(delta()), BURST),
        replayed("chat, text, all in the general path", first, more, BURST, _WithoutShortcut),
        replayed("chat, text, as built", first, more, BURST, ChatConverter),
        replayed("chat, reasoning, as built", thought, thinking, BURST, ChatConverter),
        replayed("chat, text with usage in every chunk", first, counted, BURST, ChatConverter),
    ]


if __name__ == "__main__":
    main(TITLE, cases)
