"""Which records, markers and batches compaction may take out of a log, and in which order its files change."""

from __future__ import annotations

from oncelog_partition_leader.core.compaction.rewriting import Rewriter
from oncelog_partition_leader.core.replication.replica_set import ReplicaSet
from oncelog_partition_leader.log.compaction import compactable_log
from oncelog_partition_leader.log.compaction.compactable_log import CompactableLog
from oncelog_partition_leader.replication.feed import Feed
from tests.simulation.planted_bugs import edit, without

_LOG = "unit/partition_leader/log/compaction/test_compactable_log.py::"

PLANTS = [
    without(
        "compaction-above-lso",
        "compaction touches nothing from the first open transaction on",
        edit(
            CompactableLog,
            "_stable_end",
            ("high_watermark if unstable is None else unstable", "high_watermark"),
        ),
        _LOG + "test_nothing_from_the_first_open_transaction_on_is_touched",
    ),
    without(
        "compaction-above-watermark",
        "compaction touches nothing that is not committed",
        edit(
            CompactableLog,
            "_stable_end",
            (
                "min(high_watermark, self._synced_end, high_watermark if unstable is None else unstable)",
                "self._synced_end",
            ),
        ),
        _LOG + "test_the_active_segment_and_what_is_not_committed_are_never_touched",
    ),
    without(
        "marker-gone-before-its-data",
        "a marker stays while a record of its transaction does",
        edit(Rewriter, "_control", ("if has_data or", "if")),
        _LOG + "test_a_marker_stays_while_a_record_of_its_transaction_does",
    ),
    without(
        "marker-gone-with-its-data",
        "a marker stays in the pass that removes the last of its data",
        edit(Rewriter, "_control", ("not had_data", "True")),
        _LOG + "test_the_marker_of_aborted_data_stays_in_the_pass_that_removes_it_though_its_time_is_over",
    ),
    without(
        "tombstone-gone-at-once",
        "a tombstone stays for its time after the first pass that met it",
        edit(Rewriter, "_data", ("in_bound and self._may_go(header)", "in_bound")),
        _LOG + "test_a_tombstone_stays_for_its_time_after_the_first_pass_and_then_goes",
    ),
    without(
        "compaction-ahead-of-a-replica",
        "a tombstone or marker goes by its time only when every assigned replica holds it",
        edit(Rewriter, "_is_held_everywhere", ("header.next_offset <= self._rules.held_everywhere", "True")),
        "conformance/replication/test_compaction_cases.py"
        "::test_tombstones_and_markers_wait_for_a_replica_that_is_away_and_go_when_it_has_them",
    ),
    without(
        "held-on-no-disk",
        "a replica holds what its disk has, and nothing that it could lose with its power",
        edit(ReplicaSet, "acknowledge", ("min(synced_end, self._log_end)", "follower.end")),
        "unit/partition_leader/core/replication/test_replica_set.py"
        "::test_everywhere_is_what_every_assigned_replica_has_on_its_disk_in_sync_or_not",
    ),
    without(
        "producer-compacted-away",
        "the newest batch of a producer stays, empty",
        edit(Rewriter, "_remove_records", ("if self._state.needs(header):", "if False:")),
        _LOG + "test_the_last_batch_of_a_producer_stays_empty_until_a_newer_one_takes_its_place",
    ),
    without(
        "old-segments-gone-first",
        "the old segments go after the new one counts, and before it gets its name",
        edit(
            compactable_log,
            "commit",
            (
                "disk.rename(replacement.cleaned_path, replacement.compacted_path)",
                "disk.remove(replacement.log_path); disk.rename(replacement.cleaned_path, replacement.compacted_path)",
            ),
        ),
        "unit/partition_leader/log/compaction/test_replacement.py::test_the_old_segments_are_there_until_the_new_one_counts",
    ),
    without(
        "gap-not-cut",
        "a follower whose log ends within a gap of its leader gets the rest of it",
        edit(Feed, "_data", ("data = from_offset_on(data, item.base_offset)", "pass")),
        "conformance/replication/test_compaction.py"
        "::test_a_follower_whose_log_ends_within_a_gap_of_its_leader_catches_up",
    ),
]
