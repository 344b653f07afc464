"""Requests that no honest client sends, by their number in the list of bad inputs, and the tests that show each refusal."""

from __future__ import annotations

from typing import Final

from tests.conformance.table.cases import Case

_CHECK: Final = "unit/partition_leader/core/log/test_batch_check.py::"
_BY_NAME: Final = f"{_CHECK}test_bad_batches_are_refused_by_name"


def _input(title: str, *names: str) -> Case:
    return Case(
        title, tuple(name if "::" in name else f"conformance/producers/test_hostile_input.py::{name}" for name in names)
    )


HOSTILE: Final[dict[str, Case]] = {
    "input 1-7": _input("bytes, lengths, versions, attributes and counts that do not agree", _BY_NAME),
    "input 8, 12": _input(
        "counts that the bytes cannot hold",
        "test_counts_that_the_bytes_cannot_hold_are_refused",
        "test_as_many_offsets_as_are_allowed_end_segments_and_no_broker",
        f"{_CHECK}test_no_real_batch_is_below_the_bounds",
        f"{_CHECK}test_a_count_beside_its_offsets_is_refused",
    ),
    "input 57, 58, 60": _input(
        "payloads that cannot be decoded",
        "test_a_payload_that_would_stop_every_consumer_is_refused",
        "unit/partition_leader/core/log/test_payload_check.py::test_a_payload_that_nobody_can_decode_is_refused",
        "unit/partition_leader/core/log/test_payload_check.py::test_another_number_of_rows_than_the_header_says_is_refused",
        "unit/partition_leader/core/log/test_payload_check.py::test_a_header_without_a_name_is_refused",
    ),
    "input 9, 10, 14, 15, 18, 26": _input("batches, producers and epochs that cannot be", _BY_NAME),
    "input 11": _input("what only a leader writes", f"{_CHECK}test_what_the_leader_writes_is_ignored"),
    "input 16, 17": _input(
        "epochs and shards that do not belong",
        "test_a_batch_with_another_shard_than_its_ids_is_refused_and_the_transaction_lives",
        "test_a_marker_of_no_shard_is_refused_and_the_queue_goes_on",
        "test_a_settled_batch_that_cannot_be_is_refused_and_the_queue_goes_on",
        "test_the_writer_of_a_shard_cannot_be_fenced_by_a_question",
        f"{_CHECK}test_a_question_about_a_batch_that_cannot_be_is_refused",
    ),
    "input 36": _input(
        "more names than a record holds",
        "test_more_names_than_a_record_holds_are_refused_and_the_shard_lives_on",
        "test_the_largest_record_of_a_shard_is_below_what_its_log_takes",
    ),
    "input 37": _input(
        "the same partition twice", "test_a_partition_that_stands_twice_in_one_request_is_refused_by_name"
    ),
    "input 50": _input("another partition's batch", f"{_CHECK}test_another_topic_or_partition_refuses"),
    "input 51, 52": _input(
        "offsets, names and metadata beyond their bounds",
        "test_offsets_of_a_transaction_are_bounded_by_what_their_marker_writes",
        "test_offsets_fit_into_the_groups_log_or_are_refused_by_name",
    ),
    "memory": _input(
        "what unpacks to more than a request may take",
        "conformance/cluster/test_bounds.py::test_one_batch_that_unpacks_to_too_much_is_refused_with_its_offset_and_a_way_past_it",
        "conformance/cluster/test_bounds.py::test_small_batches_that_unpack_to_much_are_answered_a_few_at_a_time",
        "conformance/cluster/test_bounds.py::test_many_small_records_are_answered_a_part_of_a_batch_at_a_time",
    ),
    "open files": _input(
        "more partitions than brokers have room for",
        "conformance/cluster/test_bounds.py::"
        "test_partitions_for_which_no_broker_has_room_are_refused_with_the_numbers_and_nothing_is_written",
    ),
    "a shard that cannot live": _input(
        "is seen, and tried again with patience",
        "test_a_shard_that_cannot_live_is_seen_and_tried_again_with_patience",
    ),
    "a log that cannot be opened": _input(
        "keeps no other from service", "test_a_broker_that_cannot_open_one_log_serves_the_others"
    ),
    "inputs by number": _input(
        "each of them, through the clients' door of a whole cluster, and over real sockets",
        "hostile_inputs/test_hostile_inputs.py::test_every_number_of_the_list_has_a_row",
        "hostile_inputs/test_hostile_inputs.py::test_a_core",
        "hostile_inputs/test_hostile_inputs.py::test_a_cluster",
        "integration/test_hostile_inputs.py::test_over_real_sockets",
        "fuzz/test_fuzz.py::test_the_kept_corpus_breaks_no_promise",
    ),
    "input, any": _input(
        "whatever a mutated header says",
        "property/test_hostile_batches.py::test_a_mutated_header_is_refused_by_name_or_appended_soundly",
        "property/test_hostile_batches.py::test_any_bytes_with_any_length_are_refused_by_name",
        "property/test_hostile_batches.py::test_any_question_about_a_batch_is_answered_or_refused_by_name",
    ),
}
