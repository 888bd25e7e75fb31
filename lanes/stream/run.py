"""MACHINE: one response, from the first upstream event to exactly one terminal event.

It takes the backend's events as they come and emits the strict stream of protocol.md 4. It opens no
socket and knows no lane: `emit` gets each event's JSON without its closing brace, to be numbered.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lanes.codec import check_depth, encode
from lanes.errors import Fault, IllegalTransition, UpstreamFault
from lanes.stream.backend_errors import reported_fault, response_error
from lanes.stream.endings import verdict
from lanes.stream.item_index import replayed
from lanes.stream.output import Output
from lanes.stream.parts import COLLECTED, FLAT, GROWTH
from lanes.stream.passthrough import BEGINNINGS, TERMINALS, UpstreamNumbers, split_response
from lanes.stream.room import Room
from lanes.stream.run_states import LIVE, STOPPED, STREAMING, TRANSITIONS, RunState, RunStep
from lanes.stream.snapshots import Asked, Snapshots
from lanes.stream.token_usage import usage
from lanes.stream.upstream_events import DONE, ERROR, meanings, read_event, unreadable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from lanes.history.entries import Entry
    from lanes.stream.parts import Emit
    from lanes.stream.profile import Profile


class Run:
    """One response in the making.

    `fault` says why it was refused before `response.created`; `failure`, why a backend failed it.

    Args:
        response_id: The id that the client gets.
        request: The body of the create.
        profile: Holds until `trust` names that of the backend which answers.
        emit: Takes each event for the client.
        mint: Makes an id from a prefix.
        clock: Returns the seconds since the epoch.
        room: How much output it may have; None if there is no bound.
    """

    def __init__(
        self,
        response_id: str,
        request: Mapping[str, Any],
        profile: Profile,
        emit: Emit,
        *,
        mint: Callable[[str], str],
        clock: Callable[[], float],
        room: Room | None = None,
    ) -> None:
        self.id = response_id
        self.state = RunState.STARTING
        #: Whether the run has ended.
        self.over = False
        #: Whether we ended it, while the upstream goes on.
        self.stopped = False
        self.skipped = 0  # of the upstream's events: those that carried nothing
        #: The response object of the terminal event.
        self.final = b""
        self.fault: Fault | None = None
        self.failure: Fault | None = None
        #: Called once, after `response.created`; and with the terminal event.
        self.began: Callable[[], None] | None = None
        self.deliver = self._emit = emit
        self._cuts = False  # whether a steer waits for a boundary of ours
        self._request = request
        self.profile = profile
        self._clock = clock
        self._numbers = UpstreamNumbers()
        asked = Asked.by(request)
        self.snapshots = Snapshots(response_id, request, int(clock()))
        self.room = room or Room()
        self._output = Output(response_id, profile, emit, mint, self.room, asked)

    def trust(self, profile: Profile) -> None:
        """Set the profile of the backend that answers, before its first event."""
        self.profile = self._output.profile = profile

    def receive(self, name: str | None, data: bytes) -> None:
        """Take one upstream event: its `event:` line, if any, and its data; ignore it once over."""
        if self.over:
            return
        try:
            event = read_event(data)
        except ValueError:
            self._unreadable(name, data)
            return
        live, room = self._output.live, self.room
        if (
            live is not None
            and type(event) is dict
            and event.get("type") == live.delta_type
            and event.get("item_id") == live.source_id
            and event.get(live.index_key) == live.source_index
            and event.keys() <= FLAT
            and not event.get("logprobs")
            and type(delta := event.get("delta")) is str
        ):
            # Nearly every event ends here: more text of the same part, and nothing else (D1).
            if delta:
                live.pieces.append(delta)
                self._emit(live.head + encode(delta))
                room.left -= len(delta)
                if room.left < 0:
                    self._stop_if_full()
            return
        try:
            check_depth(event, data)
        except ValueError:
            self._unreadable(name, data)
        else:
            self._dispatch(name, event, len(data))

    def begin(self, upstream: Mapping[str, Any], extra: Mapping[str, Any] | None = None) -> bool:
        """Send `response.created` and `in_progress`, once; return whether it is not over then.

        `upstream` is a response object of the backend's, for later snapshots as well; `extra` holds
        what its event has beside it.
        """
        self.snapshots.learn(upstream)
        if (self.state, RunStep.BEGIN) in TRANSITIONS:
            self._announce(RunStep.BEGIN, "in_progress", extra)
        return not self.over  # a steer may have waited for it to begin

    def queue(self) -> None:
        """Send `response.created` and `queued` before the upstream is asked (protocol.md 7)."""
        self.snapshots.learn({})
        self._announce(RunStep.QUEUE, "queued")

    def complete_empty(self) -> None:
        """Send a warm-up (`generate: false`): a whole response without output or backend."""
        if self.begin({}):
            self._finish(RunStep.COMPLETE, usage=usage({"input_tokens": 0, "output_tokens": 0}))

    def end(self) -> None:
        """End the body: the response fails if no terminal event came before."""
        if not self.over:
            text = "The upstream stream was cut off before the response was finished."
            self.fail(UpstreamFault(text, code="server_error", status=502, type="server_error"))

    def fail(self, fault: Fault) -> None:
        """End with `response.failed` and the output so far; refuse the create if nothing began."""
        if self.state is RunState.STARTING:
            self.fault = fault
            self._step(RunStep.FAIL)
        elif self.state in STREAMING:
            self.failure = fault
            self._output.finish(None, "incomplete")
            self._finish(RunStep.FAIL, error=response_error(fault))

    def give_up(self, fault: Fault) -> bool:
        """End with the finished items as our own code broke; return False if nothing had begun."""
        if self.state in STREAMING:
            self._finish(RunStep.FAIL, error=response_error(fault))
        return self.state is not RunState.STARTING

    def abandon(self) -> None:
        """Send nothing more: the client left."""
        if self.state in LIVE:
            self._step(RunStep.ABANDON)

    def entries(self) -> list[Entry]:
        """Return the output as the next request carries it."""
        plain = self.profile.replays_reasoning
        return replayed(self._output.items, plain=plain, stopped=self.state in STOPPED)

    def cut(self, *, here: bool = True) -> None:
        """Stop at the next safe boundary, which may be now: incomplete, `steered` (protocol.md 5).

        An end that comes first stands. Without `here` the upstream finds the boundary.
        """
        if self.state is RunState.STREAMING:
            self._step(RunStep.CUT)
        if here and self.state is RunState.CUTTING:
            self._cuts = True
            self._cut_if_safe()

    def cancel(self, status: str = "incomplete") -> None:
        """Stop here and now with the output so far: `cancelled`, and begun in any case (D34).

        `status` is the one of the final response object. An end that comes first stands.
        """
        self.begin({})
        if self.state in STREAMING:
            self._stop(RunStep.CANCEL, "cancelled", status)

    def required_input(self) -> list[dict[str, Any]]:
        """Return stubs of the outputs that the response waits for and only the client can give."""
        return self._output.owed()

    def _cut_if_safe(self) -> None:
        if self._cuts and self.state is RunState.CUTTING and self._output.can_stop():
            self._stop(RunStep.STEER, "steered")

    def _stop_if_full(self) -> None:
        if self.room.left < 0 and not self.room.extend():
            self._stop(RunStep.STOP, "max_output_bytes")

    def _stop(self, step: RunStep, reason: str, status: str | None = None) -> None:
        self.stopped = True
        self._output.finish(None, "incomplete")
        self._finish(step, reason=reason, status=status)

    def _announce(self, step: RunStep, status: str, extra: Mapping[str, Any] | None = None) -> None:
        first = self.state is RunState.STARTING
        self._step(step)
        snapshot = self.snapshots.snapshot(status)
        for name in ("created", status) if first else (status,):
            head = encode({**(extra or {}), "type": f"response.{name}"})
            self._emit(head[:-1] + b',"response":' + snapshot)
        if first and self.began is not None:
            self.began()

    def _step(self, step: RunStep) -> None:
        try:
            self.state = TRANSITIONS[self.state, step]
        except KeyError:
            raise IllegalTransition(f"run {self.state}: {step}") from None
        self.over = self.state not in LIVE
        if self.over:
            self.began = None  # the callback leads back to this run

    def _unreadable(self, name: str | None, data: bytes) -> None:
        if data.strip() == DONE:
            self.end()
        elif (error := unreadable(name, data)) is None:
            self.skipped += 1
        else:
            self.fail(reported_fault(error))

    def _dispatch(self, name: str | None, value: object, size: int) -> None:
        events = meanings(name, value)
        self.skipped += not events
        for kind, event in events:
            if self.over:
                return
            self._numbers.check(event)
            if kind == ERROR:
                self.fail(reported_fault(event))
            elif kind in BEGINNINGS:
                extra, upstream = split_response(event, self.id)
                self.begin(upstream, extra)
            elif kind in TERMINALS:
                self._on_terminal(kind, event)
            elif self.begin({}):
                self._on_output(kind, event, size)

    def _on_output(self, kind: str, event: dict[str, Any], size: int) -> None:
        if kind != COLLECTED:
            self._output.receive(kind, event)
        self.room.left -= size if kind in GROWTH or self._output.held.any else 0
        self._stop_if_full()
        self._cut_if_safe()

    def _on_terminal(self, kind: str, event: dict[str, Any]) -> None:
        extra, upstream = split_response(event, self.id)
        if not self.begin(upstream):
            return
        counted = usage(upstream.get("usage"))
        limit = self._request.get("max_output_tokens") if self.profile.counts_limit else None
        cutting = self.state is RunState.CUTTING
        step, reason = verdict(kind, upstream, counted, limit, cutting=cutting)
        failed = step is RunStep.FAIL
        status = "completed" if step is RunStep.COMPLETE else "incomplete"
        self._output.finish(None if failed else upstream.get("output"), status)
        if failed:
            self.failure = reported_fault({"error": upstream.get("error") or {}})
        error = None if self.failure is None else response_error(self.failure)
        self._finish(step, extra, usage=counted, error=error, reason=reason)

    def _finish(
        self,
        step: RunStep,
        extra: Mapping[str, Any] | None = None,
        *,
        usage: dict[str, Any] | None = None,
        error: dict[str, Any] | None = None,
        reason: str | None = None,
        status: str | None = None,
    ) -> None:
        self._step(step)
        kind = "incomplete" if self.state in STOPPED else str(self.state)
        self.final = snapshot = self.snapshots.snapshot(
            status or kind,
            output=[item.wire for item in self._output.items if not item.open],
            usage=usage,
            error=error,
            incomplete_details={"reason": reason} if (status or kind) == "incomplete" else None,
            completed_at=int(self._clock()) if step is RunStep.COMPLETE else None,
        )
        head = {**(extra or {}), "type": f"response.{kind}"}
        self.deliver(encode(head)[:-1], b',"response":', snapshot)
