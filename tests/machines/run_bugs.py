"""Bugs planted in a run and its parts."""

from __future__ import annotations

from typing import Any

from lanes.codec import decode, encode
from lanes.events import Stamp
from lanes.stream import (
    backend_errors,
    item_schema,
    items,
    output,
    run,
    snapshots,
    upstream_events,
)
from lanes.stream.held_events import HeldEvents
from lanes.stream.item_index import ItemIndex
from lanes.stream.item_states import ItemStep
from lanes.stream.items import Item
from lanes.stream.output import Output
from lanes.stream.parts import Part
from lanes.stream.run import Run
from lanes.stream.run_states import RunState
from lanes.stream.snapshots import Snapshots
from tests.machines.bugs import Bugs
from tests.machines.examples import run_examples

BUGS = Bugs(run_examples)


@BUGS.plant(Stamp, "__post_init__")
def number_zero_is_dropped(original: Any) -> Any:
    def post_init(self: Stamp) -> None:
        original(self)
        self.number = 1

    return post_init


@BUGS.plant(Run, "_on_terminal")
def a_second_terminal_is_relayed(original: Any) -> Any:
    def on_terminal(self: Run, kind: str, event: Any) -> None:
        original(self, kind, event)
        self.state = RunState.STREAMING

    return on_terminal


@BUGS.plant(Run, "end")
def a_cut_is_a_success(original: Any) -> Any:
    return lambda self: self.complete_empty()


@BUGS.plant(Run, "cancel")
def a_cancel_waits_for_a_boundary(original: Any) -> Any:
    return lambda self, status="incomplete": self.cut()


@BUGS.plant(Run, "cancel")
def what_is_cancelled_early_never_was(original: Any) -> Any:
    def cancel(self: Run, status: str = "incomplete") -> None:
        if self.state is not RunState.STARTING:
            original(self, status)

    return cancel


@BUGS.plant(run, "STOPPED")
def reasoning_that_was_cancelled_is_left_dangling(original: Any) -> Any:
    return original - {RunState.CANCELLED}


@BUGS.plant(run, "verdict")
def a_call_it_completed_is_believed(original: Any) -> Any:
    def verdict(kind: str, upstream: Any, *rest: Any, **kept: Any) -> Any:
        return original(kind, {"error": upstream.get("error")}, *rest, **kept)

    return verdict


@BUGS.plant(run, "verdict")
def the_token_limit_is_not_seen(original: Any) -> Any:
    return lambda kind, upstream, counted, *rest, **kept: original(
        kind, upstream, None, *rest, **kept
    )


@BUGS.plant(Run, "entries")
def dangling_reasoning_is_replayed(original: Any) -> Any:
    return lambda self: [item.entry() for item in self._output.items]


@BUGS.plant(run, "usage")
def usage_is_invented(original: Any) -> Any:
    return lambda counts: original(counts) or original({"input_tokens": 0})


@BUGS.plant(run, "response_error")
def error_codes_are_not_mapped(original: Any) -> Any:
    return lambda fault: {**original(fault), "code": fault.code}


@BUGS.plant(upstream_events, "is_error_event")
def only_proper_errors_are_errors(original: Any) -> Any:
    return lambda name, kind, event: kind == "error" or bool(event.get("error"))


@BUGS.plant(run, "read_event")
def a_lone_surrogate_ends_a_response(original: Any) -> Any:
    return decode


@BUGS.plant(output, "without_private_keys")
def private_keys_get_out(original: Any) -> Any:
    return lambda event, response_id: original({}, response_id) | event


@BUGS.plant(output, "with_client_ids")
def the_backends_ids_get_out_of_unknown_events(original: Any) -> Any:
    return lambda sent, response_id, index: sent


@BUGS.plant(Snapshots, "learn")
def created_at_changes(original: Any) -> Any:
    def learn(self: Snapshots, upstream: Any) -> None:
        original(self, upstream)
        self._created_at = upstream.get("created_at", self._created_at)

    return learn


@BUGS.plant(snapshots, "_fits")
def whatever_is_said_is_echoed(original: Any) -> Any:
    return lambda key, value: value is not None


@BUGS.plant(Snapshots, "learn")
def the_service_tier_is_what_was_asked_for(original: Any) -> Any:
    return lambda self, upstream: original(self, {**upstream, "service_tier": None})


@BUGS.plant(item_schema, "_logprob")
def logprobs_stay_as_they_are(original: Any) -> Any:
    return dict


@BUGS.plant(backend_errors, "_kind")
def the_type_of_an_error_is_lost(original: Any) -> Any:
    return lambda error: None


@BUGS.plant(Item, "__init__")
def the_backends_id_gets_out(original: Any) -> Any:
    def init(self: Item, added: Any, index: int, item_id: str, call_id: str, seal: Any) -> None:
        original(self, added, index, added.get("id", item_id), call_id, seal)

    return init


@BUGS.plant(Item, "__init__")
def encrypted_content_is_taken_from_the_announcement(original: Any) -> Any:
    def init(self: Item, added: Any, *rest: Any, **kept: Any) -> None:
        original(self, added, *rest, **kept)
        if added.get("encrypted_content"):
            self._base["encrypted_content"] = added["encrypted_content"]

    return init


@BUGS.plant(Item, "_compose")
def a_call_id_is_rewritten(original: Any) -> Any:
    def compose(self: Item, status: str) -> Any:
        kept = {key: self.final[key] for key in ("call_id",) if self.final and key in self.final}
        return original(self, status) | kept

    return compose


@BUGS.plant(Item, "_status")
def a_cut_item_says_completed(original: Any) -> Any:
    return lambda self, status: original(self, "completed")


@BUGS.plant(Item, "replayable")
def half_a_call_is_replayed(original: Any) -> Any:
    def replayable(self: Item, *, plain_reasoning: bool) -> bool:
        kept: bool = original(self, plain_reasoning=plain_reasoning)
        return kept or self.call is not None

    return replayable


@BUGS.plant(Item, "replayable")
def reasoning_in_the_clear_is_replayed(original: Any) -> Any:
    return lambda self, *, plain_reasoning: original(self, plain_reasoning=True)


@BUGS.plant(Item, "_agrees")
def items_go_back_in_our_form(original: Any) -> Any:
    return lambda self, final: False


@BUGS.plant(Item, "_agrees")
def items_go_back_with_what_nobody_saw(original: Any) -> Any:
    return lambda self, final: True


@BUGS.plant(Part, "finish_text")
def the_final_text_replaces_the_deltas(original: Any) -> Any:
    def finish_text(self: Part, emit: Any, final: Any = None) -> None:
        if isinstance(final, str):
            self.pieces = [final]
        original(self, emit, final)

    return finish_text


@BUGS.plant(Part, "finish_text")
def the_rest_of_the_text_is_lost(original: Any) -> Any:
    return lambda self, emit, final=None: original(self, emit, None)


@BUGS.plant(Output, "receive")
def empty_deltas_are_sent(original: Any) -> Any:
    def receive(self: Output, kind: str, event: Any) -> None:
        original(self, kind, event)
        if event.get("delta") == "":
            self._emit(encode({"type": kind, "delta": ""})[:-1])

    return receive


@BUGS.plant(Output, "_target")
def text_after_a_forced_end_is_lost(original: Any) -> Any:
    def target(self: Output, event: Any, kind: Any) -> Any:
        item = self._index.target_of(event, kind.item_type)
        return item if item is not None and not item.open else original(self, event, kind)

    return target


@BUGS.plant(Output, "receive")
def the_live_part_outlives_its_end(original: Any) -> Any:
    def receive(self: Output, kind: str, event: Any) -> None:
        live = self.live
        original(self, kind, event)
        self.live = self.live or live

    return receive


@BUGS.plant(Output, "_waits")
def a_call_is_cut_by_the_next_item(original: Any) -> Any:
    return lambda self, event: False


@BUGS.plant(HeldEvents, "continue_open")
def items_take_turns_while_both_are_open(original: Any) -> Any:
    return lambda self: None


@BUGS.plant(HeldEvents, "outlasted")
def an_item_that_is_never_closed_holds_up_the_next(original: Any) -> Any:
    return lambda self, blank: False


@BUGS.plant(Item, "step")
def the_end_of_text_that_waits_is_taken_at_once(original: Any) -> Any:
    def step(self: Item, step: ItemStep) -> None:
        if step not in (ItemStep.RESUME, ItemStep.RELEASE):
            original(self, step)

    return step


@BUGS.plant(Output, "_gap")
def places_are_not_waited_for(original: Any) -> Any:
    return lambda self, event, index: False


@BUGS.plant(Output, "_other")
def unknown_events_are_dropped(original: Any) -> Any:
    return lambda self, event: None


@BUGS.plant(Output, "_annotate")
def annotations_are_forgotten(original: Any) -> Any:
    return lambda self, sent: True


@BUGS.plant(output, "tagged")
def the_agent_is_lost(original: Any) -> Any:
    return lambda emit, agent: emit


@BUGS.plant(output, "required_input")
def an_asynchronous_call_holds_up_a_cut(original: Any) -> Any:
    return lambda items, asynchronous: original(items)


@BUGS.plant(Part, "close")
def a_summary_that_was_cut_does_not_say_so(original: Any) -> Any:
    return lambda self, emit, final=None, status=None: original(self, emit, final)


@BUGS.plant(items, "needed_fields")
def hosted_items_lack_what_they_must_have(original: Any) -> Any:
    return lambda item_type: {}


@BUGS.plant(ItemIndex, "reserve")
def parallel_calls_are_mixed_up(original: Any) -> Any:
    return lambda self, source: None


@BUGS.plant(ItemIndex, "match")
def the_terminal_doubles_the_items(original: Any) -> Any:
    return lambda self, finals: [(final, None) for final in finals]


@BUGS.plant(ItemIndex, "sharing_name")
def names_mean_nothing(original: Any) -> Any:
    return lambda self, source, index=None: None
