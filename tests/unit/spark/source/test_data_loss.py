"""What becomes of lost data: an error with every sentence and the way out, or a line in the log for each."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from oncelog.errors import OffsetOutOfRangeError
from pyspark_oncelog.options.read_write_options import SourceOptions
from pyspark_oncelog.source.data_loss import report_beyond, report_losses

Report = Callable[[SourceOptions, list[str]], None]


def starting(options: SourceOptions, sentences: list[str]) -> None:
    report_beyond(options, "starting", sentences)


def options(fails: bool) -> SourceOptions:
    given = {"bootstrapServers": "a:1", "subscribe": "t", "failOnDataLoss": str(fails).lower()}
    return SourceOptions.parse(given, streaming=True)


@pytest.mark.parametrize(
    ("report", "says"), [(report_losses, "data was lost"), (starting, "option startingOffsets lies beyond the end")]
)
def test_what_is_lost_ends_the_query_with_every_sentence_and_the_way_out(report: Report, says: str) -> None:
    with pytest.raises(OffsetOutOfRangeError, match=f"{says}.*: one; two.*failOnDataLoss=false"):
        report(options(fails=True), ["one", "two"])


@pytest.mark.parametrize("report", [report_losses, starting])
def test_who_may_lose_data_reads_of_it_in_the_log(report: Report, caplog: pytest.LogCaptureFixture) -> None:
    report(options(fails=False), ["one", "two"])
    assert [record.getMessage().rpartition(": ")[2] for record in caplog.records] == ["one", "two"]
    assert all("failOnDataLoss=false" in record.getMessage() for record in caplog.records)


@pytest.mark.parametrize("report", [report_losses, starting])
@pytest.mark.parametrize("fails", [True, False])
def test_nothing_is_said_where_nothing_is_lost(report: Report, fails: bool, caplog: pytest.LogCaptureFixture) -> None:
    report(options(fails), [])
    assert not caplog.records
