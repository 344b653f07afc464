"""The names of a batch travel from process to process."""

from __future__ import annotations

import pickle

from oncelog.client.produce.transactions.shared_batch import SharedBatch


def test_the_names_can_be_sent_to_other_processes() -> None:
    batch = SharedBatch("sink", "run-1", "app", 7, "2", token_expires=True)
    assert pickle.loads(pickle.dumps(batch)) == batch
