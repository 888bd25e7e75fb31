"""Fuzzers of what reads bytes without a connection: frames, settings, errors, streams."""

from __future__ import annotations

import copy
import re
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from gateway.client.frames import FrameRefusal, read
from gateway.config.configured_upstreams import default_model, upstreams
from gateway.config.loading import BadStart, load
from gateway.upstream.detection.rules import endpoint_status, ids_in_answer, listed_models
from gateway.upstream.dialect import dialect_names, find
from gateway.upstream.model_list import parse_models
from gateway.upstream.transport.faults import answer_fault
from gateway.upstream.transport.http.client import FetchedAnswer
from lanes.codec import decode, encode
from lanes.errors import UpstreamFault
from lanes.events import error_event
from lanes.frames import Create
from lanes.stream.backend_errors import reported_fault, response_error
from steering.errors import SteerFault
from steering.frames import Steer
from tests.dialects.chatting import hear
from tests.machines.drive import Played
from tests.machines.test_run_any import follow
from tests.support.dialect_reading import chunks, dialect_of, received
from tests.support.dialect_reading import read as read_stream
from tests.support.judge import validate

if TYPE_CHECKING:
    from gateway.config.settings import Settings
    from tests.machines.drive import Event

#: The dialects of which an answer is read as it comes.
DIALECTS: Final = tuple(name for name in dialect_names() if find(name).converter is None)


#: The items whose values the gateway makes fit the official types, and the events about them;
#: others pass as they came (protocol.md 4).
_ITEMS: Final = frozenset({"message", "reasoning", "function_call", "custom_tool_call"})
_EVENTS: Final = re.compile(
    r"error|response\.(created|in_progress|completed|incomplete|failed|output_item\..*|"
    r"(content_part|reasoning_summary_part)\.(added|done)|"
    r"(output_text|refusal|reasoning_text|reasoning_summary_text|function_call_arguments|"
    r"custom_tool_call_input)\.(delta|done))"
)


def _is_known(part: object) -> bool:
    return not isinstance(part, dict) or part.get("type") in ("output_text", "refusal")


def _without_unknown_parts(event: Event) -> Event:
    """Return an event without the parts of a message that are of types unknown to the gateway.

    No event announces them: they pass at the end of their item.
    """
    event = copy.deepcopy(event)
    for item in (event.get("item"), *event.get("response", {}).get("output", ())):
        if isinstance(item, dict) and item.get("type") == "message":
            parts = item.get("content")
            if isinstance(parts, list):
                item["content"] = [one for one in parts if _is_known(one)]
    return event


def _judge(played: Played) -> None:
    """Judge the order of a stream, and the official types of what the gateway answers for."""
    known = [_without_unknown_parts(event) for event in played.events]
    follow(Played(played.run, known))
    for event in known:
        items = [event.get("item"), *event.get("response", {}).get("output", ())]
        types = {item.get("type") for item in items if isinstance(item, dict)}
        if types <= _ITEMS and _EVENTS.fullmatch(event["type"]):
            validate(event)


def frames(data: bytes) -> None:
    """A frame is a create, a steer, a cancel or one error, and what goes upstream is JSON."""
    for model in (None, "m"):
        heard = read(data, model)
        if isinstance(heard, FrameRefusal):
            validate(decode(error_event(heard.fault, heard.stream_id)))
        elif isinstance(heard, Steer):
            with suppress(SteerFault):
                encode(heard.messages())
        elif isinstance(heard, Create):
            assert decode(encode(heard.body)) is not None
            assert isinstance(heard.body["model"], str)


def settings(data: bytes) -> None:
    """A settings file is read, or refused in one line."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "multilane.toml")
        path.write_bytes(data)
        loaded = _load(path)
    if loaded is None:
        return
    if loaded.upstream is not None or loaded.upstreams:
        assert upstreams(loaded)
    default_model(loaded)


def _load(path: Path) -> Settings | None:
    try:
        return load(config=path)
    except BadStart as bad:
        refusal = str(bad)
    assert refusal
    assert "\n" not in refusal
    return None


def errors(data: bytes) -> None:
    """A backend's refusal becomes an `error` event of the reference's form, bounded."""
    head, _, body = data.partition(b"\n\n")
    first, *lines = head.decode("latin-1").split("\n")
    status = int(first) if first.isdecimal() and len(first) == 3 else 503
    pairs = (line.partition(":") for line in lines)
    headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
    fault = answer_fault(status, headers, body)
    event = error_event(fault, None)
    assert len(event) < 100_000
    validate(decode(event))
    with suppress(UpstreamFault):
        endpoint_status(status, headers, body)
    listed_models(body)
    ids_in_answer(body)
    with suppress(UpstreamFault):
        assert all(isinstance(created, int) for created in parse_models(
            FetchedAnswer(status, headers, body)
        ).values())  # fmt: skip
    with suppress(ValueError):
        value = decode(body)
        if isinstance(value, dict):
            reported = reported_fault(value)
            validate(decode(error_event(reported, None)))
            encode(response_error(reported))


def streams(data: bytes) -> None:
    """An answer in any dialect, at any chunking, is one strict stream."""
    which, size, cut = (*data[:3], 0, 1, 0)[:3]
    dialect = dialect_of(DIALECTS[which % len(DIALECTS)])
    try:
        events = received(chunks(data[3:], size or 1), cut=cut % 2 == 1)
    except UpstreamFault:
        return
    assert received([data[3:]], cut=cut % 2 == 1) == events
    played = read_stream(chunks(data[3:], size or 1), dialect.profile, cut=cut % 2 == 1)
    _judge(played)
    played.run.entries()


def chat(data: bytes) -> None:
    """An answer of Chat Completions, at any chunking, is one strict stream."""
    size, cut = (*data[:2], 1, 0)[:2]
    played = hear(chunks(data[2:], size or 1), cut=cut % 2 == 1)
    _judge(played)
    assert hear([data[2:]], cut=cut % 2 == 1).events == played.events
