"""Rules of operation (draining, moving, deleting, enrolling ahead), and the scripts that show each."""

from __future__ import annotations

from typing import Final

from tests.conformance.table.cases import Case


def _drain(title: str, *names: str) -> Case:
    return Case(title, tuple(f"conformance/cluster/test_draining.py::{name}" for name in names))


def _move(title: str, *names: str) -> Case:
    return Case(title, tuple(f"conformance/cluster/test_moving.py::{name}" for name in names))


def _near(title: str, *names: str) -> Case:
    return Case(title, tuple(f"conformance/replication/test_follower_reads.py::{name}" for name in names))


def _ahead(title: str, *names: str) -> Case:
    return Case(title, tuple(f"conformance/transactions/test_enrolled_ahead.py::{name}" for name in names))


def _election(title: str, *names: str) -> Case:
    return Case(title, tuple(f"conformance/replication/test_elections_below_min_isr.py::{name}" for name in names))


def _cut(title: str, *names: str) -> Case:
    return Case(title, tuple(f"conformance/replication/test_cuts.py::{name}" for name in names))


def _deleted(title: str, *names: str) -> Case:
    return Case(title, tuple(f"conformance/cluster/test_deleted_topics.py::{name}" for name in names))


def _trimmed(title: str, *names: str) -> Case:
    return Case(title, tuple(f"conformance/replication/test_log_starts.py::{name}" for name in names))


def _restored(title: str, *names: str) -> Case:
    return Case(title, tuple(f"conformance/cluster/test_restored_etcd.py::{name}" for name in names))


def _stranger(title: str, *names: str) -> Case:
    return Case(title, tuple(f"conformance/transactions/test_internal_topics.py::{name}" for name in names))


def _token(title: str, *names: str) -> Case:
    return Case(title, tuple(f"conformance/producers/test_session_tokens.py::{name}" for name in names))


def _right(title: str, *names: str) -> Case:
    return Case(title, tuple(f"conformance/cluster/test_access_rules.py::{name}" for name in names))


def _quota(title: str, *names: str) -> Case:
    return Case(title, tuple(f"conformance/cluster/test_quotas.py::{name}" for name in names))


def _channel(title: str, *names: str) -> Case:
    return Case(title, tuple(f"conformance/groups/test_channels.py::{name}" for name in names))


def _careless(title: str, *names: str) -> Case:
    return Case(title, tuple(f"conformance/producers/test_at_most_once.py::{name}" for name in names))


def _changing(title: str, *names: str) -> Case:
    return Case(title, tuple(f"conformance/cluster/test_changing_topics.py::{name}" for name in names))


def _preferred(title: str, *names: str) -> Case:
    return Case(title, tuple(f"conformance/replication/test_preferred_leaders.py::{name}" for name in names))


OPERATIONS: Final[dict[str, Case]] = {
    "preferred 1": _preferred(
        "leadership goes back to the preferred replica soon after its return",
        "test_the_preferred_replica_leads_again_within_a_minute",
        "test_the_time_is_an_option_of_brokers",
    ),
    "at most once 1": _careless(
        "acks=0: what may have arrived is never sent again, what certainly did not is",
        "test_without_acknowledgements_every_record_is_there_once",
        "test_without_acknowledgements_a_lost_answer_makes_no_second_copy",
        "test_without_acknowledgements_a_request_that_comes_late_comes_alone",
        "test_without_acknowledgements_a_leader_that_leads_no_more_is_left",
    ),
    "at most once 2": _careless(
        "nobody asks for it by leaving something out", "test_plain_records_without_acks_are_acknowledged_by_all"
    ),
    "changing 1": _changing(
        "added partitions and topics that are created again reach those who run",
        "test_partitions_that_are_added_are_read_and_written_by_those_who_run",
        "test_a_running_consumer_goes_on_with_a_topic_that_was_created_again",
        "test_a_partition_that_was_assigned_by_its_number_comes_back_with_a_later_topic_that_has_it",
    ),
    "changing 2": _changing(
        "time empties also a partition to which nobody writes",
        "test_records_of_a_partition_to_which_nobody_writes_are_deleted_by_time_on_every_replica",
    ),
    "changing 3": _changing(
        "a topic that becomes a compacted one refuses what could never be compacted",
        "test_a_topic_becomes_a_compacted_one_and_refuses_records_without_a_key_from_then_on",
    ),
    "changing 4": _changing(
        "an offset is committed for the topic that it was read from, and for no other",
        "test_offsets_of_a_topic_that_was_created_again_are_never_committed_for_the_new_one",
    ),
    "changing 5": _changing(
        "what an administrator was told of a topic is not taken back by a broker that hears nothing",
        "test_a_broker_that_is_cut_off_from_etcd_does_not_bring_an_old_topic_back",
    ),
    "quota 1": _quota(
        "above a rate: delayed, told, and nothing is lost",
        "test_a_producer_above_its_quota_writes_at_its_rate_and_loses_nothing",
        "test_a_consumer_above_its_quota_reads_at_its_rate",
    ),
    "quota 2": _quota(
        "a request that is passed on is counted once",
        "test_what_a_broker_passes_on_is_counted_where_the_client_asked_and_nowhere_else",
    ),
    "quota 3": _quota(
        "what cannot be delayed is refused by name",
        "test_partitions_are_made_at_the_rate_of_the_quota_and_the_sdk_waits_for_its_turn",
        "test_transactional_ids_of_an_hour_are_bounded_and_known_ones_go_on",
    ),
    "quota 4": _quota("quotas change while everything runs", "test_quotas_are_set_removed_and_told_to_those_who_may"),
    "drain 1": _drain(
        "leaderships and the controller's role go, replicas stay",
        "test_a_drained_broker_leads_nothing_and_stays_in_every_isr",
        "test_a_clean_stop_drains_first",
        "test_leaderships_are_given_away_five_at_a_time_and_users_first",
    ),
    "drain 2": _drain(
        "one at a time, and who is gone blocks nobody",
        "test_one_broker_drains_at_a_time_and_cancel_ends_it",
        "test_the_drain_of_a_dead_broker_blocks_nobody",
        "test_a_lost_answer_of_etcd_leaves_no_doubt_about_a_drain",
    ),
    "drain 3": _drain(
        "a drain belongs to one incarnation",
        "test_a_new_incarnation_does_not_drain_and_removes_what_the_old_one_left",
        "test_another_broker_than_the_one_that_is_meant_refuses",
    ),
    "drain 4": _drain(
        "who drains is not elected while another can lead", "test_nobody_who_drains_is_elected_while_another_can_lead"
    ),
    "drain 5": _drain("it is skipped where it is of no use", "test_a_cluster_of_two_skips_the_drain"),
    "drain 6": _drain(
        "a coordinator that drains owns nothing while another is there",
        "test_a_drained_coordinator_owns_nothing_until_it_is_started_again",
        "test_a_cancelled_coordinator_owns_shards_again",
        "test_the_only_coordinator_skips_the_drain",
        "test_a_draining_coordinator_that_is_left_alone_owns_shards_again",
    ),
    "drain 7": _drain(
        "a cluster that stops as a whole stops quickly",
        "test_all_coordinators_that_stop_at_once_wait_for_nobody",
        "test_all_brokers_that_stop_at_once_wait_for_nobody",
    ),
    "move 1": _move(
        "a new replica is in the ISR before an old one leaves",
        "test_a_move_keeps_every_record_and_deletes_the_old_log",
        "test_the_old_replica_stays_until_the_new_one_is_in_the_isr",
    ),
    "move 2": _move(
        "any controller goes on with a move, and a deposed one with none",
        "test_the_next_controller_goes_on_with_a_move",
        "test_a_deposed_controller_moves_nothing",
    ),
    "move 3": _move(
        "a log is deleted only when etcd itself says that it belongs elsewhere",
        "test_a_view_that_lags_deletes_no_log_that_counts_again",
        "test_a_view_that_lags_for_longer_than_the_trash_keeps_a_log_deletes_none",
        "test_a_replica_that_moved_away_while_its_broker_was_down_is_removed",
    ),
    "move 4": _move("moves that make no sense are refused", "test_moves_that_make_no_sense_are_refused"),
    "move 5": _move("leadership goes to a member of the ISR", "test_leadership_goes_to_whom_the_operator_names"),
    "move 6": _move(
        "a broker out of use is emptied, one in use gets its share",
        "test_a_decommissioned_broker_is_emptied_and_gets_nothing_new",
        "test_brokers_share_alike_after_the_set_stood_still",
    ),
    "move 7": _move(
        "a change of the replicas raises the epoch, so no leader counts a replica of an older set",
        "test_a_move_keeps_every_record_and_deletes_the_old_log",
        "test_a_leader_of_an_older_set_counts_nobody_back_in",
    ),
    "move 8": _move(
        "a move goes on as soon as what it waited for is there",
        "test_a_move_goes_on_when_its_silent_target_answers_again",
        "test_a_restarted_target_is_not_taken_for_its_dead_incarnation",
        "test_a_move_goes_on_when_fewer_replicas_need_be_in_sync",
    ),
    "move 9": _move(
        "a bounded move takes its time, and those who write do not wait for it",
        "test_a_bounded_move_takes_its_time_and_holds_up_no_writer",
    ),
    "near 1": _near(
        "a follower shows what is committed, and nothing else",
        "test_every_in_sync_follower_shows_what_is_committed",
        "test_what_only_some_replicas_have_is_shown_by_no_follower",
        "test_an_open_transaction_holds_a_reader_back_at_a_follower_too",
        "test_a_follower_names_what_was_aborted",
        "test_a_marker_that_is_not_committed_ends_nothing_at_a_follower",
        "test_a_new_leader_of_an_aborted_transaction_and_its_followers_agree",
        "test_records_that_were_deleted_are_soon_not_shown_by_followers",
    ),
    "near 2": _near(
        "a follower that cannot vouch for what it has sends readers to the leader",
        "test_a_follower_that_is_cut_off_from_everything_answers_nobody",
        "test_a_follower_that_left_the_isr_sends_readers_to_the_leader",
        "test_a_follower_answers_in_a_new_epoch_after_it_has_heard_from_its_leader",
        "test_a_follower_never_calls_an_offset_out_of_range",
        "test_a_follower_answers_only_those_who_ask_for_it",
        "test_a_follower_asks_for_the_same_rights",
    ),
    "near 3": _near(
        "a consumer reads in its rack, and at the leader while nobody answers there",
        "test_a_consumer_reads_in_its_rack_and_goes_to_the_leader_while_nobody_answers_there",
        "test_a_reader_at_the_end_is_told_of_a_new_record_by_the_follower",
        "test_a_reader_that_was_told_of_more_elsewhere_waits_at_a_follower",
    ),
    "ahead 1": _ahead(
        "a decision enrols the next number, which opens without a record",
        "test_the_next_transaction_opens_without_a_record",
        "test_only_partitions_that_were_used_get_a_marker",
        "test_a_long_transaction_is_logged_after_a_while",
    ),
    "ahead 2": _ahead(
        "to a later life of the shard that number may be open",
        "test_a_session_goes_on_under_a_later_coordinator",
        "test_offsets_that_a_later_coordinator_commits_are_seen_at_once",
        "test_an_abort_under_a_later_coordinator_reaches_every_expected_partition",
        "test_a_later_session_never_gets_a_number_that_may_be_open",
        "test_a_later_run_never_gets_a_number_that_may_be_open",
    ),
    "ahead 3": _ahead(
        "what a later life does not know of, a leader asks about",
        "test_the_leader_of_a_dead_producer_heals",
        "test_a_question_does_not_end_a_living_transaction",
    ),
    "epoch 1": Case(
        "nobody leads in an epoch in which a log has batches, whatever etcd says",
        (
            "conformance/replication/test_leader_epochs.py::test_nobody_leads_in_an_epoch_in_which_a_log_has_batches",
            "conformance/replication/test_leader_epochs.py::test_an_epoch_that_is_given_a_second_time_gives_no_offset_a_second_time",
        ),
    ),
    "end 1": Case(
        "a leader that may be deposed tells no end that lacks what was acknowledged",
        tuple(
            f"conformance/replication/test_ends_of_logs.py::{name}"
            for name in (
                "test_a_leader_that_stood_still_tells_no_old_end_when_it_wakes",
                "test_a_leader_that_is_cut_off_from_everybody_tells_no_end",
                "test_a_follower_that_is_back_without_the_old_leaders_knowledge_confirms_nothing_for_another",
                "test_with_one_follower_dead_the_end_is_told_at_once",
                "test_of_three_replicas_the_last_one_that_lives_tells_the_end",
                "test_of_two_replicas_without_a_minimum_the_one_that_lives_tells_the_end",
            )
        ),
    ),
    "rot 1": Case(
        "a replica whose log was set aside vouches for nothing",
        ("conformance/replication/test_leader_epochs.py::test_a_replica_whose_log_was_set_aside_vouches_for_nothing",),
    ),
    "election 1": _election(
        "whoever was in the ISR when it fell below the minimum can lead",
        "test_frozen_followers_take_over_from_a_leader_that_lost_power",
        "test_killed_followers_come_back_to_a_leader_that_lost_power",
        "test_a_lowered_minimum_commits_nothing_while_others_are_eligible",
        "test_an_older_version_that_changes_the_isr_ends_the_eligibility",
    ),
    "election 2": _election(
        "an empty directory is never the whole truth",
        "test_an_empty_directory_is_not_elected_over_two_whole_logs",
        "test_a_committed_spark_batch_is_remembered_though_the_last_member_lost_its_volume",
    ),
    "election 3": _election(
        "after a restart of all: who lost nothing leads at once, else the longest log of all",
        "test_the_first_of_a_killed_cluster_leads_at_once_and_waits_for_nobody",
        "test_after_a_power_cut_of_all_the_longest_log_leads_and_an_empty_one_waits",
    ),
    "election 5": _election(
        "an unclean election is an operator's word, and tells its price first",
        "test_an_operator_may_elect_who_is_left_and_is_told_the_price_first",
    ),
    "election 6": Case(
        "a leader below the minimum seals its log, and leads alone after a power cut",
        tuple(
            f"conformance/replication/test_sealing.py::{name}"
            for name in (
                "test_the_last_member_leads_alone_after_a_power_cut",
                "test_the_last_member_leads_alone_after_one_power_cut_more",
                "test_nothing_is_acknowledged_before_the_seal_is_gone_from_the_disk",
                "test_a_seal_that_was_broken_proves_nothing",
                "test_a_seal_proves_nothing_once_another_one_has_led",
            )
        ),
    ),
    "election 4": _election(
        "a registration proves nothing until its broker has answered",
        "test_a_registration_that_outlives_its_process_is_not_elected",
        "test_a_follower_that_is_not_registered_joins_no_isr",
    ),
    "cut 1": _cut(
        "one broker alone takes no role, and loses what it leads",
        "test_an_isolated_controller_loses_the_role_and_its_partitions_once",
        "test_an_isolated_broker_loses_its_partitions_and_takes_no_role",
        "test_an_isolated_broker_that_starts_again_takes_no_role",
        "test_of_four_brokers_an_isolated_controller_is_replaced",
    ),
    "cut 2": _cut(
        "who is heard by another broker is not dead",
        "test_a_cut_between_two_brokers_costs_each_the_other_as_follower",
        "test_a_broker_that_the_controller_does_not_reach_is_not_dead_while_others_hear_it",
        "test_one_way_cuts_are_survived_as_whole_ones_are",
    ),
    "cut 3": _cut(
        "without a majority nobody is called dead, and a leader that is cut off makes room",
        "test_two_brokers_cut_off_from_each_other_keep_the_controller_and_lead_on",
        "test_cut_in_halves_each_partition_is_led_where_two_of_its_replicas_are",
        "test_a_controller_heard_by_one_of_three_keeps_the_role_and_gives_its_partitions_away",
        "test_when_nobody_reaches_anybody_no_partition_goes_round",
    ),
    "cut 4": _cut(
        "who is silent to everybody is replaced within a bound",
        "test_a_frozen_broker_is_replaced_and_comes_back",
        "test_a_pause_shorter_than_the_bound_changes_nothing",
        "test_of_two_brokers_one_that_is_frozen_is_replaced_when_its_lease_is_over",
    ),
    "cut 5": _cut(
        "a follower that says it cannot write holds nothing up",
        "test_a_follower_whose_disk_is_full_leaves_at_once_and_returns_once",
        "test_a_full_disk_below_the_minimum_is_said_at_once",
    ),
    "retention 1": Case(
        "one clock that is wrong by days deletes nothing",
        tuple(
            f"conformance/cluster/test_retention.py::{name}"
            for name in (
                "test_a_leader_whose_clock_is_days_ahead_deletes_nothing",
                "test_what_is_old_by_most_clocks_is_deleted_whatever_the_leaders_clock_says",
                "test_a_broker_whose_clock_is_days_ahead_keeps_its_trash",
            )
        ),
    ),
    "deleted 1": _deleted(
        "the log of a deleted topic goes to the trash, also when its broker was down, and is removed after a while",
        "test_a_deleted_topic_goes_to_the_trash_and_is_removed_after_the_grace",
        "test_a_broker_that_was_down_finds_at_its_start_that_a_topic_was_deleted",
        "test_etcd_forgets_a_deleted_topic_after_a_while",
    ),
    "deleted 2": _deleted(
        "a topic that is only absent is not served, and loses nothing",
        "test_a_topic_whose_keys_are_gone_is_not_served_and_its_logs_stay",
    ),
    "trimmed 1": _trimmed(
        "records that were deleted stay deleted, whoever leads next",
        "test_records_that_were_deleted_do_not_come_back_with_the_next_leader",
        "test_a_deletion_of_which_the_followers_have_not_heard_is_not_answered",
        "test_a_deletion_is_answered_when_each_follower_that_may_lead_next_has_heard_of_it",
        "test_a_session_that_begins_has_not_told_what_was_deleted",
    ),
    "restore 1": _restored(
        "a restored etcd is noticed, with and without a bump of its revision, by running and by restarted brokers",
        "test_running_brokers_notice_a_restored_etcd_and_lose_nothing",
        "test_brokers_that_were_down_meanwhile_notice_it_at_their_start",
        "test_a_view_that_was_ahead_of_a_restored_etcd_hears_of_changes_again",
    ),
    "restore 2": _restored(
        "an in-sync set of the backup is not believed: every replica is asked",
        "test_an_old_isr_is_not_believed_after_a_restore",
        "test_a_topic_that_comes_back_with_the_backup_has_its_records",
        "test_a_topic_that_etcd_has_lost_is_brought_back_by_its_keys",
    ),
    "restore 3": _restored(
        "nothing is given out twice",
        "test_no_producer_id_and_no_epoch_of_a_shard_is_given_twice",
    ),
    "restore 4": _restored(
        "an epoch that is behind the logs is raised",
        "test_a_partition_behind_its_logs_gets_a_leader_again",
        "test_a_living_leader_whose_epoch_went_back_takes_a_higher_one",
    ),
    "restore and more": Case(
        "what a restore makes doubtful stays so, whatever else happens",
        tuple(
            f"conformance/cluster/test_restored_etcd_with_faults.py::{name}"
            for name in (
                "test_a_failed_log_does_not_make_an_old_value_believed",
                "test_partitions_that_are_added_again_are_led_by_the_log_that_goes_furthest",
                "test_partitions_that_are_truly_new_get_a_leader_after_a_restore",
                "test_a_stalled_disk_does_not_go_in_and_out_of_an_idle_isr",
                "test_a_restore_that_only_the_logs_show_is_noticed_before_anybody_is_elected",
                "test_what_was_committed_by_a_leader_that_wrote_nothing_is_kept_after_a_restore",
            )
        ),
    ),
    "restore and moves": Case(
        "replicas that were moved after the backup are asked too, wherever their logs are now",
        tuple(
            f"conformance/cluster/test_restored_etcd_moved.py::{name}"
            for name in (
                "test_what_was_written_after_a_move_is_there_after_a_restore",
                "test_a_partition_that_was_moved_and_never_written_is_led_again",
                "test_brokers_that_all_were_down_at_the_restore_lose_nothing_either",
                "test_old_replicas_that_are_gone_for_good_leave_the_choice_to_an_operator",
                "test_a_guess_that_came_back_with_a_second_backup_is_no_reason_to_ask_nobody_else",
                "test_brokers_that_come_late_are_asked_as_long_as_nobody_was_elected",
                "test_a_broker_that_registers_before_it_knows_of_the_restore_has_not_told",
                "test_a_guess_that_had_to_wait_ends_with_as_many_replicas_as_the_topic_has",
                "test_a_copy_of_the_call_that_made_a_topic_takes_nothing_from_its_logs",
            )
        ),
    ),
    "stranger 1": _stranger(
        "the cluster's own topics are closed to clients, whoever passes their requests on",
        "test_no_client_reads_or_writes_the_clusters_own_topics_at_any_broker",
        "test_what_a_broker_passes_on_is_judged_by_the_client_that_asked",
        "test_plain_records_of_users_still_go_by_any_broker",
        "test_operators_see_where_the_clusters_own_topics_are",
        "test_no_transaction_takes_in_the_clusters_own_topics",
    ),
    "stranger 2": _stranger(
        "partitions that do not exist cost one look, and are refused before anything is written",
        "test_a_transaction_over_partitions_that_do_not_exist_is_refused_before_it_begins",
    ),
    "stranger 3": _token(
        "a transaction belongs to its session, a producer id to whom it was given",
        "test_a_stranger_who_knows_every_number_reaches_nothing_of_a_transaction",
        "test_a_stranger_cannot_end_a_plain_producer",
        "test_a_session_that_was_fenced_shows_a_token_that_is_worth_nothing",
        "test_a_runs_transaction_is_ended_by_its_own_driver_alone",
        "test_a_driver_whose_run_was_taken_over_still_hears_that_it_has_committed",
    ),
    "stranger 4": _token(
        "tokens are in nobody's way",
        "test_tokens_outlive_leaders_coordinators_and_a_restore_that_has_lost_the_key",
        "test_the_client_library_shows_its_tokens_everywhere",
        "test_a_client_of_an_older_version_shows_no_token_and_works_as_before",
    ),
    "stranger 5": _token(
        "what nobody can have been given is refused",
        "test_ids_and_epochs_that_nobody_can_have_been_given_are_refused",
    ),
    "stranger 6": _right(
        "rights are the client's own at every broker, for the id of a batch's own session, and end at internal topics",
        "test_a_client_whose_rights_end_at_the_first_broker_is_refused_at_the_leader",
        "test_a_client_at_a_door_that_it_shares_cannot_claim_to_be_somebody_else",
        "test_a_batch_is_written_under_the_transactional_id_of_its_session_alone",
        "test_no_rule_opens_the_clusters_own_topics_to_clients",
    ),
    "channel 1": _channel(
        "what was confirmed to the leader of a channel outlives leaders and coordinators, and older leaders are refused",
        "test_what_was_confirmed_to_a_leader_is_told_to_the_next_one",
    ),
    "channel 2": _channel(
        "acknowledgements of a transaction count with it, and a seek forgets them",
        "test_acknowledgements_count_when_their_transaction_commits",
        "test_offsets_and_acknowledgements_of_a_transaction_count_together",
        "test_the_owner_of_the_shard_asks_for_the_outcome_when_no_marker_comes",
        "test_an_abandoned_transaction_gives_its_records_back",
        "test_a_seek_in_the_middle_of_a_transaction_counts",
    ),
    "channel 3": _channel(
        "a channel is known everywhere when its creation is answered, and goes with its topic",
        "test_a_channel_is_known_everywhere_when_its_creation_is_answered_and_goes_with_its_topic",
    ),
}
