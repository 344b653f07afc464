"""`oncelog channel`: channels are made, described and repaired, and what is wrong with a word is said before anybody is
asked.
"""

from __future__ import annotations

from typing import Any

import pytest

from oncelog_cli.cluster.channel import channel_options, start_of
from oncelog_cli.terminal.argument_types import UsageError
from tests.unit.cli.conftest import Oncelog
from tests.unit.sdk.client.fake_cluster import BROKERS, TOPIC, FakeCluster
from tests.unit.sdk.client.reading import append
from tests.unit.sdk.client.work.fake_channels import CHANNEL, Entry, FakeChannels


@pytest.fixture
def channels(cluster: FakeCluster) -> FakeChannels:
    return FakeChannels(cluster)


@pytest.fixture
def busy(cluster: FakeCluster, channels: FakeChannels) -> FakeChannels:
    """Three records, of which a worker holds the first."""
    channels.make()
    append(cluster, [b"0", b"1", b"2"])
    channels.parts[0].entries[0] = Entry(worker="w", deliveries=2, deadline_s=1_000.0)
    channels.parts[0].next_offset = 1
    return channels


def test_options_have_their_types() -> None:
    given = ["ack_wait_ms=2m", "order_by_key=true", "dead_letter_topic=d", "max_deliveries=5"]
    assert channel_options(given) == {
        "ack_wait_ms": 120_000,
        "order_by_key": True,
        "dead_letter_topic": "d",
        "max_deliveries": 5,
    }
    for word in (
        "order_by_key=yes",
        "max_deliveries=many",
        "max_deliveries=\u00b2",
        "max_unsettled=" + "9" * 5_000,
        "ack_wait_ms",
    ):
        with pytest.raises(UsageError):
            channel_options([word])


@pytest.mark.parametrize(
    ("word", "start"), [("start", "earliest"), ("latest", "latest"), ("@1700000000000", 1_700_000_000_000)]
)
def test_a_channel_begins_at_an_end_or_a_time(word: str, start: Any) -> None:
    assert start_of(word) == start
    with pytest.raises(UsageError):
        start_of("42")


def test_a_channel_is_made_and_listed(cluster: FakeCluster, channels: FakeChannels, oncelog: Oncelog) -> None:
    said = oncelog("channel", "create", TOPIC, CHANNEL, "--start", "end", "-c", "ack_wait_ms=5s")
    assert (said.code, said.out) == (0, "channel billing of orders made\n")
    said = oncelog("channel", "create", TOPIC, CHANNEL, "--if-not-exists")
    assert said.out == "channel billing of orders is there already\n"
    assert oncelog("channel", "create", TOPIC, CHANNEL).code == 1
    assert oncelog("channel", "list").table == [
        ["TOPIC", "CHANNEL", "PAUSED", "ACK-WAIT", "MAX-DELIVERIES", "DEAD-LETTER-TOPIC"],
        ["orders", "billing", "no", "5s", "0", "-"],
    ]
    (row,) = oncelog("channel", "list", TOPIC, "--format", "json").data
    assert (row["start"], row["ack_wait_ms"], row["ephemeral"]) == ("latest", 5_000, False)


def test_a_description_has_partitions_sums_and_workers(busy: FakeChannels, oncelog: Oncelog) -> None:
    said = oncelog("channel", "describe", TOPIC, CHANNEL)
    assert said.code == 0
    assert said.table[:5] == [
        ["channel", "billing", "of", "orders:", "3", "not", "settled"],
        ["PARTITION", "SETTLED-BEFORE", "END-OFFSET", "DEPTH", "IN-FLIGHT", "REDELIVERED", "DEAD"],
        ["0", "0", "3", "3", "1", "1", "0"],
        ["1", "0", "0", "0", "0", "0", "0"],
        ["all", "-", "-", "3", "1", "1", "0"],
    ]
    assert said.table[-1][0] == "w"
    data = oncelog("channel", "describe", TOPIC, CHANNEL, "--format", "json").data
    assert (data["total"]["depth"], data["partitions"][0]["in_flight"]) == (3, 1)


def test_a_partition_that_does_not_answer_is_exit_code_1(
    cluster: FakeCluster, busy: FakeChannels, oncelog: Oncelog
) -> None:
    cluster.leaders[1] = None
    said = oncelog("channel", "describe", TOPIC, CHANNEL, "--timeout-ms", "500")
    assert said.code == 1
    assert "partition 1: " in said.out


def test_options_change_and_deliveries_pause(channels: FakeChannels, oncelog: Oncelog) -> None:
    channels.make()
    said = oncelog("channel", "alter", TOPIC, CHANNEL, "-c", "max_deliveries=7")
    assert said.out == "channel billing of orders: max_deliveries=7\n"
    assert channels.channel is not None
    assert oncelog("channel", "pause", TOPIC, CHANNEL).code == 0
    assert channels.channel.paused
    assert oncelog("channel", "resume", TOPIC, CHANNEL).code == 0
    assert not channels.channel.paused


def test_a_deletion_asks_first(channels: FakeChannels, oncelog: Oncelog) -> None:
    channels.make()
    assert oncelog("channel", "delete", TOPIC, CHANNEL).code == 2
    assert channels.channel is not None
    assert oncelog("channel", "delete", TOPIC, CHANNEL, "-y").out == "channel billing of orders deleted\n"
    assert channels.channel is None
    assert oncelog("channel", "delete", TOPIC, CHANNEL, "-y").code == 1


def test_pending_records_are_listed(busy: FakeChannels, oncelog: Oncelog) -> None:
    (row,) = oncelog("channel", "pending", TOPIC, CHANNEL, "--format", "json").data
    assert (row["offset"], row["worker_id"], row["deliveries"]) == (0, "w", 2)
    assert oncelog("channel", "pending", TOPIC, CHANNEL, "--worker", "x", "--format", "json").data == []


def test_a_dead_record_whose_letter_cannot_be_written_is_listed_with_the_reason(
    busy: FakeChannels, oncelog: Oncelog
) -> None:
    busy.parts[0].entries[1] = Entry(deliveries=5, trouble="MessageTooLargeError: too large", deadline_s=1_000.0)
    busy.parts[0].next_offset = 2
    _, row = oncelog("channel", "pending", TOPIC, CHANNEL, "--format", "json").data
    assert (row["offset"], row["worker_id"], row["dead"]) == (1, "", True)
    assert row["trouble"] == "MessageTooLargeError: too large"
    assert "MessageTooLargeError" in oncelog("channel", "pending", TOPIC, CHANNEL).out


def test_a_claim_takes_and_acknowledges(busy: FakeChannels, oncelog: Oncelog) -> None:
    said = oncelog("channel", "claim", TOPIC, CHANNEL, "--partition", "0", "--offset", "0", "--then", "ack")
    assert (said.code, said.out) == (0, "1 records were claimed, and are done\n")
    assert busy.settled() == [0]
    assert oncelog("channel", "claim", TOPIC, CHANNEL, "--partition", "0").code == 1
    assert oncelog("channel", "claim", TOPIC, CHANNEL, "-p", "0", "--reason", "x").code == 2
    too_long = ["-p", "0", "--then", "reject", "--reason", "x" * 1_025]
    assert oncelog("channel", "claim", TOPIC, CHANNEL, *too_long).code == 2


@pytest.mark.parametrize(
    "words",
    [
        ["claim", "-p", "0", "--offset", "99999999999999999999"],
        ["claim", "-p", "0", "--offset", "-1"],
        ["claim", "-p", "0", "--min-idle", "99999999999999d"],
        ["claim", "-p", "0", "--min-idle", "9" * 19],
        ["claim", "-p", "0", "-n", "0"],
        ["claim", "-p", "0", "-n", "1001"],
        ["pending", "--from-offset", "99999999999999999999"],
        ["pending", "--min-idle", "99999999999999d"],
        ["pending", "-n", "0"],
        ["pending", "-n", "10001"],
    ],
)
def test_what_is_out_of_its_range_is_refused_before_anybody_is_asked(
    cluster: FakeCluster, busy: FakeChannels, oncelog: Oncelog, words: list[str]
) -> None:
    verb, *rest = words
    with pytest.raises(SystemExit) as ended:
        oncelog("channel", verb, TOPIC, CHANNEL, *rest)
    assert ended.value.code == 2
    assert cluster.count("ListChannels") == 0


def test_a_seek_asks_first_and_tells_where_it_goes_on(busy: FakeChannels, oncelog: Oncelog) -> None:
    assert oncelog("channel", "seek", TOPIC, CHANNEL, "--to", "end").code == 2
    assert oncelog("channel", "seek", TOPIC, CHANNEL, "--to", "7", "-y").code == 2
    assert oncelog("channel", "seek", TOPIC, CHANNEL, "--to", "+7", "-y").code == 2
    said = oncelog("channel", "seek", TOPIC, CHANNEL, "--to", "end", "-y", "--format", "json")
    assert said.data == [{"partition": 0, "offset": 3}, {"partition": 1, "offset": 0}]
    said = oncelog("channel", "seek", TOPIC, CHANNEL, "--to", "1", "-p", "0", "-y", "--format", "json")
    assert said.data == [{"partition": 0, "offset": 1}]


def test_a_seek_to_the_beginning_of_time_goes_to_the_first_record(busy: FakeChannels, oncelog: Oncelog) -> None:
    said = oncelog("channel", "seek", TOPIC, CHANNEL, "--to", "@0", "-y", "--format", "json")
    assert said.data == oncelog("channel", "seek", TOPIC, CHANNEL, "--to", "start", "-y", "--format", "json").data


def test_records_are_read_as_a_worker_and_acknowledged_after_printing(busy: FakeChannels, oncelog: Oncelog) -> None:
    said = oncelog("consume", TOPIC, "--channel", CHANNEL, "-n", "1")
    assert (said.code, said.out) == (0, "1\n")
    assert busy.settled() == [1]
    said = oncelog("consume", TOPIC, "--channel", CHANNEL, "--until-end")
    assert (said.code, said.out) == (0, "2\n")
    assert busy.settled() == [1, 2]


@pytest.mark.parametrize("words", [["--group", "g"], ["-o", "end"], ["-p", "0"], ["--read-uncommitted"], ["another"]])
def test_what_a_channel_decides_itself_is_refused(busy: FakeChannels, oncelog: Oncelog, words: list[str]) -> None:
    assert oncelog("consume", TOPIC, *words, "--channel", CHANNEL).code == 2


def test_a_channel_that_is_not_there_is_not_made_by_reading(channels: FakeChannels, oncelog: Oncelog) -> None:
    assert oncelog("consume", TOPIC, "--channel", CHANNEL, "--until-end").code == 1
    assert channels.channel is None
    assert BROKERS
