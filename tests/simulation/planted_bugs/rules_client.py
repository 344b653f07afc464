"""What the SDK tells its caller of records that it sent."""

from __future__ import annotations

from oncelog.client.admin.admin_base import AdminBase
from oncelog.client.consume import positions, record_reader
from oncelog.client.consume.following import Following
from oncelog.client.consume.positions import Positions
from oncelog.client.produce.writer import Writer
from oncelog.core.produce import producer_window
from oncelog.core.produce.accumulator import Accumulator
from oncelog.core.produce.attempt import Attempt
from oncelog.core.produce.producer_window import ProducerWindow
from oncelog.core.produce.transaction import TransactionCore
from tests.simulation.planted_bugs import edit, without

PLANTS = [
    without(
        "doubt-forgotten",
        "a definite answer to a later attempt ends no doubt about an earlier one",
        edit(Attempt, "wait", ("self.move(incident)", "self.state = _S.DOUBT if incident is _I.LOST else _S.RETRY")),
        "unit/sdk/core/produce/test_producer_window.py::test_a_definite_answer_to_a_later_attempt_ends_no_doubt_about_an_earlier_one",
    ),
    without(
        "new-sequence-on-retry",
        'a time-out is not "not written"',
        edit(producer_window, "judge", ("return Verdict.IN_DOUBT if", "return Verdict.NOT_NOW if")),
        "unit/sdk/core/produce/test_producer_window.py::test_a_refusal_after_a_lost_attempt_is_settled_first",
    ),
    without(
        "settle-on-doubt-skipped",
        "of a batch in doubt the leader is asked before anything is said",
        edit(
            ProducerWindow,
            "_can_settle",
            ("return batch.identity.is_idempotent and not batch.identity.is_transactional", "return False"),
        ),
        "unit/sdk/core/produce/test_producer_window.py::test_not_written_is_final_for_all_that_follow",
    ),
    without(
        "send-past-doubt",
        "while a batch waits to be sent again nothing new follows it",
        edit(
            ProducerWindow,
            "may_send_new",
            ("return all(batch.attempt.is_in_flight for batch in self._unresolved)", "return True"),
        ),
        "unit/sdk/core/produce/test_producer_window.py::test_after_a_failure_only_the_oldest_is_sent_again_alone",
    ),
    without(
        "at-most-once-again",
        "with acks=0 a batch that may have arrived is never sent again",
        edit(
            ProducerWindow,
            "answered",
            ("if verdict is Verdict.IN_DOUBT and self._at_most_once:", "if False:"),
        ),
        "unit/sdk/core/produce/test_producer_window.py::test_at_most_once_a_batch_that_may_have_arrived_is_done",
        "conformance/producers/test_at_most_once.py::test_without_acknowledgements_a_lost_answer_makes_no_second_copy",
        "conformance/producers/test_at_most_once.py::test_without_acknowledgements_a_request_that_comes_late_comes_alone",
    ),
    without(
        "at-most-once-error-unheard",
        "with acks=0 a batch of which the leader told an error does not count as sent",
        edit(
            ProducerWindow,
            "answered",
            ("Verdict.WRITTEN if is_unanswered(error) else Verdict.REFUSED", "Verdict.WRITTEN"),
        ),
        "unit/sdk/core/produce/test_producer_window.py::test_at_most_once_an_error_that_was_told_and_leaves_it_open_fails_the_batch",
        "unit/sdk/client/produce/test_producer_at_most_once.py"
        "::test_without_acknowledgements_an_error_told_of_a_batch_fails_it_and_it_is_not_sent_again",
    ),
    without(
        "encoded-batch-joined",
        "no record joins a batch whose bytes are made",
        edit(Accumulator, "_joins", ("not batch.takes_rows", "batch.arrow is not None")),
        "unit/sdk/core/produce/test_accumulator.py::test_no_row_joins_a_batch_that_is_encoded",
        "unit/sdk/client/produce/test_recovery.py::test_no_record_vanishes_behind_a_batch_that_moved_to_the_new_topic",
        "property/test_sent_records.py::test_what_was_acknowledged_is_in_the_log_once",
    ),
    without(
        "late-send-queued",
        "a send that waited is written in its own transaction or nowhere",
        edit(Writer, "_reserve", ("if self._check is not None:", "if False:")),
        "unit/sdk/client/produce/test_late_sends.py"
        "::test_a_send_that_waited_for_the_topic_is_not_written_in_the_next_transaction",
        "unit/sdk/client/produce/test_late_sends.py::test_a_send_that_waits_for_room_while_its_transaction_commits_is_refused",
        "property/test_sent_in_transactions.py::test_a_record_is_in_its_own_transaction_or_nowhere",
    ),
    without(
        "added-partition-unseen",
        "a running consumer reads the partitions that are added",
        edit(Following, "look", ("self._add_new()", "pass")),
        "unit/sdk/client/consume/test_following.py::test_one_long_wait_is_enough_to_find_an_added_partition",
        "conformance/cluster/test_changing_topics.py::test_partitions_that_are_added_are_read_and_written_by_those_who_run",
    ),
    without(
        "added-partition-by-reset",
        "a partition that a running consumer finds begins at its first record, whatever auto_offset_reset says",
        edit(Positions, "_reset_to", ("if cursor.begins_at_first:", "if False:")),
        "unit/sdk/client/consume/test_following.py"
        "::test_a_running_consumer_of_a_topic_reads_an_added_partition_from_its_first_record",
    ),
    without(
        "recreated-topic-unseen",
        "a topic that was created again is another one",
        edit(Following, "look", ("problem = self._replace_recreated()", "problem = None")),
        "unit/sdk/client/consume/test_following.py::test_a_topic_that_was_created_again_is_read_from_its_first_record",
        "conformance/cluster/test_changing_topics.py::test_a_running_consumer_goes_on_with_a_topic_that_was_created_again",
    ),
    without(
        "missing-partition-forgotten",
        "a partition that was assigned by its number is read when a later topic of the name has it",
        edit(Following, "_miss", ("self._missing[partition] = is_paused", "pass")),
        "unit/sdk/client/consume/test_following.py"
        "::test_a_partition_that_was_assigned_by_number_comes_back_when_the_topic_has_it_again",
        "conformance/cluster/test_changing_topics.py"
        "::test_a_partition_that_was_assigned_by_its_number_comes_back_with_a_later_topic_that_has_it",
    ),
    without(
        "offsets-by-name",
        "an offset belongs to the topic that it was read from, not to whichever has its name",
        [
            edit(module, "offset_of", (", topic_id=cursor.id.topic_id", ""))
            for module in (positions, record_reader)  # each has it under its own name
        ],
        "unit/sdk/client/consume/test_group_offsets.py::test_offsets_of_a_topic_that_was_created_again_are_left_out_with_a_warning",
        "conformance/cluster/test_changing_topics.py"
        "::test_offsets_of_a_topic_that_was_created_again_are_never_committed_for_the_new_one",
    ),
    without(
        "late-broker-believed",
        "a broker that knows less than the client was told before does not describe the cluster",
        edit(AdminBase, "_describe", ("if reply.revision >= known:", "if True:")),
        "unit/sdk/client/admin/test_admin_base.py::test_what_was_described_once_is_not_taken_back_by_a_broker_that_is_late",
        "conformance/cluster/test_changing_topics.py::test_a_broker_that_is_cut_off_from_etcd_does_not_bring_an_old_topic_back",
    ),
    without(
        "commit-without-flush",
        "a transaction in which a send failed is not committed",
        [
            edit(TransactionCore, "note_failure", ("failure is not None and self.state is _S.OPEN", "False")),
            edit(TransactionCore, "flushed", ("if failure is not None:", "if False:")),
        ],
        "unit/sdk/client/produce/transactions/test_transaction.py::test_a_failed_send_that_nobody_awaited_fails_the_commit",
    ),
]
