"""The rules by which records of shards go: which one is forgotten, when, and what is refused because of it."""

from __future__ import annotations

from oncelog_coordinator.core.offsets.ended_transactions import EndedLedger
from oncelog_coordinator.core.offsets.gone_topics import GoneTopics
from oncelog_coordinator.core.offsets.offset_table import OffsetTable
from oncelog_coordinator.core.transactions import timeouts
from oncelog_coordinator.rpc.offset_service import OffsetService
from tests.simulation.planted_bugs import edit, without

_GO = "unit/coordinator/core/test_record_lifetimes.py::test_a_record_of_each_kind_goes"
_ENDED = "unit/coordinator/core/offsets/test_ended_transactions.py::"
_TOPICS = "unit/coordinator/core/offsets/test_gone_topics.py::"
_ORPHANS = "unit/coordinator/core/transactions/test_orphans.py::"
_SERVICE = "unit/coordinator/rpc/test_offset_service.py::"

PLANTS = [
    without(
        "ended-stays",
        "the record of an ended transaction goes some time after its marker",
        edit(EndedLedger, "due", ("if self._may_go(key, now_ms)", "if False")),
        _GO,
        f"{_ENDED}test_records_go_some_time_after_the_last_marker_and_one_stays_for_the_epoch",
    ),
    without(
        "ended-taken-late",
        "offsets that were enrolled before an ending was forgotten are not taken",
        edit(EndedLedger, "late", ("if forgotten != self.forgotten:", "if False:")),
        f"{_ENDED}test_offsets_that_were_enrolled_before_a_record_went_are_refused_for_now",
    ),
    without(
        "ended-enrolled-by-the-deposed",
        "an enrolment by a deposed owner of the transaction shard counts for nothing once an ending may be forgotten",
        edit(EndedLedger, "late", ("enrolled_by < newest", "False")),
        f"{_ENDED}test_an_enrolment_by_a_deposed_owner_counts_for_nothing",
    ),
    without(
        "ended-forgets-the-epoch",
        "the highest epoch of a transaction shard is never forgotten",
        edit(EndedLedger, "_may_go", ("self._witnesses.get(record.txn_shard) == key", "False")),
        f"{_ENDED}test_each_transaction_shard_keeps_one_witness_of_its_highest_epoch",
    ),
    without(
        "ended-counted-after-enrolling",
        "what was forgotten is counted before the group is enrolled",
        edit(
            OffsetService,
            "send_offsets",
            ("offsets, enrolled)", "offsets, cmd.Enrolled(enrolled.coordinator_epoch, table.forgotten))"),
        ),
        f"{_SERVICE}test_an_enrolment_that_was_answered_late_brings_no_offsets_into_an_ended_transaction",
    ),
    without(
        "ended-asked-of-another-life",
        "offsets are taken by the life of the shard that was looked at before the enrolment",
        edit(OffsetService, "send_offsets", ("await life.submit(", "await shard.ask(")),
        f"{_SERVICE}test_an_enrolment_counts_for_the_life_that_asked_for_it",
    ),
    without(
        "orphan-stays",
        "numbers that healing has closed under a producer id of nobody are forgotten some time",
        edit(timeouts, "_forgotten", ("found.append(Tombstone(key))", "continue")),
        _GO,
        f"{_ORPHANS}test_an_orphan_is_forgotten_some_time_after_its_last_number",
    ),
    without(
        "orphan-without-a-time-stays",
        "an orphan of an older version gets a time, so that fail-overs do not keep it for ever",
        edit(timeouts, "_forgotten", ("found.append(replace(record, closed_ms=now_ms))", "continue")),
        f"{_ORPHANS}test_the_record_of_an_older_version_gets_a_time_and_goes_then",
    ),
    without(
        "topic-offsets-stay",
        "offsets of a topic that is gone go",
        edit(OffsetTable, "_of_gone_topics", ("found.append(Tombstone(offset.key))", "continue")),
        _GO,
        f"{_TOPICS}test_offsets_go_when_their_topic_is_gone_and_they_are_old",
    ),
    without(
        "topic-gone-at-once",
        "a topic is gone when it was not seen for long, not when a view lags behind",
        edit(GoneTopics, "is_gone", ("now_ms - since_ms >= self._limits.gone_topic_ms", "True")),
        f"{_TOPICS}test_old_offsets_go_some_time_after_the_topic",
    ),
]
