"""Sequences go on across transactions: the leader keeps them per (producer, epoch), not per transaction."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from weakref import WeakKeyDictionary

from oncelog_partition_leader.core.producers import producer_state
from oncelog_partition_leader.core.producers.decisions import APPEND
from oncelog_partition_leader.core.producers.producer_state import ProducerStates
from oncelog_partition_leader.core.producers.sequence_window import SequenceWindow
from oncelog_partition_leader.core.producers.transactions import Transactions
from tests.simulation.planted_bugs import plant, replaced


@contextmanager
def _planted() -> Iterator[None]:
    windows: WeakKeyDictionary[Transactions, dict[tuple[int, int], SequenceWindow]] = WeakKeyDictionary()

    class Remembered(Transactions):  # the original has no place for a weak reference
        __slots__ = ("__weakref__",)

    def remember(original: Any) -> Any:
        def apply_data(self: Any, header: Any, base_offset: int) -> None:
            original(self, header, base_offset)
            if header.is_transactional:
                opened = self.transactions.open[header.txn_producer_id, header.txn_no]
                window = opened.writers[header.producer_id].window
                windows.setdefault(self.transactions, {})[header.producer_id, header.producer_epoch] = window

        return apply_data

    def across(original: Any) -> Any:
        def decide(self: Any, header: Any, verified: Any) -> Any:
            decision = original(self, header, verified)
            window = windows.get(self.transactions, {}).get((header.producer_id, header.producer_epoch))
            return producer_state._judge(window, header) if window is not None and decision is APPEND else decision

        return decide

    with (
        replaced(producer_state, "Transactions", lambda _: Remembered),
        replaced(ProducerStates, "_apply_data", remember),
        replaced(ProducerStates, "_decide_transactional", across),
    ):
        yield


PLANT = plant(
    9,
    "a transactional sequence starts at 0 in every transaction",
    "producers/test_producer_retries::test_sequences_begin_anew_in_every_transaction",
)(_planted)
