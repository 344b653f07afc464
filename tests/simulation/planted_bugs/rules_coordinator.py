"""What coordinators and the producer id service may say and do, and when."""

from __future__ import annotations

from oncelog_coordinator.core.offsets import offset_table
from oncelog_coordinator.core.transactions import abandoned_decisions, timeouts, transaction_state, transaction_table
from oncelog_coordinator.core.transactions.records import TransactionRecord
from oncelog_coordinator.core.transactions.transaction_index import Entry
from oncelog_coordinator.core.transactions.transaction_table import TransactionTable
from oncelog_coordinator.effects.marker_courier import MarkerCourier
from oncelog_coordinator.shard.shard_runtime import ShardLife
from oncelog_pid_allocator.service import PidAllocator
from tests.simulation.planted_bugs import edit, without

PLANTS = [
    without(
        "effects-early",
        "markers are sent when the decision is committed, not before",
        edit(
            ShardLife,
            "_apply",
            (
                "step.effects.extend((effect, cause) for effect in decision.effects)",
                "for effect in decision.effects:\n        self.on_effect(effect)",
            ),
        ),
        "unit/coordinator/shard/test_shard_runtime.py::test_nobody_is_told_uncommitted_state_not_even_by_a_reading_or_a_refusal",
    ),
    without(
        "answer-early",
        "a coordinator answers when its record is committed, not before",
        edit(
            ShardLife,
            "_append",
            (
                "self._steps.append(step)\n",
                """self._steps.append(step)
        early, step.answers = step.answers, []
        self._finish(_Step(None, early))
""",
            ),
        ),
        "unit/coordinator/shard/test_shard_runtime.py::test_a_reading_that_needs_it_is_confirmed_by_an_append",
        "unit/coordinator/shard/test_shard_runtime.py::test_nobody_is_told_uncommitted_state_not_even_by_a_reading_or_a_refusal",
    ),
    without(
        "heal-without-counts",
        "the answer to a leader that asks says how many records must be there, as the marker does",
        edit(
            abandoned_decisions,
            "_resolved",
            ("decided.expected_on(command.topic_id, command.partition) if command.topic_id else -1", "-1"),
        ),
        "unit/coordinator/core/transactions/test_abandoned_decisions.py::test_ongoing_committed_aborted",
    ),
    without(
        "marker-to-n-1",
        "a marker whose call got no answer is sent again",
        edit(
            MarkerCourier,
            "_deliver",
            (
                "address, error)\n        self._later(markers)",
                """address, error)
        if error.code == ErrorCode.REQUEST_TIMED_OUT:
            self._finish(markers, self._on_done)
        else:
            self._later(markers)""",
            ),
        ),
        "unit/coordinator/effects/test_marker_courier.py::test_every_failure_is_tried_again_and_only_where_it_failed",
    ),
    without(
        "complete-after-first-marker",
        "a transaction is complete, and visible, when all of its markers are in",
        [
            edit(Entry, "missing", ("return _targets_of(decided) - ", "return set() and _targets_of(decided) - ")),
            edit(Entry, "not_on_disk", ("return _targets_of(decided) - ", "return set() and _targets_of(decided) - ")),
        ],
        "conformance/transactions/test_markers_and_visibility.py::test_a_marker_counts_when_the_watermark_has_passed_it",
    ),
    without(
        "expected-forgets-session",
        "what was enrolled ahead belongs to one session: the next one begins with nothing",
        edit(transaction_state, "new_session", ("expected=NOTHING_EXPECTED", "expected=closed.expected")),
        "unit/coordinator/core/transactions/test_enrolled_ahead.py::test_a_session_of_the_same_life_sends_no_markers_for_the_number_that_nobody_opened",
    ),
    without(
        "removes-tokens",
        "an id that holds a token which must last is never removed",
        [
            edit(timeouts, "idle_deadline_ms", ("return None if record.is_lasting else ", "return ")),
            edit(
                TransactionTable, "_remove", ("_assert_may_go(record, self.index.removed)", "pass")
            ),  # it asserts just this
        ],
        "unit/coordinator/core/transactions/test_removed_ids.py::test_an_id_with_a_token_is_never_removed",
        "conformance/transactions/test_removed_ids.py::test_an_id_with_a_token_stays_and_one_whose_token_expires_goes",
    ),
    without(
        "token-begins-to-expire",
        "a later batch does not make a token expire that must last",
        [
            edit(transaction_state, "with_token", ("and (before is None or before.expires)", "")),
            edit(transaction_table, "_assert_legal", ("assert token.expires or not after.expires", "assert True")),
        ],  # it asserts just this
        "unit/coordinator/core/transactions/test_removed_ids.py::test_a_token_that_must_last_still_does_when_a_later_batch_of_its_app_may_expire",
    ),
    without(
        "numbers-begin-again",
        "the numbers of a new id begin above those of all removed ones",
        edit(transaction_state, "new_id", ("last_txn_no=removed.txn_no", "last_txn_no=0")),
        "unit/coordinator/core/transactions/test_removed_ids.py::test_a_the_numbers_of_a_removed_id_are_nobody_elses",
        "conformance/transactions/test_removed_ids.py::test_the_outcome_of_a_removed_id_is_forgotten_for_ever",
    ),
    without(
        "removed-is-aborted",
        "a leader that asks about a removed id is not told that its transaction was aborted",
        edit(
            abandoned_decisions,
            "_resolve_orphan",
            ("parts.require_not_removed(index, command.txn_no, txn_producer_id=command.txn_producer_id)", "pass"),
        ),
        "unit/coordinator/core/transactions/test_removed_ids.py::test_a_a_leader_that_asks_is_not_told_that_it_was_aborted",
    ),
    without(
        "removed-while-healing",
        "an id is kept when healing told a leader that a number which is still to come is aborted",
        edit(TransactionRecord, "is_lasting", ("return is_healed or not all(", "return not all(")),
        "unit/coordinator/core/transactions/test_removed_ids.py::test_c_what_healing_was_told_of_a_number_to_come_is_kept",
    ),
    without(
        "offset-order",
        "a transaction's offset gives way to a plain commit that came after it",
        edit(offset_table, "_winning", ("elif known.order < item.order:", "else:")),
        "unit/coordinator/core/offsets/test_offset_table.py::test_the_newest_record_wins_not_the_last_marker",
    ),
    without(
        "burnt-block-used",
        "a block of ids whose answer was lost is never used",
        edit(
            PidAllocator,
            "_win_block",
            (
                "result = await self._ports.metadata.commit(",
                "try:\n        result = await self._ports.metadata.commit(",
            ),
            (
                "    )\n    if result.succeeded:",
                "    )\n    except OncelogError:\n        self._pool.add(block)\n        return True\n    if result.succeeded:",
            ),
        ),
        "conformance/producers/test_producer_ids.py::test_a_failed_request_for_a_block_is_not_repeated_at_once",
    ),
]
