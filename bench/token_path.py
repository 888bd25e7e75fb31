"""The token path as built: splitter, converter, run and outbox, for one delta.

Events come alone and in bursts of 20 a read, from `openai` and from `chat`. Run it before and after
a change of the token path: `python -m bench.compare` does so (bench/README.md).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench.measure import Case, main, stepping
from bench.pipeline import Replayed, chunk, delta, opening, sse
from gateway.upstream.chat.stream import ChatConverter

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AsyncExitStack

TITLE = "Token path, splitter to frame"
BURST = 20


def replayed(
    name: str,
    opened: bytes,
    event: bytes,
    burst: int,
    converter: Callable[[], ChatConverter] | None = None,
) -> Case:
    """Return the case of one event repeated in reads of `burst`.

    Args:
        name: The row's name.
        opened: The bytes before the first measured read.
        event: The event as SSE.
        burst: How many events one read has.
        converter: Makes the converter, None for the Responses API.
    """
    source = Replayed(opened, event * burst, converter)
    return stepping(name, source.step, burst, source.fresh)


async def cases(_: AsyncExitStack) -> list[Case]:
    """Return the rows."""
    responses = b"".join(sse(event) for event in opening())
    text = sse(delta())
    first = chunk({"role": "assistant", "content": "Once "})
    more = chunk({"content": "of the sea and the wind, "})
    return [
        replayed("openai, alone", responses, text, 1),
        replayed(f"openai, bursts of {BURST}", responses, text, BURST),
        replayed("chat, alone", first, more, 1, ChatConverter),
        replayed(f"chat, bursts of {BURST}", first, more, BURST, ChatConverter),
    ]


if __name__ == "__main__":
    main(TITLE, cases)
