"""What the SDK tells its caller of records that it sent."""

from __future__ import annotations

from oncelog.client.transaction import Transaction
from oncelog.core import producer_window
from oncelog.core.producer_window import ProducerWindow
from tests.simulation.planted_bugs import edit, without

PLANTS = [
    without(
        "doubt-forgotten",
        "a definite answer to a later attempt ends no doubt about an earlier one",
        edit(
            ProducerWindow, "answered", ("batch.in_doubt or verdict is Verdict.IN_DOUBT", "verdict is Verdict.IN_DOUBT")
        ),
        "unit/sdk/core/test_producer_window.py::test_a_definite_answer_to_a_later_attempt_ends_no_doubt_about_an_earlier_one",
    ),
    without(
        "new-sequence-on-retry",
        'a time-out is not "not written"',
        edit(producer_window, "judge", ("return Verdict.IN_DOUBT if", "return Verdict.NOT_NOW if")),
        "unit/sdk/core/test_producer_window.py::test_a_refusal_after_a_lost_attempt_is_settled_first",
    ),
    without(
        "settle-on-doubt-skipped",
        "of a batch in doubt the leader is asked before anything is said",
        edit(
            ProducerWindow,
            "_can_settle",
            ("return batch.identity.is_idempotent and not batch.identity.is_transactional", "return False"),
        ),
        "unit/sdk/core/test_producer_window.py::test_not_written_is_final_for_all_that_follow",
    ),
    without(
        "send-past-doubt",
        "while a batch waits to be sent again nothing new follows it",
        edit(
            ProducerWindow, "may_send_new", ("return all(batch.in_flight for batch in self._unresolved)", "return True")
        ),
        "unit/sdk/core/test_producer_window.py::test_after_a_failure_only_the_oldest_is_sent_again_alone",
    ),
    without(
        "commit-without-flush",
        "a transaction in which a send failed is not committed",
        edit(
            Transaction,
            "_commit",
            ("if core.state is TransactionState.OPEN and self._sender.failure is not None:", "if False:"),
            (
                "flush()\n    if self._sender.failure is not None:",
                "flush()\n    if False:",
            ),
        ),
        "unit/sdk/client/test_transaction.py::test_a_failed_send_that_nobody_awaited_fails_the_commit",
    ),
]
