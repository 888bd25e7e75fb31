"""What servers and the proxies before them send between events, and what carries nothing."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

#: Types of events that no API has for a part of an answer.
_WORDS = (
    "ping",
    "heartbeat",
    "keepalive",
    "keep-alive",
    "keep_alive",
    "open",
    "OPENROUTER PROCESSING",
)
_EMPTY: list[Any] = [None, {}, [], "", 0]
_BLANK: list[Any] = [None, "", 0, 1, True, False, [], {}, [None], [[]], [{}], "ping"]

#: Objects that are no event: pings in JSON, and events of unknown types.
OBJECTS: SearchStrategy[Any] = st.one_of(
    st.just({}),
    st.builds(lambda key, word: {key: word}, st.sampled_from(["type", "object", "event"]),
              st.sampled_from(_WORDS)),
    st.builds(lambda word, number: {"type": word, "timestamp": number}, st.sampled_from(_WORDS),
              st.integers(0, 2**53)),
    st.builds(lambda value: {"type": "x.unknown", "data": value}, st.sampled_from(_BLANK)),
)  # fmt: skip
#: Chunks of Chat Completions without anything in them.
CHUNKS: SearchStrategy[Any] = st.builds(
    lambda choices, extra: {"id": "c", "object": "chat.completion.chunk", **choices, **extra},
    st.sampled_from(
        [
            *({}, {"choices": []}, {"choices": None}, {"choices": [None]}, {"choices": {}}),
            *({"choices": ""}, {"choices": [[]]}, {"choices": [{}]}),
            {"choices": [{"index": 0}]},
            *({"choices": [{"index": 0, "delta": delta}]} for delta in _EMPTY),
            {"choices": [{"index": 0, "delta": {"role": "assistant", "content": None}}]},
            {"choices": [{"index": 0, "delta": {"content": ""}, "finish_reason": None}]},
            {"choices": [{"index": 0, "delta": {"tool_calls": []}, "finish_reason": ""}]},
            {"choices": [{"index": 0, "delta": {"tool_calls": None, "reasoning": None}}]},
        ]
    ),
    st.sampled_from(
        [
            *({}, {"usage": None}, {"model": ""}, {"error": None}, {"created": 0}),
            {"prompt_filter_results": [{"prompt_index": 0, "content_filter_results": {}}]},
            {"obfuscation": "abc"},
        ]
    ),
)


def texts(objects: SearchStrategy[Any]) -> SearchStrategy[bytes]:
    """The data of events that carry nothing: these objects, blank values, words."""
    return st.one_of(
        objects.map(lambda value: json.dumps(value).encode()),
        st.sampled_from([json.dumps(value).encode() for value in _BLANK]),
        st.sampled_from([word.encode() for word in _WORDS]),
        st.text(st.characters(blacklist_characters="{[", codec="utf-8"), max_size=6)
        .map(lambda text: " ".join(text.split()).encode())
        .filter(lambda text: text not in (b"data", b"event")),
    )


def lines(objects: SearchStrategy[Any]) -> SearchStrategy[bytes]:
    """Whole lines between events that carry nothing, each block with its blank line."""
    fields = st.sampled_from([b"", b"", b"event: ping\n", b"id: 7\n", b"retry: 10\n", b": hi\n"])
    return st.one_of(
        st.sampled_from([b":\n\n", b": OPENROUTER PROCESSING\n\n", b": ping\n", b"\n", b"\n\n"]),
        st.sampled_from([b"data\n\n", b"data:\n\n", b"data: \n\n", b"event: ping\ndata:\n\n"]),
        st.builds(lambda head, space, text: head + b"data:" + space + text + b"\n\n",
                  fields, st.sampled_from([b"", b" ", b"  "]), texts(objects)),
    )  # fmt: skip
