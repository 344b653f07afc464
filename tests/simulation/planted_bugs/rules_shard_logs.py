"""The rules by which the owner of a shard makes its log shorter: what is needed, what is free, and who may say so."""

from __future__ import annotations

from oncelog_coordinator.core.log_bound import LogBound
from oncelog_coordinator.shard.replayed_log import ReplayedLog
from oncelog_coordinator.shard.shard_runtime import ShardLife
from oncelog_partition_leader.rpc import admin_service
from tests.simulation.planted_bugs import edit, without

_BOUND = "unit/coordinator/core/test_log_bound.py::"
_HISTORY = "property/test_log_bound.py::test_a_shortened_log_says_what_the_whole_one_says"
_LIFE = "unit/coordinator/shard/test_shard_runtime.py::"
_READ = "unit/coordinator/shard/test_replayed_log.py::"

PLANTS = [
    without(
        "log-frees-what-is-under-way",
        "only what committed appends repeat is free",
        edit(
            LogBound,
            "_set_free",
            (
                "self._appends[append.oldest] if append.oldest < append.end",
                "self._appends[self._oldest_place()] if self._needed",
            ),
        ),
        f"{_BOUND}test_what_a_later_append_will_carry_does_not_count_for_an_earlier_one",
        _HISTORY,
    ),
    without(
        "log-announces-at-once",
        "records are deleted when the announcement is committed",
        edit(
            ShardLife,
            "_shorten",
            ("step.free_below = free_below", "self._log.delete_before(free_below)"),
        ),
        f"{_LIFE}test_nothing_is_deleted_before_its_announcement_is_committed",
    ),
    without(
        "log-forgets-the-oldest",
        "what is repeated begins with the oldest record that is needed",
        edit(
            LogBound,
            "repeats",
            ("for key, needed in self._needed.items():", "for key, needed in [*self._needed.items()][1:]:"),
        ),
        f"{_BOUND}test_the_oldest_needed_records_are_repeated_and_then_what_lies_before_is_free",
    ),
    without(
        "log-forgets-a-repeated-key",
        "a record that is written again is needed again",
        edit(
            LogBound,
            "appended",
            ("self._forget(item.key)\n", "before = item.key in self._needed\n        self._forget(item.key)\n"),
            ("and item.key != EPOCH_KEY", "and item.key != EPOCH_KEY and not before"),
        ),
        f"{_BOUND}test_the_oldest_needed_records_are_repeated_and_then_what_lies_before_is_free",
        _HISTORY,
    ),
    without(
        "log-counts-from-too-high",
        "an append whose offset is not known counts as lying right behind the one before",
        edit(
            LogBound,
            "committed",
            ("append.offset = max(known, self._end_offset)", "append.offset = max(known, self._end_offset + 8)"),
        ),
        f"{_BOUND}test_an_append_without_a_known_offset_lies_right_behind_the_one_before",
        _HISTORY,
    ),
    without(
        "log-begins-anywhere",
        "a log whose beginning is gone without an announcement is not replayed",
        edit(ReplayedLog, "_check_beginning", ("self._log_start > seen.free_below", "False")),
        f"{_READ}test_a_log_whose_beginning_is_missing_is_not_replayed",
    ),
    without(
        "log-keeps-what-was-deleted",
        "what was read before the beginning of the log moved does not count: a tombstone may lie between",
        edit(ReplayedLog, "log_begins_at", ("end=-1, is_first=True", "end=-1")),
        f"{_READ}test_what_was_read_before_the_beginning_moved_is_marked_as_superseded",
        "unit/coordinator/shard/test_shard_log.py::test_what_was_read_before_a_late_deletion_does_not_count",
    ),
    without(
        "log-shortened-by-anybody",
        "the present owner of a shard alone has records of its log deleted",
        edit(admin_service, "_require_owner", ("request.writer_epoch != writer.producer_epoch", "False")),
        "unit/partition_leader/rpc/test_admin_service.py::test_the_owner_of_a_shard_alone_shortens_its_log",
    ),
]
