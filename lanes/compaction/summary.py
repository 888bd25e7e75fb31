"""The summary of a conversation: how a backend is asked for one, and what it answers."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from lanes.codec import decode, encode
from lanes.compaction.prompt import SHORTENED, SUMMARY_LENGTH, SUMMARY_PROMPT
from lanes.errors import UpstreamFault
from lanes.events import new_id
from lanes.stream.backend_errors import failure
from lanes.stream.room import OutputBounds, Room
from lanes.stream.run import Run
from lanes.stream.run_states import KEPT, STREAMING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lanes.ports import Event
    from lanes.stream.profile import Profile

#: Bytes that the answer may have, its reasoning included.
_MAX_ANSWER: Final = 1 << 20
#: How an event with a piece of the summary begins.
_DELTA: Final = b'{"type":"response.output_text.delta"'
#: What is asked of the answer itself, and says nothing about a summary.
_OF_THE_ANSWER: Final = frozenset(
    {"context_management", "include", "input", "max_output_tokens", "max_tool_calls", "metadata"}
    | {"moderation", "prompt", "stream_options", "text", "tool_choice", "top_logprobs"}
    | {"truncation", "background", "previous_response_id", "n", "stop", "logprobs"}
)


def summary_body(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of the request for a summary.

    Model, instructions and tools stay, so that the backend reads from its cache what it has read
    already; it may not call the tools.
    """
    asked = {key: value for key, value in body.items() if key not in _OF_THE_ANSWER}
    return {**asked, "tool_choice": "none"} if body.get("tools") else asked


def summary_request(words: int | None = None) -> bytes:
    """Return the message that asks for the summary of all before it, of so many words at most."""
    texts = [SUMMARY_PROMPT, *(() if words is None else [SUMMARY_LENGTH.format(words=words)])]
    parts = [{"type": "input_text", "text": text} for text in texts]
    return encode({"type": "message", "role": "user", "content": parts})


@dataclass(frozen=True, slots=True)
class Summary:
    """What a backend wrote.

    Attributes:
        text: The summary.
        usage: The tokens it took, if the backend counted them.
    """

    text: str
    usage: dict[str, Any] | None


class NoSummary(UpstreamFault):
    """A backend answered, and wrote nothing."""

    def __init__(self) -> None:
        message = "The backend wrote no summary of the conversation."
        super().__init__(message, code="server_error", status=502, type="server_error")


class SummaryReader:
    """Reads the answer to a request for a summary, by the rules of any other response.

    Args:
        body: The settings of the request.
        profile: How far the backend's stream can be trusted.
        most: Bytes that the summary may have. One that gets twice as long is not read on; the model
            was told, and its limit of tokens would count its reasoning.
    """

    def __init__(self, body: Mapping[str, Any], profile: Profile, most: int) -> None:
        room = Room(OutputBounds(_MAX_ANSWER))
        self._text = _TextLength()  # not of this class: the run would hold what holds it (D13)
        take = self._text.take
        self._run = Run("summary", body, profile, take, mint=new_id, clock=time.time, room=room)
        self._most = most

    @property
    def over(self) -> bool:
        """Whether the answer has ended."""
        return self._run.over

    @property
    def begun(self) -> bool:
        """Whether the backend has begun to answer."""
        return self._run.state in STREAMING or self._run.state in KEPT

    def receive(self, events: Sequence[Event]) -> None:
        """Take events of the answer."""
        for name, data in events:
            self._run.receive(name, data)
        if self._text.length > 2 * self._most:
            self._run.cancel()

    def summary(self) -> Summary:
        """Return what was written, at the end. Raises UpstreamFault if that is no summary."""
        run = self._run
        run.end()
        if run.fault is not None:
            raise run.fault
        final = decode(run.final)
        if run.state not in KEPT:
            raise failure(final["error"])
        text = "".join(_texts(final["output"])).strip()
        if not text:
            raise NoSummary
        return Summary(self._shortened(text), final["usage"])

    def _shortened(self, text: str) -> str:
        data = text.encode()
        if len(data) <= self._most:
            return text
        return data[: self._most].decode(errors="ignore") + SHORTENED


class _TextLength:
    """Counts the text of an answer's events, which no client sees."""

    def __init__(self) -> None:
        self.length = 0

    def take(self, *pieces: bytes) -> None:
        """Count the text of one event."""
        event = b"".join(pieces)
        if event.startswith(_DELTA):
            self.length += len(event) - event.find(b'"delta":')


def _texts(output: list[dict[str, Any]]) -> list[str]:
    messages = (item for item in output if item["type"] == "message")
    parts = (part for message in messages for part in message["content"])
    return [part["text"] for part in parts if part["type"] == "output_text"]
