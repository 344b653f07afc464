"""Which conformance case is tested where, or why it does not apply to this design.

A case is `Case(title, tests...)`; a test is `path::name` below `tests/`. A case without tests has a reason instead.
The cases stand in docs/internals/cases.md (A to D), the holes in docs/internals/invariants.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class Case:
    """`tests` are names below `tests/`; `reason`: why there are none."""

    title: str
    tests: tuple[str, ...] = ()
    reason: str = ""


def _in(path: str, title: str, *names: str) -> Case:
    return Case(title, tuple(name if "::" in name else f"{path}::{name}" for name in names))


def _ids(title: str, *names: str) -> Case:
    return _in("conformance/producers/test_producer_ids.py", title, *names)


def _append(title: str, *names: str) -> Case:
    return _in("conformance/producers/test_appends.py", title, *names)


def _txn(title: str, *names: str) -> Case:
    return _in("conformance/transactions/test_transactions.py", title, *names)


def _marker(title: str, *names: str) -> Case:
    return _in("conformance/transactions/test_markers_and_visibility.py", title, *names)


def _coordinator(title: str, *names: str) -> Case:
    return _in("conformance/transactions/test_coordinator_failures.py", title, *names)


def _replicas(title: str, *names: str) -> Case:
    return _in("conformance/replication/test_replica_failures.py", title, *names)


def _producers(title: str, *names: str) -> Case:
    return _in("conformance/producers/test_producer_retries.py", title, *names)


_ENTRY: Final = "unit/partition_leader/core/producers/test_producer_entry.py::"
_TIMEOUTS: Final = "unit/coordinator/core/transactions/test_timeouts.py::"
_COURIER: Final = "unit/coordinator/effects/test_marker_courier.py::"
_STATE: Final = "unit/partition_leader/core/producers/test_producer_state.py::"
_CLIENT: Final = "unit/coordinator/core/transactions/test_client_decisions.py::"
_PARTICIPANTS: Final = "unit/coordinator/core/transactions/test_participant_decisions.py::"
_BLOCKS: Final = "unit/pid_allocator/core/test_blocks.py::"
_SHARD: Final = "unit/coordinator/shard/test_shard.py::"
_MARKERS: Final = "unit/coordinator/effects/test_markers.py::"
_NO_EPOCH_LIMIT: Final = (
    "session epochs have 32 bits and only fence sessions; no epoch is used up by transactions, none is reserved, and a "
    "producer id is never rotated"
)

HOLES: Final[dict[int, Case]] = {
    1: _coordinator(
        "take-over without fencing first",
        "test_an_append_of_a_deposed_coordinator_never_lands",
        "test_an_append_of_an_earlier_life_never_lands",
    ),
    2: _replicas(
        "a restarted process takes the place of the one that was meant",
        "test_a_leader_that_comes_back_from_a_power_cut_does_not_go_on",
        "test_a_leader_that_is_heard_again_before_the_next_election_does_not_go_on",
        "test_a_follower_that_comes_back_from_a_power_cut_is_not_elected",
    ),
    3: _replicas(
        "a log re-opened inside a living process",
        "test_a_follower_whose_sync_failed_is_not_elected",
        "test_a_leader_whose_disk_failed_gives_no_offset_twice",
    ),
    4: _replicas(
        "fsync by quorum against election from the ISR",
        "test_in_fsync_mode_the_leader_counts_its_own_disk_too",
        "test_in_fsync_mode_every_follower_acknowledges_what_is_on_its_disk",
        "test_a_follower_that_has_not_heard_of_fsync_acknowledges_as_its_leader_counts",
    ),
    5: _coordinator("healing without the winners", "test_healing_hears_the_winners"),
    6: _coordinator(
        "a wrong or dead coordinator answers",
        "test_a_deposed_coordinator_does_not_say_ongoing",
        "test_a_deposed_coordinator_does_not_speak_of_what_it_does_not_know",
        "test_a_deposed_coordinator_does_not_return_old_offsets",
        "test_the_asker_refuses_an_older_epoch_than_it_knows",
    ),
    7: _producers(
        "the aborted index goes by producer and range",
        "test_an_abort_hides_its_own_data_and_nothing_of_the_next",
        "test_one_joint_marker_hides_only_the_losers",
    ),
    8: _coordinator(
        "pipelining in a compacted shard log",
        "test_a_decision_survives_the_record_of_the_next_transaction",
        "test_enrolments_are_no_deltas",
    ),
    9: _producers("sequences across an aborted transaction", "test_sequences_begin_anew_in_every_transaction"),
    10: _producers(
        "a duplicate answered before its first copy is committed",
        "test_a_duplicate_is_answered_like_its_first_copy",
    ),
    11: _coordinator(
        "commit, abort and winners do not name n",
        "test_a_task_of_an_ended_attempt_is_told_so_also_after_fail_over",
        "test_a_commit_names_the_transaction_that_its_winners_joined",
    ),
    12: _coordinator(
        "a marker that ends nothing is a no-op",
        "test_a_deposed_leader_does_not_say_that_a_marker_is_in",
        "test_a_late_copy_of_a_marker_is_known_whatever_session_came_since",
        "test_a_late_copy_does_not_open_an_ended_transaction_again",
    ),
    13: _producers(
        "a late copy of older offsets",
        "test_a_late_copy_of_older_offsets_changes_nothing",
        "test_a_late_copy_of_a_plain_commit_changes_nothing",
    ),
    14: _coordinator(
        "who writes the marker into a group shard",
        "test_the_owner_of_a_group_shard_applies_the_marker",
        "test_a_group_shard_heals_by_itself",
    ),
    15: _coordinator(
        "for ever, with a bounded list",
        "test_below_the_list_the_answer_is_forgotten",
        "test_a_fenced_session_cannot_use_the_next_number",
        _TIMEOUTS + "test_an_idle_id_expires_and_keeps_what_must_stay",
    ),
    16: _coordinator(
        "the token",
        "test_the_token_is_the_last_committed_one_of_each_app",
        "test_a_token_is_told_only_when_it_is_committed",
        _PARTICIPANTS + "test_tokens_are_per_app_and_outlive_other_apps_aborts_and_expiry",
    ),
    17: _replicas(
        "a lost etcd answer",
        "test_while_an_isr_answer_is_lost_the_larger_isr_counts",
        "conformance/transactions/test_coordinator_failures.py::"
        "test_a_lost_answer_about_ownership_leaves_no_shard_without_service",
    ),
    18: _replicas(
        "where epochs come from",
        "test_epochs_never_start_again",
        "test_a_deposed_leader_cannot_shrink_the_isr",
        "test_a_deposed_controller_elects_nobody",
    ),
    19: _replicas(
        "a power cut, and a decision that is durable",
        "test_records_that_a_power_cut_took_are_named_never_silent",
    ),
    20: _coordinator(
        "END of a transaction that enrolled nothing",
        "test_a_transaction_that_enrolled_nothing_is_closed_for_ever",
        "test_a_batch_without_rows_stores_its_token",
    ),
    21: _producers("the wrap", "test_after_the_wrap_the_next_batch_is_next_and_no_duplicate"),
    22: _producers(
        "not written, and it lands afterwards",
        "test_not_written_is_final",
        "test_a_deposed_leader_settles_nothing",
    ),
    23: _replicas(
        "producer state that is no function of the log",
        "test_a_replica_that_begins_above_the_start_knows_older_producers",
        _STATE + "test_state_is_a_function_of_the_log",
        _ENTRY + "test_expiry_follows_the_logs_own_time",
    ),
    24: _replicas(
        "which acknowledgements count",
        "test_a_late_message_of_an_older_session_counts_for_nothing",
        "test_a_late_copy_of_a_cut_cuts_nothing_that_came_since",
        "unit/partition_leader/core/replication/test_replica_set.py::"
        "test_acknowledgements_of_an_older_session_or_incarnation_do_not_count",
    ),
    25: _producers(
        "ten smaller ones",
        "test_a_replayed_init_does_not_fence_the_living_session",
        "test_a_retry_at_another_leader_is_known_by_its_content",
        "test_what_follows_a_refused_batch_begins_a_new_epoch",
        "conformance/replication/test_replica_failures.py::test_a_killed_member_does_not_hold_the_watermark",
        "conformance/replication/test_replica_failures.py::test_followers_of_an_idle_partition_learn_the_last_watermark",
        "conformance/replication/test_replica_failures.py::test_a_flipped_bit_in_the_leaders_fields_is_found",
        _PARTICIPANTS + "test_the_33rd_zombie_does_not_own_again",
        _TIMEOUTS + "test_a_lease_is_renewed_by_any_participant_and_ends_what_nobody_finishes",
    ),
}

CASES: Final[dict[str, Case]] = {
    # ---- A: ids and sessions
    "A1": Case(
        "blocks of two allocators are disjoint and grow",
        (
            _BLOCKS + "test_blocks_follow_each_other_without_overlap",
            "simulation/test_pid_allocator.py::test_no_id_is_handed_out_twice",
        ),
    ),
    "A2": _ids("a used-up block", "test_a_used_up_block_is_a_retriable_error_and_no_id_comes_twice"),
    "A3": _ids("many askers at 90 %", "test_many_askers_cause_one_request_for_a_block"),
    "A4": Case(
        "an illegal range is refused, the current block serves on",
        (
            _BLOCKS + "test_a_block_that_is_not_above_is_refused_and_the_current_one_still_serves",
            _BLOCKS + "test_an_illegal_block_in_etcd_is_refused",
        ),
    ),
    "A5": _ids("back-off of block requests", "test_a_failed_request_for_a_block_is_not_repeated_at_once"),
    "A6": _ids("a burnt block", "test_a_block_of_a_dead_allocator_is_never_handed_out_again"),
    "A8": Case(
        "a counter restored from a backup",
        (_BLOCKS + "test_a_rewound_counter_still_yields_ids_above_all_that_were_handed_out",),
    ),
    "A9": _ids("no transactional id", "test_without_a_transactional_id_every_session_is_another_producer"),
    "A10": _ids("an empty transactional id", "test_an_empty_transactional_id_takes_no_transaction"),
    "A11": _ids("bad time-outs", "test_a_bad_time_out_is_refused"),
    "A12": _ids("an unknown id", "test_a_new_id_is_answered_when_it_is_in_the_log"),
    "A13": _ids("an unknown id with an old session", "test_an_unknown_id_ignores_what_the_client_expects"),
    "A14": _ids("a new session of an idle id", "test_a_new_session_raises_the_epoch_and_goes_on_with_the_numbers"),
    "A15": _ids(
        "the expected session, and a repeat",
        "test_the_expected_session_goes_on_and_a_repeat_gets_the_same_answer",
    ),
    "A16": _ids("an overtaken session", "test_a_session_that_was_overtaken_is_fenced"),
    "A17": _ids("an id under another producer id", "test_an_id_with_another_producer_id_is_fenced"),
    "A18": Case("rotation at the epoch limit", reason=_NO_EPOCH_LIMIT),
    "A20": _ids(
        "a new session while a transaction is open",
        "test_a_new_session_aborts_what_is_open_and_is_given_at_once",
    ),
    "A21": _ids("a new session while markers travel", "test_a_new_session_does_not_wait_for_markers"),
    "A23": _ids("an outage while a session begins", "test_an_outage_of_the_log_does_not_burn_epochs"),
    "A24": Case("an open transaction at the epoch limit", reason=_NO_EPOCH_LIMIT),
    "A25": _ids("not the owner, or loading", "test_who_does_not_own_the_shard_says_so"),
    # ---- B: idempotent append
    "B26": _append("a gap", "test_a_gap_is_refused_and_the_next_is_taken"),
    "B27": _append("an older epoch", "test_an_older_epoch_is_fenced_and_writes_nothing"),
    "B28": _append("after the largest sequence", "test_after_the_largest_sequence_only_zero_is_next"),
    "B29": _append("a batch over the wrap", "test_a_batch_may_straddle_the_wrap"),
    "B30": _append("a repeat", "test_a_repeat_gets_the_offset_of_its_first_copy"),
    "B32": _append("a partial overlap", "test_a_partial_overlap_is_refused"),
    "B33": Case("a duplicate by replication", (_STATE + "test_what_a_leader_wrote_is_taken_as_it_is",)),
    "B34": Case("a replica without state", (_STATE + "test_what_a_leader_wrote_is_taken_as_it_is",)),
    "B35": Case("a gap by replication", (_STATE + "test_what_a_leader_wrote_is_taken_as_it_is",)),
    "B36": _append("a new epoch", "test_a_new_epoch_begins_at_zero"),
    "B38": _append("no state", "test_without_state_only_zero_is_taken"),
    "B39": Case(
        "an expired producer (its state is kept, so it may go on)",
        (_ENTRY + "test_an_expired_producer_is_still_known_exactly",),
    ),
    "B40": Case(
        "a transaction older than the expiry",
        (_ENTRY + "test_a_producer_of_an_open_transaction_does_not_expire",),
    ),
    "B41": Case(
        "the last data deleted",
        ("unit/partition_leader/log/test_partition_log.py::test_producers_outlive_their_segments",),
    ),
    "B42": _append("an append that fails", "test_a_refused_append_leaves_no_trace"),
    "B43": _append("several producers in one request", "test_one_batch_per_partition_and_request"),
    "B44": _append("an older epoch writes nothing", "test_an_older_epoch_is_fenced_and_writes_nothing"),
    "B45": _append(
        "five in flight",
        "test_five_in_flight_stay_in_order_when_the_first_one_fails",
        "test_sixteen_full_batches_in_flight_stay_in_order_when_the_first_one_fails",
    ),
    "B47": _append("written, then another leader", "test_a_written_batch_stays_once_through_a_change_of_leader"),
    "B48": _append(
        "five batches and a restart",
        "test_all_five_are_known_after_a_restart",
        "test_sixteen_are_known_to_a_new_leader_and_older_ones_by_their_sequences_alone",
        _STATE + "test_all_five_are_duplicates_after_a_snapshot",
    ),
    "B49": _append("other content", "test_other_content_under_the_same_sequence_is_a_bug"),
    "B50": _append("a misdirected batch", "test_a_batch_for_another_partition_is_refused"),
    # ---- C: coordinator
    "C51": _txn("a wrong mapping", "test_an_unknown_id_or_another_producer_id_is_a_wrong_mapping"),
    "C52": _txn("enrolment by another epoch", "test_another_epoch_is_fenced"),
    "C53": _txn("enrolment after the decision", "test_a_decided_transaction_takes_no_partitions"),
    "C54": _txn("enrolment again", "test_the_same_partitions_again_write_nothing"),
    "C55": _txn("the next transaction", "test_the_next_transaction_opens_with_its_first_partition"),
    "C56": Case(
        "verify-only requests",
        reason="there is no verification beside enrolment: a leader opens a transaction only on an enrolment that is in "
        "the coordinator's log, so there is nothing to verify separately (C83, C85)",
    ),
    "C57": _txn("commit", "test_the_answer_comes_with_the_decision_and_before_the_markers"),
    "C58": _txn("abort", "test_the_answer_comes_with_the_decision_and_before_the_markers"),
    "C59": _coordinator(
        "END of an empty transaction: closed with the outcome asked for",
        "test_a_transaction_that_enrolled_nothing_is_closed_for_ever",
        _CLIENT + "test_an_empty_transaction_is_closed_for_ever",
    ),
    "C60": _txn("a repeated commit", "test_a_repeated_end_gets_the_first_outcome"),
    "C61": _txn("a repeated abort", "test_a_repeated_end_gets_the_first_outcome"),
    "C63": _txn("END by another epoch", "test_another_epoch_is_fenced"),
    "C64": Case("commit at the epoch limit", reason=_NO_EPOCH_LIMIT),
    "C65": Case(
        "a protocol version that changes in mid-transaction",
        reason="there is one protocol: a transaction is its name, and no message means something else in another version",
    ),
    "C66": _txn("a time-out", "test_a_time_out_aborts_and_the_late_commit_hears_so"),
    "C67": _txn(
        "a time-out while a decision is on its way",
        "test_a_decision_on_its_way_is_left_alone_by_the_time_out",
    ),
    "C68": _txn("a time-out whose append fails", "test_a_time_out_whose_append_fails_changes_nothing_but_the_outcome"),
    "C69": _txn("a commit after the time-out", "test_a_time_out_aborts_and_the_late_commit_hears_so"),
    "C71": _txn("a clock that steps back", "test_a_clock_that_steps_back_disturbs_nothing"),
    "C72": Case("rotation in mid-transaction", reason=_NO_EPOCH_LIMIT),
    "C73": _txn("a decision found in the log", "test_a_decision_is_driven_on_by_the_next_owner_in_its_own_epoch"),
    "C74": _txn("list and describe while loading", "test_while_it_loads_a_shard_describes_nothing"),
    "C75": _txn(
        "a log without enough replicas",
        "test_without_enough_replicas_the_coordinator_is_not_available",
        _SHARD + "test_while_the_log_refuses_nobody_is_served_and_then_everybody_is",
    ),
    "C76": _coordinator(
        "an append after the epoch changed",
        "test_an_append_of_a_deposed_coordinator_never_lands",
        "unit/coordinator/shard/test_shard_log.py::test_a_newer_owner_fences_this_one",
    ),
    "C77": _txn(
        "id expiry",
        "test_an_expired_id_begins_again_with_the_next_number",
        _TIMEOUTS + "test_ids_with_work_do_not_expire",
    ),
    "C79": Case("very many expired ids", (_TIMEOUTS + "test_many_time_outs_are_decided_in_portions",)),
    "C80": Case("a log that cannot be read", (_SHARD + "test_a_log_that_cannot_be_read_keeps_the_shard_away",)),
    "C81": _txn("a send under an expired id", "test_an_expired_id_begins_again_with_the_next_number"),
    "C82": _txn(
        "an expired id that leaders still know",
        "test_an_expired_id_begins_again_with_the_next_number",
    ),
    "C83": _txn("the first write asks", "test_the_first_write_enrols_or_leaves_no_trace"),
    "C84": _txn(
        "no coordinator for the first write",
        "test_an_unavailable_coordinator_is_a_retriable_error_for_the_producer",
    ),
    "C85": _txn("a yes behind an abort", "test_a_yes_that_crosses_an_abort_opens_nothing"),
    "C87": _txn("a yes behind an election", "test_a_yes_for_a_deposed_leader_writes_nothing_that_counts"),
    "C88": _txn("END of n during n+1", "test_a_late_end_of_n_leaves_the_next_one_alone"),
    "C89": _txn("n+1 before the marker of n", "test_the_outcomes_of_n_and_the_next_one_are_independent"),
    "C92": Case(
        "a partition that the coordinator does not see",
        (
            _COURIER + "test_a_partition_that_is_not_seen_keeps_its_marker",
            _COURIER + "test_only_proof_of_deletion_ends_a_marker",
        ),
    ),
    "C93": _txn(
        "a transaction that no coordinator has recorded",
        "test_what_the_coordinator_does_not_know_is_aborted_within_the_bound",
    ),
    # ---- D: markers, stable offset, read_committed
    "D94": _marker("a marker above the watermark", "test_a_marker_counts_when_the_watermark_has_passed_it"),
    "D95": _marker("three that overlap", "test_the_oldest_open_transaction_holds_the_rest"),
    "D96": _marker(
        "a marker of an older coordinator",
        "test_a_marker_of_an_older_coordinator_is_refused_also_by_the_next_leader",
    ),
    "D98": Case(
        "a marker with an older producer epoch",
        reason="a marker names its transaction, so the session's epoch in it refuses nothing: a decision of an earlier "
        "session must still be marked after the next one began (A21). It only raises the fence for data "
        "(unit/partition_leader/core/producers/test_producer_state.py::test_a_marker_raises_the_session)",
    ),
    "D99": _marker("a plain batch in a transaction", "test_no_plain_batch_while_the_producers_transaction_is_open"),
    "D100": Case("empty transactions", (_STATE + "test_empty_transactions_leave_no_entries",)),
    "D101": _marker("aborts under a reader", "test_a_reader_never_sees_what_is_aborted"),
    "D102": Case(
        "the write of the aborted index fails",
        ("unit/partition_leader/log/test_storage_crashes.py::test_after_any_crash_a_log_is_a_sound_prefix_of_itself",),
        reason="the index lives in memory as a function of the log; its file is a checkpoint, and recovery rebuilds it",
    ),
    "D104": _marker("an abort over segments", "test_an_abort_over_many_segments_is_told_from_each_of_them"),
    "D105": Case(
        "marker offsets grow, truncation removes entries",
        (
            "unit/partition_leader/core/log/test_aborted_index.py::test_marker_offsets_grow",
            "unit/partition_leader/core/log/test_aborted_index.py::test_truncation_and_bytes",
        ),
    ),
    "D106": _marker("readers and an open transaction", "test_a_reader_ends_before_the_first_open_record"),
    "D108": _marker("ten partitions", "test_an_abort_and_then_a_commit_over_many_partitions"),
    "D109": _marker(
        "consume, transform, produce",
        "test_consume_transform_produce_with_every_second_transaction_aborted",
    ),
    "D110": _marker("a second instance", "test_a_second_instance_fences_the_first"),
    "D111": _marker("a send after the time-out", "test_after_its_time_out_a_transaction_takes_nothing"),
    "D113": _marker(
        "a dead leader and an expired batch",
        "test_after_a_dead_leader_and_an_expired_batch_the_next_transaction_works",
    ),
    "D114": _marker("a log below min ISR", "test_below_min_isr_of_its_log_a_shard_begins_no_session"),
    "D115": Case(
        "init called twice",
        reason="there is no such call in the SDK: a session begins with the first use of a producer, once",
    ),
    "D116": Case("recovery at the epoch maximum", reason=_NO_EPOCH_LIMIT),
    "D117": _marker(
        "a fetch up to the stable offset", "test_a_fetch_ends_at_the_stable_offset_though_more_is_committed"
    ),
    "D118": Case(
        "a metric for late transactions",
        reason="a leader ends a late transaction by itself (C93), so none stays late; what is open is listed by "
        "DescribeProducers. A gauge for it is not built",
    ),
    "D119": _marker("re-reading a stable range", "test_what_was_read_once_reads_the_same_for_ever"),
    "D120": _marker(
        "a commit that waits for visibility",
        "test_visible_is_visible_at_once",
        "simulation/test_coordinator.py::test_120_visible_is_visible_at_once",
    ),
}
