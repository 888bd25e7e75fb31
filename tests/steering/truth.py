"""What must be true of the steers of one connection, told from what its client and backend saw."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tests.steering.backend import texts_of
from tests.support.judge_response import TERMINALS
from tests.support.judge_steer import Fate

if TYPE_CHECKING:
    from tests.steering.stage import Event, Stage
    from tests.support.judge_steer import JudgedSteer

_OVER = {"response_not_active", "response_already_completed"}
_CALLS = {"function_call", "custom_tool_call"}


@dataclass
class Told:
    """One response.steer that was sent; `in_time`: its response was running still, a turn later.

    `again` counts how often it was sent again and was not answered yet.
    """

    text: str
    target: str
    value: Any
    event_id: str | None = None
    in_time: bool = False
    id: str | None = None
    verdict: str | None = None
    again: int = 0


@dataclass
class Truth:
    """Checks every event as it comes; `settle` checks what is left at the end."""

    stage: Stage
    sent: list[Told] = field(default_factory=list)
    #: Own texts of creates, by lane, in order of arrival, with the parents they name.
    asked: dict[str | None, list[tuple[str, str | None]]] = field(default_factory=dict)
    #: What a child of a response builds on.
    lines: dict[str, list[str]] = field(default_factory=dict)
    lanes: dict[str, str | None] = field(default_factory=dict)
    #: Lane -> the response that stopped or ended there, and is to be followed by itself.
    followed: dict[str | None, str] = field(default_factory=dict)
    #: Responses that wait for the client; in order, as plays must come out the same each time.
    owing: dict[str, None] = field(default_factory=dict)
    #: Responses that were cancelled; all their steers come back.
    cancelled: set[str] = field(default_factory=set)
    #: Lanes of which all was cancelled once, or may have been.
    cancels: set[str | None] = field(default_factory=set)
    #: Responses that were cancelled before the backend began them.
    stillborn: set[str] = field(default_factory=set)
    #: Response -> the one that carries its steers.
    next: dict[str, str] = field(default_factory=dict)
    #: Responses that are over, and how.
    over: dict[str, str] = field(default_factory=dict)
    drained: bool = False
    #: The steers that the client was told are pending.
    pended: set[str] = field(default_factory=set)
    #: The create that is on its way to the gateway, which may speak first.
    unread: str | None = None

    @property
    def running(self) -> list[str]:
        """Responses that have begun and not ended."""
        return [r.id for r in self.stage.judge.responses.values() if r.terminal is None]

    @property
    def steered(self) -> list[str]:
        """Responses that were steered, and are over."""
        return [*self.next, *self.followed.values()]

    def live(self, name: str) -> str:
        """The newest response of the chain that grew from this one by steering."""
        while name in self.next:
            name = self.next[name]
        return name

    def hear(self, event: Event) -> None:
        kind, lane = event["type"], event.get("stream_id")
        if kind == "response.created":
            self._created(event["response"], lane)
        elif kind in TERMINALS:
            self._ended(event["response"], lane)
        elif kind == "response.steer.accepted":
            self._accepted(event)
        elif kind == "response.steer.failed":
            self._failed(event, lane)
        elif kind == "response.steer.pending":
            self._pending(event, lane)
        elif kind == "error":
            # What waits is refused at once when the gateway stops; the first may have started.
            code = event["error"]["code"]
            self.asked[lane].pop(-1 if code == "server_shutting_down" else 0)
            assert code != "cancelled" or lane in self.cancels, "cancelled, but by nobody"

    def _created(self, response: Event, lane: str | None) -> None:
        name, parent = response["id"], response["previous_response_id"]
        body = None if name in self.stillborn else self.stage.backend.begun(lane)
        self.lanes[name] = lane
        steers = [s for s in self._steers() if s.successor == name]
        if steers and parent is not None:
            self.next[parent] = name
        expected = [*self.lines.get(parent, []), *(self._text(s) for s in steers)]
        if lane in self.followed:
            assert self.followed.pop(lane) == parent, "something else came before the successor"
        else:
            text, names = self.asked[lane].pop(0)
            assert names == parent, "a lane is not first in, first out"
            expected.append(text)
        texts = expected if body is None else body.texts
        assert texts == expected, (texts, expected)
        assert len(set(texts)) == len(texts), "something was said twice"
        self.lines[name] = expected

    def _ended(self, response: Event, lane: str | None) -> None:
        name = response["id"]
        self.over[name] = response["status"]
        self.lines[name] = self.lines[name] + texts_of(response["output"])
        details = response["incomplete_details"] or {}
        calls = [item for item in response["output"] if item["type"] in _CALLS]
        owes = any(item.get("status") != "incomplete" for item in calls)
        assert not (owes and details.get("reason") == "steered"), "cut with a finished call in it"
        if response["status"] == "failed":
            del self.lines[name]
        elif details.get("reason") == "cancelled":
            self.cancelled.add(name)
        elif owes:
            self.owing[name] = None
        elif self._queued(name):
            self.followed[lane] = name

    def _accepted(self, event: Event) -> None:
        steer = event["steer"]
        record = self.stage.store.written(steer["id"])
        assert record is not None, "accepted, but not written"
        [told] = [t for t in self.sent if _json(t.value) == record.input]
        assert (told.target, told.event_id) == (record.target, record.event_id)
        if told.id is not None or told.verdict is not None:
            assert told.again > 0, "accepted twice"
            told.again -= 1
        if told.id is not None:
            assert told.id == steer["id"], "sent again, and counted twice"
            return
        unheard = [t for t in self.sent if t.target == told.target and not t.id]
        first = next((t for t in unheard if t.verdict is None), None)
        assert told.again or told.verdict or told is first, "not in order"
        others = [t for t in self.sent if told.event_id and t.event_id == told.event_id]
        assert not any(t.id for t in others if t is not told), "a key that is taken"
        told.id, told.verdict = steer["id"], None
        lane = event.get("stream_id")
        live = self.live(told.target)
        assert steer.get("effective_response_id", live) == live, "not the live end"
        assert ("effective_response_id" in steer) <= (live != told.target)
        if live in self.over and live not in self.owing:
            self.followed.setdefault(lane, live)  # its record was waited for

    def _failed(self, event: Event, lane: str | None) -> None:
        steer, code = event["steer"], event["error"]["code"]
        [told] = [t for t in self.sent if t.value == steer["input"]]
        target = self._target(told)
        assert target == steer["previous_response_id"]
        if told.id is None and told.verdict is not None:
            assert told.again > 0, "two verdicts"
            told.again, told.in_time = told.again - 1, False
        elif told.verdict is not None:
            assert told.event_id, "two verdicts"
            assert told.verdict == code
            return
        if code == "invalid_input":
            same = [t for t in self.sent if t.event_id and t.event_id == told.event_id]
            assert len(same) > 1, "its own key"
        assert told.id in (None, steer.get("id"))
        told.verdict = code
        live = self.live(told.target)
        if told.id is None and code in _OVER and not self.drained:
            assert live in self.over, "refused, but it runs"
            assert self.followed.get(lane) != live, "refused, but it has a successor"
            done = self.over[live] == "completed" and live not in self.owing
            assert done or code != "response_already_completed"
            lost = self.over[live] == "failed" or live in self.cancelled
            assert lost or not told.in_time, "refused, but it came in time"
        if told.id is not None:
            assert code == "successor_creation_failed"
        if told.id is not None and self.followed.get(lane) in (target, live):
            requests = [b for b in self.stage.backend.bodies if b.lane == lane]
            tried = any(told.text in body.texts for body in requests)
            given_up = self.drained or lane in self.cancels
            assert given_up or tried, "no successor was asked for"
            if not self._queued(target) and not self._queued(live):
                del self.followed[lane]

    def _pending(self, event: Event, lane: str | None) -> None:
        target = event["steer"]["previous_response_id"]
        assert target in self.owing
        if event["steer"]["id"] in self.pended:
            return  # told again
        self.pended.add(event["steer"]["id"])
        asked = self.asked.get(lane, ())
        waiting = [parent for text, parent in asked if text != self.unread]
        assert target not in waiting, "pending, though the client's create is here"

    def check(self) -> None:
        """After every play: whoever can be stopped for a steer has been."""
        for body in self.stage.backend.live:
            names = [n for n in self.running if self.lanes[n] == body.lane]
            assert names or not body.began or body.sink is None, "nobody listens, and it runs"
            if names and body.ours and body.safe and body.answered.done():
                assert not self._queued(names[0]), "not stopped at a safe boundary"
        for name in self.owing:
            parents = [parent for _, parent in self.asked.get(self.lanes[name], ())]
            told = [s.fate is Fate.PENDING for s in self._queued(name)]
            unheard = [
                t for t in self.sent if self.live(t.target) == name and not (t.id or t.verdict)
            ]
            heard = name in parents or unheard or all(told) or self.drained
            assert heard, "nobody told the client that it is waited for"
        active = len(self.stage.backend.live)
        idle = [lane for lane in self.followed if self.stage.backend.on(lane).live is False]
        assert active + (0 if self.drained else len(idle)) <= 2, "a successor lost its slot"

        for name in self.cancelled:
            assert not self._queued(name), "cancelled, and its steers did not come back"

    def settle(self, *, left: bool) -> None:
        """All is over and answered; with `left`, the client is gone and the books are closed."""
        assert left or not any(self.asked.values()), "a create without an answer"
        for told in self.sent:
            fate = self._fate(told)
            if not left:
                assert told.again == 0, "sent again, and not answered"
                assert fate is not None or self._waits(told), f"no verdict on {told}"
                continue
            record = self.stage.store.written(told.id) if told.id else None
            if told.id is None:
                continue
            assert record is not None
            assert record.state == (fate or "dropped"), (record, fate)
            steer = self.stage.judge.steers.steers[told.id]
            if fate is Fate.COMMITTED:
                assert record.successor == steer.successor
            known = None if steer.target == told.target else steer.target
            assert record.target == told.target
            # The live end may end between its record and its acceptance.
            passed = known is None and record.effective in self.next.values()
            assert record.effective == known or passed
            for name in {told.target, steer.target}:
                listed = self.stage.store._listed(name)
                assert told.id in [one for ids in listed.values() for one in ids], "not listed"
        if left:
            states = {r.state for rs in self.stage.store._records.values() for r in rs.values()}
            assert states <= {"committed", "failed", "dropped"}, states

    def _fate(self, told: Told) -> Fate | None:
        steer = self.stage.judge.steers.steers.get(told.id or "")
        if steer is None:
            return Fate.FAILED if told.verdict is not None else None
        return steer.fate if steer.fate in (Fate.COMMITTED, Fate.FAILED) else None

    def _waits(self, told: Told) -> bool:
        return told.id is not None and self._target(told) in self.owing

    def _target(self, told: Told) -> str:
        """The response for which a steer was taken, as far as the client knows."""
        steer = self.stage.judge.steers.steers.get(told.id or "")
        return told.target if steer is None else steer.target

    def _steers(self) -> list[JudgedSteer]:
        return list(self.stage.judge.steers.steers.values())

    def _queued(self, target: str) -> list[JudgedSteer]:
        return self.stage.judge.steers.queued(target)

    def _text(self, steer: JudgedSteer) -> str:
        return next(told.text for told in self.sent if told.id == steer.id)


def stillborn(events: list[Event]) -> set[str]:
    """The responses of these events that were cancelled as they began."""
    last: dict[str, str] = {}
    found = set()
    for event in events:
        response = event.get("response")
        if response is None:
            continue
        ends = event["type"] == "response.incomplete" and not response["output"]
        if ends and last.get(response["id"]) == "response.in_progress":
            found.add(response["id"])
        last[response["id"]] = event["type"]
    return found


def _json(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()
