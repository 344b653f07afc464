"""Cases E to K: durable state, replication, the log, offsets, and Spark from end to end; most are unit or integration tests.

Numbers that are in no table belong to what does not exist here: fetch sessions, share groups.
"""

from __future__ import annotations

from typing import Final

from tests.conformance.table.cases import Case

_SEGMENTS: Final = "unit/partition_leader/log/test_segments.py::"
_TIMEOUTS: Final = "unit/coordinator/core/transactions/test_timeouts.py::"
_LEADER: Final = "unit/partition_leader/"
_STATE: Final = f"{_LEADER}core/producers/test_producer_state.py::"
_REPLICAS: Final = f"{_LEADER}core/replication/test_replica_set.py::"
_ELECTION: Final = f"{_LEADER}core/cluster/test_election.py::"
_EPOCHS: Final = f"{_LEADER}core/log/test_leader_epochs.py::"
_QUEUE: Final = f"{_LEADER}partition/test_leadership.py::"
_LOG: Final = f"{_LEADER}log/test_partition_log.py::"
_COMPACTION: Final = f"{_LEADER}log/compaction/test_compactable_log.py::"
_COMPACTED: Final = "conformance/replication/test_compaction_cases.py::"
_OFFSETS: Final = "unit/coordinator/core/offsets/test_offset_table.py::"
_MEMBERS: Final = "unit/coordinator/core/groups/test_membership.py::"
_WIRE: Final = "conformance/groups/test_members.py::"
_GROUPS: Final = "unit/coordinator/core/groups/test_group_table.py::"
_FENCES: Final = "unit/coordinator/core/group_shard/test_member_fences.py::"
_PARTICIPANTS: Final = "unit/coordinator/core/transactions/test_participant_decisions.py::"
_SINK: Final = "integration/test_spark_sink.py::"
_SIMULATION: Final = "simulation/test_coordinator.py::"


def _in(prefix: str, title: str, *names: str) -> Case:
    return Case(title, tuple(name if "::" in name else f"{prefix}{name}" for name in names))


LATER: Final[dict[str, Case]] = {
    # ---- E: durable state
    "E121": _in(_STATE, "an open transaction in a snapshot", "test_an_open_transaction_survives_a_snapshot"),
    "E122": _in(_STATE, "a damaged snapshot", "test_a_damaged_snapshot_is_refused"),
    "E125": _in(
        _COMPACTION,
        "the state of a producer from a compacted log",
        "test_the_last_batch_of_a_producer_stays_empty_until_a_newer_one_takes_its_place",
        "property/test_compaction.py::test_a_fresh_reader_finds_the_last_committed_value_of_each_key",
        "conformance/replication/test_compaction.py::test_a_replica_that_lost_everything_is_fed_from_a_compacted_log",
        "conformance/replication/test_compaction.py"
        "::test_a_follower_whose_log_ends_within_a_gap_of_its_leader_catches_up",
        _COMPACTED + "test_the_last_batch_of_a_producer_stays_empty_also_for_a_replica_that_lost_its_disk",
    ),
    "E127": _in(
        f"{_LEADER}log/test_storage_crashes.py::",
        "a crash after every step of the disk",
        "test_after_any_crash_a_log_is_a_sound_prefix_of_itself",
    ),
    # ---- F: replication
    "F128": _in(_REPLICAS, "joining a new leader's ISR", "test_a_new_leader_admits_nobody_before_its_epochs_start"),
    "F129": _in(
        _REPLICAS,
        "the watermark below the minimum",
        "test_the_watermark_stands_still_below_min_insync_and_goes_on_after_the_join",
    ),
    "F130": _in(
        _REPLICAS,
        "an ISR update that is refused",
        "test_while_a_join_is_in_flight_the_larger_set_counts",
        "test_an_older_answer_of_the_store_changes_nothing",
    ),
    "F131": _in(_REPLICAS, "one ISR update at a time", "test_a_shrink_counts_only_when_it_is_committed"),
    "F132": _in(_REPLICAS, "an idle follower at the log end", "test_a_follower_at_the_log_end_never_leaves"),
    "F133": _in(
        _REPLICAS,
        "an older incarnation of a follower",
        "test_acknowledgements_of_an_older_session_or_incarnation_do_not_count",
    ),
    "F135": _in(_EPOCHS, "where two logs part", "test_end_of_the_largest_epoch_at_or_below"),
    "F136": _in(
        _EPOCHS,
        "the table of leader epochs",
        "test_epochs_never_fall",
        "test_truncating_the_tail",
        "test_truncating_the_head",
        "test_the_table_survives_its_bytes",
    ),
    "F138": _in(
        _QUEUE,
        "acks=all below the minimum",
        "test_below_min_insync_nothing_is_written",
        "test_an_isr_that_shrinks_after_the_append_is_an_unknown_outcome_and_the_retry_is_deduplicated",
    ),
    "F139": _in(
        "unit/sdk/test_config.py::", "a value of acks that does not exist", "test_unknown_acks_have_their_own_error"
    ),
    "F142": _in(
        _ELECTION,
        "an ISR of which no member lives",
        "test_an_eligible_replica_leads_when_the_isr_is_gone",
        "test_nobody_outside_of_the_isr_is_ever_elected",
    ),
    "F143": _in(
        _ELECTION,
        "a last known leader that is gone",
        "test_a_dead_registration_neither_leads_nor_keeps_others_from_being_asked",
    ),
    # ---- G: the log
    "G144": _in(
        f"{_LEADER}log/test_batch_stamping.py::",
        "a leader's batch at another offset",
        "test_a_follower_refuses_gaps_and_old_or_new_epochs",
    ),
    "G145": _in(
        _LOG,
        "retention by time, size and start",
        _SEGMENTS + "test_whole_segments_go_by_time_size_and_start",
        f"{_LEADER}core/log/test_retention.py::test_whole_segments_oldest_first",
    ),
    "G146": _in(
        _SEGMENTS, "records that are not committed are not deleted", "test_delete_records_is_durable_and_bounded"
    ),
    "G149": _in(
        f"{_LEADER}core/log/test_segment.py::",
        "where a segment ends",
        "test_a_segment_ends_by_size_age_index_and_distance",
        "test_each_batch_of_a_group_is_judged_as_if_those_before_it_were_in",
    ),
    "G150": _in(
        _COMPACTION,
        "a committed transaction all of whose records were replaced",
        "test_the_marker_of_a_superseded_transaction_stays_for_its_time_and_then_goes",
        "test_a_marker_stays_while_a_record_of_its_transaction_does",
        "test_a_marker_stays_while_a_snapshot_holds_its_transaction_open",
        "conformance/replication/test_compaction.py"
        "::test_all_replicas_shrink_and_readers_find_the_last_value_of_each_key",
        _COMPACTED
        + "test_a_replaced_transaction_goes_its_marker_stays_for_its_time_and_the_last_one_of_its_id_for_ever",
        _COMPACTED + "test_tombstones_and_markers_wait_for_a_replica_that_is_away_and_go_when_it_has_them",
    ),
    "G151": _in(
        _COMPACTION,
        "an aborted transaction in a compacted log",
        "test_aborted_data_goes_in_the_first_pass_whatever_its_key_and_its_marker_later",
        "test_the_marker_of_aborted_data_stays_in_the_pass_that_removes_it_though_its_time_is_over",
        _COMPACTED + "test_aborted_data_goes_whatever_its_key_replaces_nothing_and_its_marker_goes_later",
    ),
    "G152": _in(
        _COMPACTION,
        "the last batch of a producer",
        "test_the_last_batch_of_a_producer_stays_empty_until_a_newer_one_takes_its_place",
        _COMPACTED + "test_the_last_batch_of_a_producer_stays_empty_also_for_a_replica_that_lost_its_disk",
    ),
    "G154": _in(
        _COMPACTION,
        "a tombstone",
        "test_a_tombstone_stays_for_its_time_after_the_first_pass_and_then_goes",
        "test_a_tombstone_that_the_keys_in_memory_do_not_reach_stays_though_its_time_is_over",
        _COMPACTED + "test_a_tombstone_is_there_for_its_time_after_it_was_cleaned_and_then_goes",
        _COMPACTED + "test_tombstones_and_markers_wait_for_a_replica_that_is_away_and_go_when_it_has_them",
    ),
    "G155": _in(
        f"{_LEADER}log/compaction/test_replacement.py::",
        "a crash in the middle of a compaction",
        "test_a_crash_at_any_step_leaves_every_record_once",
        "test_an_error_at_any_step_leaves_the_log_whole_or_fails_it",
        _COMPACTED + "test_a_broker_that_dies_between_two_renames_of_a_compaction_has_every_last_record_once",
    ),
    # ---- H: groups and offsets
    "H156": _in(
        _MEMBERS,
        "a first join without a member id",
        "test_a_bad_join_is_refused_by_name",
        _WIRE + "test_a_join_without_a_member_id_is_refused_and_one_with_it_is_a_member",
    ),
    "H157": _in(
        _MEMBERS,
        "a heartbeat of an unknown member",
        "test_an_unknown_member_is_refused",
        "test_an_epoch_that_is_too_old_is_fenced",
        _WIRE + "test_members_that_are_unknown_or_in_another_epoch_are_fenced",
    ),
    "H158": _in(
        _MEMBERS,
        "a heartbeat while partitions move",
        "test_a_partition_moves_when_its_owner_has_let_go_and_not_before",
        "test_a_member_that_keeps_a_partition_never_stops_owning_it",
        _WIRE + "test_a_partition_that_is_added_is_read_without_a_word",
    ),
    "H159": _in(
        _MEMBERS,
        "a static member that comes back",
        "test_a_static_member_comes_back_to_its_partitions_without_a_new_epoch",
        "test_an_instance_id_that_is_in_use_is_not_released",
        _WIRE + "test_a_static_member_comes_back_and_nobody_else_moves",
    ),
    "H160": _in(
        _MEMBERS,
        "a group that is full",
        "test_a_full_group_takes_nobody_and_goes_on",
        "test_a_static_member_comes_back_into_a_full_group",
    ),
    "H162": _in(
        _MEMBERS,
        "a member epoch that is too high or too old",
        "test_a_wrong_epoch_is_fenced_and_a_new_membership_goes_on",
        "test_an_epoch_that_is_too_old_is_fenced",
        _WIRE + "test_members_that_are_unknown_or_in_another_epoch_are_fenced",
    ),
    "H163": _in(
        _MEMBERS,
        "a partition that moves",
        "test_a_partition_moves_when_its_owner_has_let_go_and_not_before",
        "test_a_partition_moves_when_the_session_of_its_owner_has_ended",
        _WIRE + "test_a_partition_moves_when_its_owner_says_that_it_let_go",
        _WIRE + "test_a_fail_over_in_the_middle_of_a_hand_over_changes_nothing",
    ),
    "H164": _in(
        _FENCES,
        "commits of a group with and without members",
        "test_only_members_commit_while_there_are_some",
        "test_a_member_of_a_group_that_has_expired_commits_nothing",
    ),
    "H165": _in(
        _FENCES,
        "commits while partitions move",
        "test_an_offset_in_a_transaction_is_fenced_like_a_plain_one",
        "test_a_member_commits_what_it_lets_go_until_it_says_so",
    ),
    "H167": _in(
        _OFFSETS, "offsets of an open transaction", "test_offsets_of_a_transaction_are_pending_until_its_marker"
    ),
    "H168": _in(_OFFSETS, "a plain commit beside a transaction", "test_the_newest_record_wins_not_the_last_marker"),
    "H170": _in(
        _OFFSETS,
        "offsets that are refused or cannot be deleted",
        "test_bad_values_are_refused_one_by_one",
        "test_an_offset_that_an_open_transaction_holds_is_not_deleted",
        "unit/coordinator/core/group_shard/test_shard_table.py::"
        "test_offsets_are_not_deleted_under_the_members_that_read_them",
    ),
    "H171": _in(
        _FENCES,
        "the epochs in which a commit counts",
        "test_a_commit_counts_from_the_partitions_epoch_to_the_members",
        "test_a_commit_for_a_partition_that_was_handed_over_is_refused",
        "test_a_partition_that_comes_back_has_a_new_epoch",
        _WIRE + "test_a_commit_of_the_owner_before_is_refused_also_in_a_transaction",
    ),
    # ---- I: fetch, share, client
    "I172": Case(
        "fetch sessions",
        reason="there are none: a reader asks over a link, whose stream is the session, and each request says in full what it "
        "wants. So no id or epoch of a session can be wrong, and no cache of sessions can be full",
    ),
    "I173": Case(
        "an acknowledgement that is not the member's to give",
        reason="there are no share groups: a record is read by the member that owns its partition, and done is an offset",
    ),
    "I175": Case(
        "the state of a share group cannot be written",
        reason="there are no share groups, so there is no state of single records beside the committed offsets",
    ),
    "I176": Case(
        "the log start passes records that are in flight",
        reason="there are no share groups, so no record is in flight at the broker; a reader below the log start is told so by "
        "name, or moved by its `auto_offset_reset`",
    ),
    # ---- K: end to end with Spark
    "K177": _in(
        _SINK,
        "a task that fails after it has written",
        "test_a_task_that_fails_and_is_tried_again_is_written_once",
        "test_a_stream_is_written_once_with_tasks_that_fail",
    ),
    "K178": _in(
        _PARTICIPANTS,
        "a second attempt that also finishes",
        "test_only_the_winners_commit_and_the_marker_names_them",
        f"{_SIMULATION}test_178_179_many_writers_through_a_fail_over",
    ),
    "K179": _in(
        _PARTICIPANTS,
        "a driver that dies after its commit",
        "test_a_replayed_batch_is_already_committed_for_anyone",
        f"{_SINK}test_a_replayed_micro_batch_changes_nothing",
        "integration/test_spark_crash.py::test_a_driver_that_dies_in_mid_commit_writes_each_row_once",
    ),
    "K180": _in(
        _PARTICIPANTS,
        "a driver that dies before its commit",
        _TIMEOUTS + "test_a_lease_is_renewed_by_any_participant_and_ends_what_nobody_finishes",
        f"{_SIMULATION}test_111_180_what_nobody_ends_is_aborted_and_readers_go_on",
    ),
    "K182": _in(
        "integration/test_spark_executors.py::",
        "an executor that dies in the middle of a batch",
        "test_each_row_is_there_once",
        "test_an_executor_died_on_the_way_and_another_one_went_on",
    ),
    "K184": _in(
        "integration/test_spark_source.py::",
        "a source that starts again",
        "test_a_first_micro_batch_that_fails_begins_again_where_it_began",
        "test_source_and_sink_together_move_each_record_once",
    ),
    "K185": _in(
        "simulation/test_cluster.py::", "random faults under all kinds of work", "test_a_cluster_keeps_its_promises"
    ),
}
