"""The rules of channels: what was acknowledged never comes again, nothing is lost, and each record has one owner.

The seeds of `test_channel_work.py` that noticed when these were written:

    ack-left-out, settled-too-far, ranges-forgotten   1 to 5
    confirmed-early                                   0, 1, 2, 5
    old-deadline                                      3
    key-overtaken                                     9
    abort-settles, abort-kept                         0 to 5, with transactions
    left-takes-along                                  1, 3, 4, 5, with transactions
    pending-ignored                                   5, with transactions

`losses-told-by-the-end` was noticed by 0 to 11 of `test_channel_losses.py`.
"""

from __future__ import annotations

from oncelog.client.work import settling as client_settling
from oncelog.client.work.assurance import Assurance
from oncelog_coordinator.core.channels import channel_table, lost_records
from oncelog_coordinator.core.channels.channel_table import ChannelTable
from oncelog_partition_leader.core.channels import settling
from oncelog_partition_leader.core.channels.delivery import Delivery
from oncelog_partition_leader.core.channels.open_transactions import OpenTransactions
from oncelog_partition_leader.core.channels.record.entry import Entry
from oncelog_partition_leader.core.channels.record.fates import Fates
from oncelog_partition_leader.core.channels.record.records import Records
from oncelog_partition_leader.core.channels.settlement import Settlement
from oncelog_partition_leader.partition.channels import opening
from oncelog_partition_leader.partition.channels.dead_letters import LetterWriter
from oncelog_partition_leader.partition.channels.doubts import Doubts
from oncelog_partition_leader.partition.channels.led_channel import LedChannel
from oncelog_partition_leader.partition.channels.opening import Opening
from oncelog_partition_leader.partition.channels.reading import committed_reading
from oncelog_partition_leader.partition.channels.state_writer import StateWriter
from oncelog_partition_leader.partition.channels.transaction_acks import TransactionAcks
from oncelog_partition_leader.rpc.channels.channel_service import ChannelService
from tests.simulation.planted_bugs import edit, without

_CORE = "unit/partition_leader/core/channels/"
_SHELL = "unit/partition_leader/partition/channels/"
_KEPT = "unit/coordinator/core/channels/test_channel_table.py::"
_WALK = "property/test_channel_delivery.py::test_a_channel_keeps_its_promises"
_WORK = "simulation/test_channel_work.py::test_nothing_acknowledged_or_rejected_comes_again_and_nothing_is_lost"
_IN_ORDER = "simulation/test_channel_work.py::test_no_record_comes_after_a_later_one_of_its_key"
_TRANSACT = "simulation/test_channel_work.py::test_with_acknowledgements_in_transactions_each_output_is_there_once"
_LOSSES = "simulation/test_channel_losses.py::test_what_takes_the_offsets_of_lost_records_is_delivered"
_OVERTAKES = """elif to is _S.SETTLING and self.keys is not None and entry.key >= 0:
        head = self.keys.remove(entry.key, entry.offset)
        entry.key = -1
        if head is not None and self.entries[head].state is _S.AVAILABLE:
            self._offer(self.entries[head])
    elif to is _S.SETTLED:"""
_HELD_IN_ANY_WAY = """sorted(offset for offset, one in self._records.entries.items()
                          if one.worker == worker_id and one.state in (_S.IN_FLIGHT, _S.IN_TXN))"""

PLANTS = [
    without(
        "channel-begun-not-counted",
        "what a worker that ends has handed out counts as a delivery",
        edit(
            client_settling, "_given_back", ("_BEGUN if held.state is MessageState.HELD else _NOT_BEGUN", "_NOT_BEGUN")
        ),
        "unit/sdk/client/work/test_worker.py::test_a_close_counts_what_was_handed_out_alone",
        "simulation/test_channels.py::test_a_record_whose_work_ends_each_of_its_workers_is_dead_in_the_end",
    ),
    without(
        "channel-on-its-way-counted",
        "what a worker that ends does not have yet does not count as a delivery",
        edit(ChannelService, "settle", ("released=True", "released=False")),
        "simulation/test_channels.py::test_a_record_on_its_way_to_a_worker_that_ends_is_not_counted",
    ),
    without(
        "channel-claim-of-the-sure",
        "a claim takes no record that its worker may hand out without asking",
        edit(settling, "_is_sure_of_it", ("now_ms - entry.confirmed_ms < sure_ms(entry.ack_wait_ms)", "False")),
        f"{_CORE}test_settling.py::test_what_another_worker_was_given_or_has_touched_a_moment_ago_is_not_claimed",
    ),
    without(
        "channel-former-leader-believed",
        "a leader delivers nothing while a worker may hand out without asking what the former one gave it",
        edit(Opening, "_until_no_worker_is_sure", ("self._has_history and left_ms > 0", "False")),
        f"{_SHELL}test_opening.py::"
        "test_nothing_is_delivered_while_a_worker_may_be_sure_of_what_an_earlier_leader_gave_it",
        "simulation/test_channels.py::"
        "test_a_record_that_waited_at_its_worker_while_its_leader_changed_by_plan_does_not_come_again",
    ),
    without(
        "channel-letter-expires",
        "a dead letter has no time to live",
        edit(LetterWriter, "_letter", ("if header[0] != EXPIRES_HEADER", "")),
        f"{_SHELL}test_dead_letters.py::test_a_letter_has_no_time_to_live",
    ),
    without(
        "channel-ack-left-out",
        "a write holds every acknowledgement that was confirmed with it",
        edit(
            Delivery,
            "_write",
            ("above = tuple(draft.settled.within(before, draft.settled.last)) if draft.settled else ()", "above = ()"),
        ),
        f"{_CORE}test_stored_state.py::test_a_write_read_as_the_stored_state_loses_nothing",
        _WORK,
    ),
    without(
        "channel-settled-too-far",
        "settled_before stays below each record that is not settled",
        edit(
            Delivery,
            "_write",
            (
                "before = self._window.settled_with(draft.settled)",
                "before = draft.settled.last + 1 if draft.settled else self._window.settled_before",
            ),
        ),
        _WALK,
        _WORK,
    ),
    without(
        "channel-confirmed-early",
        "an acknowledgement is answered when its write was confirmed",
        edit(StateWriter, "wait", ("if number <= self._delivery.confirmed_write_no:", "if True:")),
        f"{_SHELL}test_state_writer.py::test_a_newer_leader_ends_it_and_nothing_is_confirmed",
        _WORK,
    ),
    without(
        "channel-ranges-forgotten",
        "a new leader knows all that is settled, also beyond settled_before",
        edit(
            opening,
            "stored_of",
            (
                "settled=tuple(merged(piece for piece in settled_in(reply.blocks) if piece[1] >= reply.settled_before)),",
                "settled=(),",
            ),
        ),
        f"{_SHELL}test_opening.py::test_what_an_earlier_leader_confirmed_never_comes_again",
        _WORK,
    ),
    without(
        "channel-losses-told-by-the-end",
        "what a channel remembers of lost records does not count for those that took their offsets",
        edit(Opening, "_end_of", ("if stored.written_epoch == NOT_KNOWN:", "if True:")),
        f"{_SHELL}test_opening.py::test_what_was_written_in_the_places_of_lost_records_is_delivered",
        _LOSSES,
    ),
    without(
        "channel-loss-hidden-by-a-second-opening",
        "a second opening in the same epoch forgets what is lost, before it writes anything else",
        edit(Opening, "_remembered", ("AGAIN and not shows_loss)", "AGAIN)")),
        f"{_SHELL}test_opening.py::test_a_loss_shows_in_a_second_opening_too",
    ),
    without(
        "channel-passed-blocks-revive",
        "what was passed and not removed yet does not count again after a loss",
        edit(lost_records, "_may_count_again", ("return parsed.kind in (SETTLED, RETRIED) and", "return False and")),
        "unit/coordinator/core/channels/test_lost_records.py::"
        "test_what_was_passed_and_not_removed_yet_does_not_count_again",
    ),
    without(
        "channel-acks-of-lost-records-stay",
        "an acknowledgement of a lost record, in a transaction that commits later, settles no other record",
        edit(lost_records, "_pending", ("if left != record.ranges:", "if False:")),
        "unit/coordinator/core/channels/test_lost_records.py::"
        "test_acknowledgements_of_lost_records_do_not_count_when_their_transaction_commits",
    ),
    without(
        "channel-older-leader-writes",
        "once a newer leader was answered, an older one writes nothing more",
        edit(channel_table, "_refuse_older", ("if leader.leader_epoch < head.leader_epoch:", "if False:")),
        f"{_KEPT}test_an_older_leader_is_refused_as_soon_as_a_newer_one_was_answered",
    ),
    without(
        "channel-late-write-counts",
        "a late write of before the channel was opened again counts in the place of no other",
        edit(Opening, "_remembered", (" or (self._beginning is Beginning.AGAIN and not shows_loss)", "")),
        f"{_SHELL}test_opening.py::test_a_late_write_of_before_a_fault_counts_in_the_place_of_no_other",
    ),
    without(
        "channel-end-passed-over",
        "a channel that begins at the end begins there for a later leader too",
        edit(Opening, "_start", ("if self._beginning is Beginning.NEW else self._at(channel.created_ms)", "")),
        f"{_SHELL}test_opening.py::"
        "test_a_channel_at_the_end_passes_over_nothing_when_its_first_leader_dies_before_it_has_written_that",
    ),
    without(
        "channel-any-worker-settles",
        "a worker settles only what it holds, in this delivery",
        edit(Entry, "is_held", (" and self.worker == worker_id", "")),
        f"{_CORE}test_settling.py::test_another_worker_or_delivery_is_refused_and_changes_nothing",
    ),
    without(
        "channel-epoch-not-asked",
        "a word about a delivery of an earlier leader settles none of this one",
        edit(Settlement, "in_epoch", ("if self.leader_epoch == leader_epoch", "if True")),
        "unit/partition_leader/rpc/channels/test_channel_service.py::"
        "test_what_an_earlier_leader_delivered_is_not_settled_by_a_late_word_about_it",
    ),
    without(
        "channel-old-deadline",
        "a record that was touched has its new deadline, and no older one",
        edit(Delivery, "tick", (" and entry.due_ms <= now_ms", "")),
        f"{_CORE}test_settling.py::test_a_touched_record_has_a_new_deadline",
        "property/test_channel_delivery.py::test_a_long_walk_keeps_them_too",
        _WORK,
    ),
    without(
        "channel-key-overtaken",
        "the next record of a key waits until the former one is settled durably",
        edit(
            Records,
            "move",
            (
                "elif to is _S.SETTLED:",
                _OVERTAKES,
            ),
        ),
        f"{_CORE}test_delivery.py::test_nothing_overtakes_an_earlier_record_of_its_key",
        _WALK,
        _IN_ORDER,
    ),
    without(
        "channel-pending-ignored",
        "a new leader gives out nothing that an open transaction has acknowledged",
        edit(OpenTransactions, "__init__", ("for name, ranges in stored}", "for name, ranges in ()}")),
        f"{_SHELL}test_transaction_acks.py::test_a_new_leader_knows_of_open_transactions",
        _TRANSACT,
    ),
    without(
        "channel-abort-settles",
        "an aborted acknowledgement settles nothing",
        edit(
            OpenTransactions,
            "end",
            ("done = OffsetRanges(settled)", "done = OffsetRanges(mine)"),
        ),
        f"{_CORE}test_open_transactions.py::test_an_aborted_one_comes_after_the_pause_and_its_delivery_counts",
        _TRANSACT,
    ),
    without(
        "channel-abort-kept",
        "the coordinator settles what a transaction has acknowledged when it commits, and only then",
        edit(ChannelTable, "marked", ("if command.committed:", "if True:")),
        f"{_KEPT}test_acknowledgements_of_an_aborted_transaction_are_forgotten",
        _TRANSACT,
    ),
    without(
        "channel-left-takes-along",
        "a worker that leaves gives back nothing that a transaction has acknowledged",
        edit(
            Delivery,
            "worker_left",
            (
                "sorted(self._records.held.get(worker_id, ()))",
                _HELD_IN_ANY_WAY,
            ),
        ),
        f"{_CORE}test_open_transactions.py::test_a_worker_that_leaves_takes_nothing_out_of_its_transaction",
        _TRANSACT,
    ),
    without(
        "channel-late-refusal-gives-back",
        "the refusal of one copy gives nothing back that another one has brought into the transaction",
        edit(TransactionAcks, "_others", ("return [other", "return [] and [other")),
        f"{_SHELL}test_transaction_acks.py::"
        "test_a_late_copy_that_is_refused_gives_nothing_back_that_another_copy_brought_into_the_transaction",
        f"{_SHELL}test_transaction_acks.py::test_what_another_call_names_that_is_under_way_is_not_given_back",
    ),
    without(
        "channel-acks-from-before-a-seek",
        "a late copy of an acknowledgement from before a seek takes no part in a transaction",
        edit(ChannelTable, "_send", ("if command.seeks != head.seeks:", "if False:")),
        f"{_KEPT}test_late_acknowledgements_from_before_a_seek_are_refused",
    ),
    without(
        "channel-aborted-records",
        "records of aborted transactions are never delivered",
        edit(committed_reading, "_is_aborted", ("if not header.is_transactional:", "if True:")),
        "unit/partition_leader/partition/channels/reading/test_committed_reading.py::test_aborted_records_are_left_out",
    ),
    without(
        "channel-dead-without-letter",
        "a dead record is settled when its letter is written, and not before",
        edit(Fates, "die", ("if not self.options.dead_letter_topic:", "if True:")),
        f"{_CORE}test_delivery.py::test_a_dead_record_is_settled_when_its_letter_is_written",
    ),
    without(
        "channel-waited-too-long",
        "a record that has waited at its worker is touched before it is handed out",
        edit(Assurance, "is_sure", ("now - held.from_ms", "0")),
        "unit/sdk/client/work/test_assurance.py::test_what_another_worker_was_given_meanwhile_is_not_handed_out",
    ),
    without(
        "channel-after-standstill",
        "a leader that stood still asks the coordinator before it delivers",
        edit(Doubts, "look", ("self.stood_still()", "pass")),
        f"{_SHELL}test_doubts.py::test_what_was_acknowledged_at_the_next_leader_is_not_delivered_here_any_more",
    ),
    without(
        "channel-cut-off-delivers",
        "a leader that is cut off from the others asks the coordinator before it delivers",
        edit(Doubts, "_pulse", ("self.cut_off()", "pass")),
        f"{_SHELL}test_doubts.py::test_a_broker_that_is_cut_off_delivers_nothing_while_no_coordinator_answers",
        "simulation/test_channel_isolation.py::test_an_isolated_leader_gives_nothing_that_was_acknowledged_elsewhere",
    ),
    without(
        "channel-standstill-gives-away",
        "what is in flight stays with its workers when its leader stood still, and still leads",
        edit(LedChannel, "doubt", ("if self._delivery is None:", "if True:")),
        f"{_SHELL}test_doubts.py::test_what_is_in_flight_stays_with_its_worker_when_its_leader_stood_still",
        _WORK,
    ),
]
