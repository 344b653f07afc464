"""The names of a batch travel from process to process, and only some of them are stored with its commit."""

from __future__ import annotations

import pickle

import pytest

from oncelog.client.produce.transactions.shared_batch import SharedBatch


@pytest.mark.parametrize("expires", [False, True])
def test_what_is_stored_with_the_commit_names_the_batch_alone(expires: bool) -> None:
    batch = SharedBatch("sink", "run-1", "app", 7, "2", token_expires=expires)
    token = batch.token()
    assert (token.app_id, token.batch_id, token.expires) == ("app", 7, expires)


def test_the_names_can_be_sent_to_other_processes() -> None:
    batch = SharedBatch("sink", "run-1", "app", 7, "2")
    assert pickle.loads(pickle.dumps(batch)) == batch
