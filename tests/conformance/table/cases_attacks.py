"""What a stranger once got out of a running cluster, each with the tests that show that it is gone.

An attack is named by what it did. The first words say what the attacker sent or held.
"""

from __future__ import annotations

from typing import Final

from tests.conformance.table.cases import Case

_INPUT: Final = "conformance/producers/test_hostile_input.py::"
_OWN: Final = "conformance/transactions/test_internal_topics.py::"
_TOKENS: Final = "conformance/producers/test_session_tokens.py::"
_BOUNDS: Final = "conformance/cluster/test_bounds.py::"
_BUDGETS: Final = "integration/runtime/test_grpc_budgets.py::"
_CONTAINED: Final = "unit/partition_leader/test_contained_faults.py::"
_FAILED: Final = "conformance/replication/test_failed_logs.py::"
_STORAGE: Final = "unit/partition_leader/log/test_storage_cases.py::"
_LIES: Final = "unit/sdk/client/test_lying_servers.py::"
_LINKS: Final = "integration/runtime/test_lying_servers.py::"
_RECORDS: Final = "unit/sdk/client/consume/test_fetched_records.py::"

ATTACKS: Final[dict[str, Case]] = {
    "a request that a broker passes on": Case(
        "wrote committed offsets and transaction records with the broker's own rights",
        (
            _OWN + "test_no_client_reads_or_writes_the_clusters_own_topics_at_any_broker",
            _OWN + "test_what_a_broker_passes_on_is_judged_by_the_client_that_asked",
            "conformance/cluster/test_access_rules.py::test_a_client_whose_rights_end_at_the_first_broker_is_refused_at_the_leader",
            "conformance/cluster/test_access_rules.py::test_no_rule_opens_the_clusters_own_topics_to_clients",
        ),
    ),
    "a question about a producer of the cluster's own topics": Case(
        "fenced the writer of a coordinator's shard for ever",
        (
            _INPUT + "test_the_writer_of_a_shard_cannot_be_fenced_by_a_question",
            _OWN + "test_no_client_reads_or_writes_the_clusters_own_topics_at_any_broker",
        ),
    ),
    "one transaction over 9,000 topics that do not exist": Case(
        "stopped all coordinators",
        (
            _OWN + "test_a_transaction_over_partitions_that_do_not_exist_is_refused_before_it_begins",
            "unit/coordinator/effects/test_known_topics.py::test_a_crowd_of_strangers_costs_two_looks_and_a_pause",
        ),
    ),
    "batches of 2 KB that unpack to 60 MiB, read by FetchRecords or a consumer": Case(
        "took 7 GB of a broker and 2.6 GB of a consumer",
        (
            _BOUNDS + "test_small_batches_that_unpack_to_much_are_answered_a_few_at_a_time",
            _BOUNDS + "test_one_batch_that_unpacks_to_too_much_is_refused_with_its_offset_and_a_way_past_it",
            _RECORDS + "test_one_record_unpacks_one_batch_and_not_all_that_were_fetched",
            _RECORDS + "test_a_list_of_records_ends_where_it_has_unpacked_enough",
        ),
    ),
    "one envelope of 100 fetches whose answers nobody reads": Case(
        "took 5.7 GB of a broker",
        (
            _BUDGETS + "test_a_peer_that_reads_no_answers_holds_its_connections_share_and_others_go_on",
            _BUDGETS + "test_answers_that_nobody_paid_for_are_refused_when_there_is_no_room",
        ),
    ),
    "a command that ends in an exception": Case(
        "lost the commands beside it, and each kept its slot until a restart",
        (
            _CONTAINED + "test_a_command_that_cannot_be_decided_is_refused_alone",
            _CONTAINED + "test_a_fault_of_the_step_answers_everybody_and_ends_the_leadership",
            _INPUT + "test_a_settled_batch_that_cannot_be_is_refused_and_the_queue_goes_on",
            _BUDGETS + "test_unary_calls_are_bounded_per_peer_and_give_back_what_they_held",
        ),
    ),
    "a batch that says another number of records than it has": Case(
        "stopped every consumer of the partition at its offset, and left a leader's file beyond its state",
        (
            _INPUT + "test_counts_that_the_bytes_cannot_hold_are_refused",
            _INPUT + "test_a_payload_that_would_stop_every_consumer_is_refused",
            _INPUT + "test_as_many_offsets_as_are_allowed_end_segments_and_no_broker",
            _CONTAINED + "test_a_log_that_could_not_apply_what_it_wrote_refuses_everything",
        ),
    ),
    "the numbers of somebody else's transaction or producer": Case(
        "wrote into it, ended it, or shut its producer out",
        (
            _TOKENS + "test_a_stranger_who_knows_every_number_reaches_nothing_of_a_transaction",
            _TOKENS + "test_a_stranger_cannot_end_a_plain_producer",
            _TOKENS + "test_ids_and_epochs_that_nobody_can_have_been_given_are_refused",
            "conformance/cluster/test_access_rules.py::test_a_batch_is_written_under_the_transactional_id_of_its_session_alone",
        ),
    ),
    "60 messages of 64 MiB that are never finished": Case(
        "were kept for as long as their sender liked",
        (
            _BUDGETS + "test_half_messages_end_their_connection_and_nobody_elses",
            _BUDGETS + "test_one_half_message_ends_after_its_time",
            _BUDGETS + "test_who_sends_much_and_finishes_it_is_never_ended",
        ),
    ),
    "4,200 links of one peer": Case(
        "locked everybody else out",
        (
            _BUDGETS + "test_one_peer_cannot_take_all_links",
            _BUDGETS + "test_streams_without_a_hello_take_no_place_of_a_link",
        ),
    ),
    "a fetch of one partition 100,000 times": Case(
        "took the broker from everybody else for seconds",
        (
            "unit/partition_leader/rpc/test_fetch.py::test_a_partition_that_stands_twice_is_refused",
            "unit/partition_leader/rpc/test_fetch.py::test_more_partitions_than_are_allowed_are_refused",
        ),
    ),
    "a commit of offsets that is within its limits and above the log's": Case(
        "ended the shard's life, and one with a strange topic id ended each further one",
        (
            _INPUT + "test_offsets_fit_into_the_groups_log_or_are_refused_by_name",
            _INPUT + "test_offsets_of_a_transaction_are_bounded_by_what_their_marker_writes",
            _INPUT + "test_the_largest_record_of_a_shard_is_below_what_its_log_takes",
        ),
    ),
    "one flipped digit in a replica's partition.json": Case(
        "left the partition without a leader after a restart, beside two sound replicas",
        (
            _FAILED + "test_a_flipped_digit_in_the_identity_of_one_replica_costs_no_partition_its_leader",
            _STORAGE + "test_whatever_byte_of_an_identity_is_flipped_the_log_is_kept",
        ),
    ),
    "one topic with 10,000 partitions": Case(
        "used up every open file",
        (
            _BOUNDS
            + "test_partitions_for_which_no_broker_has_room_are_refused_with_the_numbers_and_nothing_is_written",
            _INPUT + "test_a_broker_that_cannot_open_one_log_serves_the_others",
        ),
    ),
    "a shard that cannot live": Case(
        "began anew 17 times a second, and the cluster was said to be healthy",
        (_INPUT + "test_a_shard_that_cannot_live_is_seen_and_tried_again_with_patience",),
    ),
    "a follower with a full disk, or cut off": Case(
        "held up every write with acks=all for ten seconds",
        (
            "conformance/replication/test_cuts.py::test_a_follower_whose_disk_is_full_leaves_at_once_and_returns_once",
            "conformance/replication/test_cuts.py::test_a_full_disk_below_the_minimum_is_said_at_once",
            "conformance/replication/test_cuts.py::test_a_cut_between_two_brokers_costs_each_the_other_as_follower",
        ),
    ),
    "a server that lies to its clients": Case(
        "made a consumer read records twice, of other partitions, not at all, or wait without a word",
        (
            _LIES + "test_no_record_comes_twice_or_is_left_out",
            _LIES + "test_an_answer_that_does_not_fit_its_question_is_told_and_not_used",
            _LIES + "test_an_error_that_never_passes_is_told_in_time_and_reading_goes_on_when_it_passes",
            _LIES + "test_a_leader_that_does_not_wait_is_not_asked_without_end",
            _LIES + "test_an_acknowledgement_of_something_else_is_none",
            _LIES + "test_metadata_that_cannot_be_sends_a_client_nowhere",
            _LINKS + "test_what_no_link_sends_is_named_and_ends_it",
            _LINKS + "test_a_server_that_does_not_prove_itself_gets_nothing",
        ),
    ),
    "a partition twice in one Produce": Case(
        "was written twice",
        (_INPUT + "test_a_partition_that_stands_twice_in_one_request_is_refused_by_name",),
    ),
}
