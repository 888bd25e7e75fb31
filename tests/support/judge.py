"""Judges what the gateway sends: the SDK's own types in strict mode, then the order of events.

`validate` looks at one event. `StreamJudge` follows a whole connection: every lane, every response
in it. Both raise AssertionError and show the offending event.
"""

from __future__ import annotations

import functools
import json
import re
from typing import TYPE_CHECKING, Any, get_args

from openai.types.responses.responses_server_event import ResponsesServerEvent
from pydantic import ValidationError

from tests.support.judge_item import Event, claim
from tests.support.judge_response import TERMINALS, ResponseJudge
from tests.support.judge_steer import SteerJudge

if TYPE_CHECKING:
    from pydantic import BaseModel

_LANE = re.compile(r"[A-Za-z0-9_.-]{1,256}")
_HEADER = re.compile(r"retry-after|retry-after-ms|x-request-id|x-ratelimit-.*")
_ERROR_FIELDS = {"type", "code", "message", "param"}
#: Why a response ends that has as much output as it may have, or was cancelled; and the SDK's next
#: of kin.
_OURS = ({"reason": "max_output_bytes"}, {"reason": "cancelled"})
_LIKE_OURS = {"reason": "max_output_tokens"}


@functools.cache
def _models() -> dict[str, type[BaseModel]]:
    """The SDK's union, by event type: pydantic is asked for the one model that can fit."""
    members = get_args(get_args(ResponsesServerEvent)[0])
    return {get_args(m.model_fields["type"].annotation)[0]: m for m in members}


def validate(event: Event) -> None:
    """One server event by itself. Event types newer than the SDK only need their envelope."""
    kind = event.get("type")
    claim(isinstance(kind, str), "type is missing", event)
    if "stream_id" in event:
        lane = event["stream_id"]
        claim(isinstance(lane, str) and bool(_LANE.fullmatch(lane)), "not a lane's name", event)
    model = _models().get(str(kind))
    if model is None:
        claim(str(kind).startswith("response."), "neither a response event nor an error", event)
    else:
        try:
            model.model_validate(_typed(event), strict=True)
        except ValidationError as error:
            raise AssertionError(f"{error}\n{json.dumps(event, ensure_ascii=False)}") from None
    if kind == "error":
        _validate_error(event)
        return
    number = event.get("sequence_number")
    claim(type(number) is int and number >= 0, "sequence_number is missing", event)
    # Official clients take any event with a truthy `error` for a failed request.
    stray = event.get("error") and kind != "response.steer.failed"
    claim(not stray, "only an error event has an `error`", event)


def _typed(event: Event) -> Event:
    """The event in the SDK's types: what is ours alone is replaced by the next of kin.

    These are two reasons of an incomplete response, and the input of a failed steer, which comes
    back as it was given.
    """
    response = event.get("response")
    if isinstance(response, dict) and response.get("incomplete_details") in _OURS:
        return {**event, "response": {**response, "incomplete_details": _LIKE_OURS}}
    if event.get("type") != "response.steer.failed" or "input" not in event.get("steer", {}):
        return event
    value = event["steer"]["input"]
    if event["error"]["code"] == "invalid_input":
        value = ""
    elif isinstance(value, list):
        value = [{"type": "message", **message} for message in value]
    return {**event, "steer": {**event["steer"], "input": value}}


def _validate_error(event: Event) -> None:
    """The shape of protocol.md 6, which is narrower than the SDK's type."""
    error = event["error"]
    claim(event.keys() - {"stream_id"} == {"type", "status", "error"}, "stray keys", event)
    claim(type(event["status"]) is int and 400 <= event["status"] < 600, "not a status", event)
    claim(error.keys() - {"headers"} == _ERROR_FIELDS, "an error has four fields", event)
    claim(bool(error["message"]) and bool(error["type"]), "an empty message or type", event)
    if "headers" in error:
        names = list(error["headers"])
        claim(all(_HEADER.fullmatch(name) for name in names), "headers beyond the list", event)


class StreamJudge:
    """Follows one connection. `responses` keeps each response that was created, by its id."""

    def __init__(self) -> None:
        self.responses: dict[str, ResponseJudge] = {}
        self.errors: list[Event] = []
        self.steers = SteerJudge()
        self._running: dict[str | None, ResponseJudge] = {}

    def receive(self, event: Event) -> None:
        validate(event)
        kind: str = event["type"]
        if kind == "error":
            self.errors.append(event)
        elif kind.startswith("response.steer."):
            self._steer(event)
        else:
            self._response(event)

    def _response(self, event: Event) -> None:
        lane = event.get("stream_id")
        running = self._running.get(lane)
        if event["type"] == "response.created" and running is None:
            running = ResponseJudge(event)
            claim(running.id not in self.responses, "this id was used before", event)
            self.responses[running.id] = self._running[lane] = running
            parent = self.responses.get(running.first["previous_response_id"])
            if parent is not None and parent.lane == running.lane:
                self.steers.created(event)
        claim(running is not None, "no response runs on this lane", event)
        assert running is not None
        running.receive(event)
        if event["type"] in TERMINALS:
            del self._running[lane]
            self.steers.ended(event)

    def _steer(self, event: Event) -> None:
        """A steer's event counts in the response it is for; one for nobody has number 0."""
        target = self.responses.get(event["steer"]["previous_response_id"])
        if target is not None:
            target.receive(event)
        else:
            claim(event["sequence_number"] == 0, "number 0 where there is no response", event)
            claim("stream_id" not in event, "no lane where there is no response", event)
        effective = event["steer"].get("effective_response_id")
        if effective is not None:
            taken = self.responses.get(effective)
            claim(event["type"] == "response.steer.accepted", "only there", event)
            claim(taken is not None and taken.lane == event.get("stream_id"), "unknown", event)
        self.steers.receive(event, target)

    def finish(self) -> None:
        """At the end of a conversation nothing runs any more."""
        if self._running:
            raise AssertionError(f"no terminal event on {sorted(map(str, self._running))}")


def judge(events: list[Event]) -> dict[str, Any]:
    """Judge a whole transcript and return the terminal snapshots by response id."""
    stream = StreamJudge()
    for event in events:
        stream.receive(event)
    stream.finish()
    return {rid: response.terminal for rid, response in stream.responses.items()}
