"""Rows of groups: lag without markers; and columns and times as people know them."""

from __future__ import annotations

import pytest

from oncelog.client.admin.descriptions import GroupOffset, LogDescription
from oncelog_cli.cluster.group_rows import COLUMNS, offset_row
from oncelog_cli.cluster.txn import COLUMNS as TXN_COLUMNS
from oncelog_cli.cluster.txn import PRODUCER_COLUMNS
from oncelog_cli.terminal.output import duration, moment, table


def log(stable: int, records: int, counted_to: int, start: int = 0) -> LogDescription:
    return LogDescription("t", 0, 1, start, stable, stable + 5, stable + 9, 0, 0, 2, records, counted_to)


def row(offset: int, found: LogDescription | None) -> dict[str, object]:
    item = GroupOffset("t", "0", 0, offset, leader_epoch=-1, metadata="", committed_ms=0, member_id="")
    return offset_row("g", item, found)


@pytest.mark.parametrize(
    ("offset", "found", "lag", "lag_offsets", "exact"),
    [
        (10, log(stable=10, records=0, counted_to=10), 0, 0, True),
        (9, log(stable=10, records=0, counted_to=10), 0, 1, True),  # only a marker lies before the reader
        (4, log(stable=10, records=3, counted_to=10), 3, 6, True),
        (4, log(stable=1_000, records=90, counted_to=100), 990, 996, False),  # the leader stopped counting
        (4, log(stable=10, records=2, counted_to=10, start=8), 2, 2, True),  # retention was faster than the reader
        (12, log(stable=10, records=0, counted_to=10), 0, 0, True),
        (4, None, None, None, None),
    ],
)
def test_lag(
    offset: int, found: LogDescription | None, lag: int | None, lag_offsets: int | None, exact: bool | None
) -> None:
    seen = row(offset, found)
    assert (seen["lag"], seen["lag_offsets"], seen["lag_is_exact"]) == (lag, lag_offsets, exact)


def test_columns_are_those_that_people_know() -> None:
    assert table([], COLUMNS).split() == [
        "GROUP", "TOPIC", "PARTITION", "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG", "CONSUMER-ID", "HOST", "CLIENT-ID",
    ]  # fmt: skip
    assert table([], TXN_COLUMNS).split() == [
        "COORDINATOR", "TRANSACTIONAL-ID", "PRODUCER-ID", "PRODUCER-EPOCH", "STATE", "START-TIMESTAMP", "TIMEOUT",
        "TOPIC-PARTITIONS", "DURATION",
    ]  # fmt: skip
    assert table([], PRODUCER_COLUMNS).split() == [
        "PRODUCER-ID", "PRODUCER-EPOCH", "LAST-SEQUENCE", "LAST-TIMESTAMP", "COORDINATOR-EPOCH", "TXN-START-OFFSET",
    ]  # fmt: skip


def test_times_are_readable() -> None:
    assert [duration(ms) for ms in (0, 999, 1_000, 125_000, 90_061_000)] == ["0ms", "999ms", "1s", "2m5s", "1d1h"]
    assert moment(1_767_225_600_123) == "2026-01-01T00:00:00.123Z"
    assert moment(0) == "-"
