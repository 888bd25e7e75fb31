"""The states of a connection over plain HTTP. Pure."""

from __future__ import annotations

from enum import Enum


class Stage(Enum):
    """What a connection waits for."""

    HEAD = "the head of a request"
    BODY = "the rest of its body"
    ANSWER = "the answer to a request that is whole"
    OVER = "the client's end, after the last answer; what still comes is discarded"
