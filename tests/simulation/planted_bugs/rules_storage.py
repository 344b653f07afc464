"""What a log claims to have on disk, and what it makes of its files after a crash."""

from __future__ import annotations

from oncelog_partition_leader.core.log import retention
from oncelog_partition_leader.core.log.leader_epochs import LeaderEpochs
from oncelog_partition_leader.core.producers import producer_snapshot
from oncelog_partition_leader.log import segments
from oncelog_partition_leader.log.recovery.recovery import _Recovery
from oncelog_partition_leader.log.segments import SegmentedLog
from oncelog_partition_leader.log.truncation import TruncatableLog
from tests.simulation.planted_bugs import edit, without

PLANTS = [
    without(
        "epochs-not-cut",
        "a truncation takes the epochs along that began above it",
        edit(TruncatableLog, "_restore_at", ("self.epochs.truncate_tail(offset)", "pass")),
        "unit/partition_leader/log/test_truncation.py::test_a_cut_log_is_as_if_it_had_never_been_longer",
    ),
    without(
        "emptied-log-forgets-its-epoch",
        "a log that retention has emptied remembers the epoch of its last record",
        edit(LeaderEpochs, "truncate_head", ("[self._epochs[before] if before else NO_EPOCH]", "[NO_EPOCH]")),
        "unit/partition_leader/log/test_segments.py::test_an_idle_log_is_emptied_by_time",
        "unit/partition_leader/log/test_reached_epoch.py::test_a_log_start_at_a_new_epoch_remembers_the_one_before",
        "property/test_leader_epochs.py::test_the_table_says_what_a_plain_list_says",
    ),
    without(
        "cut-epoch-kept",
        "an epoch all of whose records were cut is not kept in place of the one whose records were deleted",
        edit(
            LeaderEpochs,
            "truncate_head",
            (
                "self._epochs[:first] = [self._epochs[before] if before else NO_EPOCH]",
                "self._epochs[:first] = [self._epochs[min(first, len(self._epochs) - 1)]]",
            ),
        ),
        "unit/partition_leader/log/test_reached_epoch.py::test_a_log_start_at_a_new_epoch_remembers_the_one_before",
        "property/test_leader_epochs.py::test_the_table_says_what_a_plain_list_says",
    ),
    without(
        "retention-takes-open",
        "retention takes nothing from the last stable offset on",
        edit(
            SegmentedLog,
            "apply_retention",
            ("unstable = self.producers.transactions.unstable_from(high_watermark)", "unstable = None"),
        ),
        "unit/partition_leader/log/test_segments.py::test_an_open_transaction_keeps_its_records",
        "conformance/cluster/test_changing_topics.py"
        "::test_records_of_a_partition_to_which_nobody_writes_are_deleted_by_time_on_every_replica",
    ),
    without(
        "aborted-not-cut",
        "a truncation takes the aborted entries along whose markers it cut off",
        edit(TruncatableLog, "_restore_at", ("self.aborted.truncate_tail(offset)", "pass")),
        "unit/partition_leader/log/test_truncation.py::test_a_cut_log_is_as_if_it_had_never_been_longer",
    ),
    without(
        "no-dir-sync",
        "the name of a rolled segment is on disk before its content counts",
        edit(SegmentedLog, "_roll", ("self._dirty_directory = True", "pass")),
        "unit/partition_leader/log/test_storage_crashes.py"
        "::test_what_was_synced_outlives_a_power_cut_though_no_checkpoint_could_be_stored",
    ),
    without(
        "recovery-keeps-tail-file",
        "after an unclean stop nothing is appended to a file whose tail was not synced",
        edit(
            _Recovery,
            "_rewrite_tail",
            ("if tail is not None:", "if False:"),
            ("if not last.index.size or self._end <= self._synced:", "if not last.index.size:"),
        ),
        "unit/partition_leader/log/test_storage_crashes.py::test_after_any_crash_a_log_is_a_sound_prefix_of_itself",
    ),
    without(
        "recovery-point-early",
        "the recovery point is raised only after the data was synced",
        edit(
            SegmentedLog,
            "sync",
            ("await self._sync_files([", "self._point.note(end)\n    await self._sync_files(["),
        ),
        "unit/partition_leader/log/test_storage_cases.py::test_storage_case",
    ),
    without(
        "clean-marker-stays",
        "the marker of a clean stop is removed before anything is written",
        edit(_Recovery, "prepare", ("self._remove(CLEAN_SHUTDOWN)", "pass")),
        "unit/partition_leader/log/recovery/test_recovery.py::test_the_clean_mark_is_gone_once_the_log_is_open",
    ),
    without(
        "log-start-not-stored",
        "a log start is durable before anybody is told of it",
        edit(
            SegmentedLog,
            "advance_log_start",
            ("await self._point.store(self._point.end_offset, offset)", "self._point.log_start_offset = offset"),
        ),
        "unit/partition_leader/log/test_partition_log.py::test_everything_is_there_after_a_restart",
    ),
    without(
        "retention-above-hw",
        "what is not committed is not deleted by retention",
        [
            edit(module, "segments_to_delete", ("if segment.next_offset > high_watermark:", "if False:"))
            for module in (retention, segments)
        ],
        "unit/partition_leader/core/log/test_retention.py::test_whole_segments_oldest_first",
    ),
    without(
        "snapshot-without-open",
        "a snapshot of the producers holds the open transactions",
        edit(
            producer_snapshot.Snapshot,
            "_rest",
            ("_COUNT.pack(len(opened))", "_COUNT.pack(0)"),
            ("for one in opened:", "for one in ():"),
        ),
        "unit/partition_leader/core/producers/test_producer_state.py::test_an_open_transaction_survives_a_snapshot",
    ),
    without(
        "snapshot-without-decided",
        "a snapshot of the producers holds the ended transactions that may not be stable",
        edit(
            producer_snapshot.Snapshot,
            "_rest",
            ("_COUNT.pack(len(decided))", "_COUNT.pack(0)"),
            ("for marker_and_first in decided)", "for marker_and_first in ())"),
        ),
        "unit/partition_leader/core/producers/test_producer_state.py::test_an_ended_transaction_stays_unstable_through_a_snapshot",
    ),
]
