"""What is printed of channels."""

from __future__ import annotations

import pytest

from oncelog import errors
from oncelog.client.admin.channel_descriptions import (
    ChannelDescription,
    ChannelPartitionState,
    ChannelWorker,
    ClaimedMessages,
)
from oncelog_cli.cluster.channel_rows import LIST_COLUMNS, LIST_WIDE, described, heading, listing_row, told_claim
from tests.unit.sdk.client.admin.test_channel_descriptions import LISTING

FOUND = ChannelDescription(
    LISTING,
    (
        ChannelPartitionState(0, depth=5, in_flight=1, workers=(ChannelWorker("w", "x", 9, 1, 70),)),
        ChannelPartitionState(1, depth=1, in_flight=1, workers=(ChannelWorker("w", "x", 9, 1, 30),)),
        ChannelPartitionState(2, errors.LeaderNotAvailableError()),
    ),
)


def test_a_channel_has_a_cell_for_each_column() -> None:
    assert set(listing_row(LISTING)) == {*LIST_COLUMNS, *LIST_WIDE}
    assert listing_row(LISTING)["start"] == "earliest"


def test_a_worker_is_one_row_and_was_heard_of_when_it_last_was() -> None:
    rows, total, workers = described(FOUND)
    assert workers == [{"worker_id": "w", "client": "x", "in_flight": 2, "idle_ms": 30}]
    assert (total["depth"], total["in_flight"]) == (6, 2)
    assert rows[2] == {"partition": 2, "error": "LEADER_NOT_AVAILABLE"}


def test_the_heading_names_what_did_not_answer() -> None:
    first, second = heading(FOUND).splitlines()
    assert first == "channel billing of orders: 6 not settled"
    assert second.startswith("partition 2: ")


@pytest.mark.parametrize(
    ("then", "words"), [("release", "come again at once"), ("ack", "are done"), ("reject", "are dead")]
)
def test_a_claim_says_what_became_of_how_many(then: str, words: str) -> None:
    assert told_claim([ClaimedMessages(0, 3, 5, 1)], then) == f"3 records were claimed, and {words}"
    assert told_claim([], then).startswith("no record was claimed: ")
    assert "in its last delivery" in told_claim([], then), "the most likely reason for a record that is poison"
