"""MACHINE: one response, from the first upstream event to exactly one terminal event.

Takes the backend's events as they come and emits the strict stream of protocol.md 4. Opens no
socket, knows no lane: `emit` gets each event's JSON without its closing brace, to be numbered.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from lanes.codec import check_depth, decode_lenient, encode
from lanes.errors import Fault, IllegalTransition, UpstreamFault
from lanes.stream.backend_errors import reported, response_error, tells_error
from lanes.stream.output import Output
from lanes.stream.passthrough import BEGINNINGS, NOISE, TERMINALS, UpstreamNumbers, split_response
from lanes.stream.run_states import LIVE, STREAMING, TRANSITIONS, RunState, RunStep
from lanes.stream.snapshots import Snapshots, stop_reason, usage

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from lanes.history.entries import Entry
    from lanes.stream.parts import Emit
    from lanes.stream.profile import Profile

log = logging.getLogger("multilane.run")

#: The keys of a delta that is nothing but text.
_FLAT = frozenset(
    {"type", "delta", "item_id", "output_index", "content_index", "summary_index"}
    | {"sequence_number", "stream_id", "logprobs", "obfuscation"}
)


class Run:
    """One response in the making.

    `request` is the body of the create, `mint` makes an id from its prefix, `clock` tells the time
    in seconds since the epoch; `profile` holds until `trust` names that of the backend which
    answers. `fault` holds why a run was refused: it ended before `response.created`, so it is
    reported by an `error` event and not by `response.failed`.
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
    ) -> None:
        self.id = response_id
        self.state = RunState.STARTING
        #: Whether the one terminal event was sent, or never will be.
        self.over = False
        #: Whether it ended at our own boundary, so that the upstream has more to say.
        self.stopped = False
        #: The response object of the terminal event.
        self.final = b""
        self.fault: Fault | None = None
        #: Called once `response.created` was sent.
        self.began: Callable[[], None] = _nothing
        self._emit = emit
        self._cuts = False  # a steer waits for a boundary of ours
        self._request = request
        self.profile = profile
        self._clock = clock
        self._numbers = UpstreamNumbers()
        self._snapshots = Snapshots(response_id, request, int(clock()))
        include = request.get("include")
        asked = isinstance(include, list) and "reasoning.encrypted_content" in include
        encrypted = asked or request.get("store") is False
        self._output = Output(response_id, profile, emit, mint, encrypted=encrypted)

    def trust(self, profile: Profile) -> None:
        """This backend is the one that answers; to be called before its first event."""
        self.profile = self._output.profile = profile

    def receive(self, name: str | None, data: bytes) -> None:
        """Take one upstream event: its `event:` line, if any, and its data. Ignored once over."""
        if self.over:
            return
        try:
            event = decode_lenient(data)
        except ValueError:
            self._unreadable(data)
            return
        live = self._output.live
        if (
            live is not None
            and type(event) is dict
            and event.get("type") == live.kind.delta
            and event.get("item_id") == live.source_id
            and event.get(live.kind.index_key) == live.source_index
            and event.keys() <= _FLAT
            and not event.get("logprobs")
            and type(delta := event.get("delta")) is str
        ):
            # Nearly every event ends here: the same part goes on, and its text is all there is.
            if delta:
                live.pieces.append(delta)
                self._emit(live.head + encode(delta))
            return
        try:
            check_depth(event, data)
        except ValueError:
            self._unreadable(data)
            return
        self._dispatch(name, event)

    def begin(self, upstream: Mapping[str, Any], extra: Mapping[str, Any] | None = None) -> None:
        """Send `response.created` and `in_progress`, once. `upstream` adds to the echoes."""
        self._snapshots.settle(upstream)
        if self.state is not RunState.STARTING:
            return
        self._step(RunStep.BEGIN)
        snapshot = self._snapshots.snapshot("in_progress")
        for kind in ("response.created", "response.in_progress"):
            self._emit(encode({**(extra or {}), "type": kind})[:-1] + b',"response":' + snapshot)
        self.began()

    def complete_empty(self) -> None:
        """A warm-up (`generate: false`): a whole response without output and without a backend."""
        self.begin({})
        self._finish(RunStep.COMPLETE, usage=usage({"input_tokens": 0, "output_tokens": 0}))

    def end(self) -> None:
        """The body ended. Fails the response if no terminal event came before."""
        self._broken("The upstream stream was cut off before the response was finished.")

    def fail(self, fault: Fault) -> None:
        """Something broke: `response.failed` with the output so far; a refusal if nothing began."""
        if self.state is RunState.STARTING:
            self.fault = fault
            self._step(RunStep.FAIL)
        elif self.state in STREAMING:
            self._output.finish(None, "incomplete")
            self._finish(RunStep.FAIL, error=response_error(fault))

    def give_up(self, fault: Fault) -> bool:
        """Our own code broke on this response: end it with the items that are finished.

        Returns False if nothing was sent that needs an end, and an `error` event will do.
        """
        if self.state in STREAMING:
            self._finish(RunStep.FAIL, error=response_error(fault))
            return True
        return self.state is not RunState.STARTING

    def abandon(self) -> None:
        """The client left: nothing more is sent."""
        if self.state in LIVE:
            self._step(RunStep.ABANDON)

    def entries(self) -> list[Entry]:
        """The output as the next request carries it: finished items, and text that was sent.

        Left out: calls that were cut off, reasoning the backend would not take back, and reasoning
        that a cut left dangling (protocol.md 3).
        """
        plain = self.profile.replays_reasoning
        output = self._output.items
        items = [item for item in output if item.replayable(plain_reasoning=plain)]
        if self.state in (RunState.INCOMPLETE, RunState.STEERED) or items[-1:] != output[-1:]:
            while items and items[-1].type == "reasoning":
                items.pop()
        return [item.entry() for item in items]

    def cut(self, *, here: bool = True) -> None:
        """Stop at the next safe boundary, which may be now: incomplete, `steered` (protocol.md 5).

        An end that comes first stands. Without `here` the boundary is the upstream's to find.
        """
        if self.state is RunState.STREAMING:
            self._step(RunStep.CUT)
        if here and self.state is RunState.CUTTING:
            self._cuts = True
            self._cut_if_safe()

    def required_input(self) -> list[dict[str, Any]]:
        """Stubs of the outputs that the response waits for and only the client can give."""
        return self._output.owed()

    def _cut_if_safe(self) -> None:
        if self._cuts and self.state is RunState.CUTTING and self._output.can_stop():
            self.stopped = True
            self._output.finish(None, "incomplete")
            self._finish(RunStep.STEER, reason="steered")

    def _step(self, step: RunStep) -> None:
        try:
            self.state = TRANSITIONS[self.state, step]
        except KeyError:
            raise IllegalTransition(f"run {self.state}: {step}") from None
        self.over = self.state not in LIVE

    def _unreadable(self, data: bytes) -> None:
        if data.strip() == b"[DONE]":
            self.end()
            return
        log.warning("unreadable upstream event: %r", data[:200])
        self._broken("The upstream sent an event that is not JSON.")

    def _broken(self, message: str) -> None:
        self.fail(UpstreamFault(message, code="server_error", status=502, type="server_error"))

    def _dispatch(self, name: str | None, event: Any) -> None:
        if not isinstance(event, dict):
            self._broken("The upstream sent an event that is not a JSON object.")
            return
        kind = event.get("type")
        if not isinstance(kind, str):
            kind = name or ""
        self._numbers.check(event)
        if tells_error(name, kind, event):
            self.fail(reported(event))
        elif kind in BEGINNINGS:
            self._on_beginning(event)
        elif kind in TERMINALS:
            self._on_terminal(kind, event)
        elif kind.startswith("response.") and kind not in NOISE:
            self.begin({})
            self._output.receive(kind, event)
            self._cut_if_safe()

    def _on_beginning(self, event: dict[str, Any]) -> None:
        """The first begins the response, a `response.queued` too; one after it is not passed on.

        What that one adds shows in the terminal event, the only one with a snapshot still to come.
        """
        extra, upstream = split_response(event, self.id)
        self.begin(upstream, extra)

    def _on_terminal(self, kind: str, event: dict[str, Any]) -> None:
        extra, upstream = split_response(event, self.id)
        self.begin(upstream)
        counted = usage(upstream.get("usage"))
        step, reason = self._verdict(kind, upstream, counted)
        error = None
        if step is RunStep.FAIL:
            self._output.finish(None, "incomplete")
            error = response_error(reported({"error": upstream.get("error") or {}}))
        else:
            status = "completed" if step is RunStep.COMPLETE else "incomplete"
            self._output.finish(upstream.get("output"), status)
        self._finish(step, extra, usage=counted, error=error, reason=reason)

    def _verdict(
        self, kind: str, upstream: Mapping[str, Any], counted: dict[str, Any] | None
    ) -> tuple[RunStep, str | None]:
        """What the end really is: backends call failures and cut answers completed."""
        status = upstream.get("status")
        details = upstream.get("incomplete_details")
        said = details.get("reason") if isinstance(details, dict) else None
        if kind in ("response.failed", "response.cancelled") or upstream.get("error"):
            return RunStep.FAIL, None
        if status in ("failed", "cancelled", "queued"):
            return RunStep.FAIL, None
        if said == "steered" and self.state is RunState.CUTTING:
            return RunStep.STEER, said
        if kind == "response.incomplete" or status == "incomplete" or said:
            return RunStep.STOP, stop_reason(said)
        limit = self._request.get("max_output_tokens")
        spent = counted["output_tokens"] if counted and self.profile.counts_limit else None
        if spent is not None and isinstance(limit, int) and spent >= limit:
            return RunStep.STOP, "max_output_tokens"
        return RunStep.COMPLETE, None

    def _finish(
        self,
        step: RunStep,
        extra: Mapping[str, Any] | None = None,
        *,
        usage: dict[str, Any] | None = None,
        error: dict[str, Any] | None = None,
        reason: str | None = None,
    ) -> None:
        self._step(step)
        status = "incomplete" if self.state is RunState.STEERED else str(self.state)
        snapshot = self._snapshots.snapshot(
            status,
            output=[item.wire for item in self._output.items if not item.open],
            usage=usage,
            error=error,
            incomplete_details={"reason": reason}
            if step in (RunStep.STOP, RunStep.STEER)
            else None,
            completed_at=int(self._clock()) if step is RunStep.COMPLETE else None,
        )
        self.final = snapshot
        head = {**(extra or {}), "type": f"response.{status}"}
        self._emit(encode(head)[:-1] + b',"response":' + snapshot)


def _nothing() -> None:
    """Nobody wants to know."""
