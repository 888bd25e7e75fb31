"""Cases that hold for one gateway hold for one behind another, whoever finds the boundary."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.cases import (
    test_calls,
    test_cancel,
    test_lanes,
    test_lineage,
    test_steer_ends,
    test_steer_follows,
    test_steer_hosted,
    test_steer_pending,
    test_steer_successor,
    test_steer_text,
    test_steer_tools,
)

if TYPE_CHECKING:
    from types import ModuleType

    from tests.upstream.websocket.behind import Behind

#: Each module's cases, but for those about what only the one next to the upstream sees: how often
#: it asks, where it stops within encrypted reasoning, which end comes first.
_CASES: dict[ModuleType, tuple[str, ...]] = {
    test_calls: (
        "test_b27_two_calls_of_different_kinds_in_one_turn",
        "test_b28_a_call_two_responses_earlier_is_found",
    ),
    test_cancel: (
        "test_what_runs_ends_with_the_output_so_far",
        "test_at_any_point_of_an_answer_the_next_turn_is_clean",
        "test_before_the_backend_answers_it_begins_and_ends",
        "test_it_does_not_wait_for_a_boundary",
        "test_a_finished_call_may_still_be_answered",
        "test_what_is_over_is_silence",
        "test_what_waits_for_a_slot_is_taken_back",
        "test_steers_that_wait_come_back",
        "test_a_successor_can_be_cancelled_by_its_lane",
        "test_a_continuation_that_is_cancelled_keeps_its_parent",
    ),
    test_lanes: (
        "test_b31_the_default_lane_has_no_key",
        "test_b33_a_warm_up_serves_twice_and_from_other_lanes",
        "test_b34_forks_run_at_once_and_know_nothing_of_each_other",
        "test_b34_a_parent_is_a_snapshot",
    ),
    test_lineage: ("test_incomplete_and_empty_responses_are_parents",),
    test_steer_ends: (
        "test_a_client_that_leaves_drops_what_waits",
        "test_an_explicit_create_that_is_refused_here_returns_them",
        "test_a_fault_of_our_own_returns_them",
        "test_the_end_of_all_returns_them",
    ),
    test_steer_follows: ("test_one_that_runs_is_steered_whatever_hops_there_are",),
    test_steer_hosted: ("test_a_tool_at_work_is_finished_first",),
    test_steer_pending: (
        "test_b42_the_create_may_come_before_the_pending_event",
        "test_b42_a_second_create_carries_no_steer",
        "test_own_settings_of_the_create_hold",
        "test_a_steer_of_a_response_that_waits_is_pending_at_once",
        "test_no_pending_event_while_the_create_waits_for_a_slot",
        "test_a_fork_takes_no_steers",
    ),
    test_steer_successor: (
        "test_settings_are_inherited_value_for_value",
        "test_the_chain_before_it_is_carried_on",
        "test_b45_every_form_arrives_whole_and_in_order",
        "test_it_runs_ahead_of_what_waits_in_the_same_slot",
        "test_successors_are_steered_in_turn",
        "test_lanes_keep_their_steers_to_themselves",
        "test_a_successor_that_fails_after_its_beginning_has_taken_its_steers",
        "test_an_upstream_that_says_the_same_ids_again",
    ),
    test_steer_text: (
        "test_a_text_stops_between_two_deltas",
        "test_what_the_upstream_still_says_after_the_cut_goes_nowhere",
        "test_b39_accepted_while_deltas_still_flow",
        "test_b39_neither_full_lanes_nor_a_slow_upstream_hold_a_steer_up",
        "test_b46_terminal_relayed_text_and_replay_agree",
        "test_a_cut_before_anything_was_said",
        "test_between_two_items_it_stops_at_once",
    ),
    test_steer_tools: (
        "test_a_call_is_never_cut_and_its_steers_wait",
        "test_text_after_a_finished_call_is_not_cut_either",
        "test_custom_input_is_never_cut",
        "test_what_the_client_owes_is_asked_for",
        "test_b27_calls_of_two_kinds_are_both_asked_for",
        "test_a_finished_call_of_a_cut_short_response_is_asked_for",
        "test_a_hosted_search_is_not_asked_for",
    ),
}
globals().update({name: getattr(of, name) for of, names in _CASES.items() for name in names})


@pytest.fixture(autouse=True)
def _two(behind: Behind) -> None:
    """Every stand of these cases."""
