"""Who writes: the names of a batch, of its run and of one attempt; without them nothing is written exactly once."""

from __future__ import annotations

import pytest

from oncelog.client.produce.transactions.shared_batch import SharedBatch
from oncelog.errors import IllegalStateError
from pyspark_oncelog.options.identity import (
    BATCH_ID_PROPERTY,
    QUERY_ID_PROPERTY,
    RUN_ID_PROPERTY,
    batch_identity,
    streaming_identity,
    write_attempt,
)

IDENTITY = SharedBatch("spark-q", "run", "q", 7, "a")
PROPERTIES = {QUERY_ID_PROPERTY: "q", BATCH_ID_PROPERTY: "7", RUN_ID_PROPERTY: "run"}


def test_a_micro_batch_is_named_by_what_spark_tells_its_tasks() -> None:
    assert streaming_identity(PROPERTIES.get, "", "a") == IDENTITY
    assert streaming_identity(PROPERTIES.get, "mine", "a").transactional_id == "mine"


@pytest.mark.parametrize("missing", sorted(PROPERTIES))
def test_without_those_names_exactly_once_is_refused(missing: str) -> None:
    rest = {name: value for name, value in PROPERTIES.items() if name != missing}
    with pytest.raises(IllegalStateError, match=missing):
        streaming_identity(rest.get, "", "a")


def test_a_batch_id_that_is_no_number_is_refused() -> None:
    with pytest.raises(IllegalStateError):
        streaming_identity({**PROPERTIES, "streaming.sql.batchId": "x"}.get, "", "a")


def test_later_attempts_sort_above_earlier_ones() -> None:
    assert write_attempt(999, "f") < write_attempt(1_700_000_000_000, "0") < write_attempt(9_999_999_999_999, "0")


def test_a_job_with_app_and_version_is_the_same_batch_when_it_runs_again() -> None:
    one, two = batch_identity("", "etl", 3, 1_000_000, "aa"), batch_identity("", "etl", 3, 2_000_000, "bb")
    assert (one.transactional_id, one.app_id, one.batch_id) == ("spark-etl", "etl", 3)
    assert (one.transactional_id, one.app_id, one.batch_id) == (two.transactional_id, two.app_id, two.batch_id)
    assert one.owner_run != two.owner_run
    assert one.write_attempt < two.write_attempt


def test_only_a_job_that_made_its_own_id_says_that_nobody_else_writes_its_batch() -> None:
    """For any other one the token must last: a run next year may write the same batch."""
    named = [("mine", "", -1), ("", "etl", 3), ("mine", "etl", 3)]
    assert not any(batch_identity(*who, 1_000_000, "aa").token_expires for who in named)
    assert not streaming_identity(PROPERTIES.get, "", "a").token_expires


def test_a_job_without_them_is_a_batch_of_its_own() -> None:
    one, two = batch_identity("", "", -1, 1_000_000, "aa"), batch_identity("", "", -1, 2_000_000, "bb")
    assert one.transactional_id != two.transactional_id
    assert one.token_expires
    assert two.token_expires
    named = [batch_identity("mine", "", -1, at, "aa") for at in (1_000_000, 1_000_001)]
    assert named[0].transactional_id == named[1].transactional_id
    assert named[0].batch_id < named[1].batch_id


def test_one_name_and_number_for_two_topics_are_two_writes() -> None:
    """foreachBatch writes to A and to B under one txnAppId, as Delta's users do: the second was a "replay", and dropped."""
    to_a, to_b = (batch_identity("", "etl", 3, 1_000_000, "aa", topic) for topic in ("a", "b"))
    assert (to_a.transactional_id, to_b.transactional_id) == ("spark-etl:a", "spark-etl:b")
    assert (to_a.app_id, to_a.batch_id) == (to_b.app_id, to_b.batch_id) == ("etl", 3)
    assert batch_identity("mine", "etl", 3, 1_000_000, "aa", "a").transactional_id == "mine"


def test_a_strange_name_shares_no_token_with_another_ones_topic() -> None:
    plain, strange = batch_identity("", "a", 3, 1_000_000, "aa", "b"), batch_identity("", "a:b", 3, 1_000_000, "aa")
    assert plain.transactional_id == strange.transactional_id
    assert plain.app_id != strange.app_id
