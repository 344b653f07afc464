"""Places, partitions, spans of time, settings: what people type."""

from __future__ import annotations

import argparse
import io

import pytest

from oncelog_cli.terminal.argument_types import (
    Place,
    UsageError,
    confirm,
    matching,
    milliseconds,
    number_of,
    options_of,
    partition_of,
    place_of,
    settings_of,
    size_bytes,
    span_ms,
    txn_no_of,
)


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("start", Place("start")),
        ("earliest", Place("start")),
        ("end", Place("end")),
        ("latest", Place("end")),
        ("42", Place("offset", 42)),
        ("+5", Place("relative", 5)),
        ("-5", Place("relative", -5)),
        ("@1767225600", Place("timestamp", 1_767_225_600_000)),
        ("@1767225600123", Place("timestamp", 1_767_225_600_123)),
        ("@2026-01-01T00:00:00", Place("timestamp", 1_767_225_600_000)),
        ("@2026-01-01T01:00:00+01:00", Place("timestamp", 1_767_225_600_000)),
        ("@2026-01-01", Place("timestamp", 1_767_225_600_000)),
    ],
)
def test_a_place(text: str, place: Place) -> None:
    assert place_of(text) == place


@pytest.mark.parametrize(
    "text", ["", "begin", "@", "@yesterday", "+", "1.5", "--5", "²", "9" * 19, "-" + "9" * 30, "@" + "9" * 30]
)
def test_no_place(text: str) -> None:
    with pytest.raises(UsageError):
        place_of(text)


@pytest.mark.parametrize("text", ["@1969-12-31T23:59:59.999", "@1969-12-31T23:59:59.998", "@0001-01-01"])
def test_a_time_before_1970_is_no_end_of_the_log(text: str) -> None:
    """-1 and -2 ms would ask for the end and the beginning, and `topic trim-prefix` would delete everything."""
    with pytest.raises(UsageError, match="not before 1970"):
        place_of(text)


@pytest.mark.parametrize("text", ["1", "1000"])
def test_a_number_has_its_bounds(text: str) -> None:
    assert number_of(1, 1_000)(text) == int(text)
    for other in ("0", "1001", "-1", "", "x", "1.5", "²", "9" * 5_000):
        with pytest.raises(argparse.ArgumentTypeError, match="from 1 to 1000"):
            number_of(1, 1_000)(other)


@pytest.mark.parametrize("text", ["99999999999999d", "9" * 19, "9" * 19 + "d"])
def test_a_time_fits_into_a_request(text: str) -> None:
    assert milliseconds(str(2**63 - 1)) == 2**63 - 1
    with pytest.raises(argparse.ArgumentTypeError, match="too long"):
        milliseconds(text)


def test_a_span_of_many_digits_is_none() -> None:
    for read in (milliseconds, span_ms):
        with pytest.raises(argparse.ArgumentTypeError, match="not a span of time"):
            read("9" * 5_000 + "d")


def test_partitions() -> None:
    assert partition_of("orders/3") == ("orders", 3)
    assert partition_of("orders") == ("orders", None)
    for number in ("x", "", "²", "-1", "99999999999", "9" * 5_000):
        with pytest.raises(UsageError):
            partition_of(f"orders/{number}")


@pytest.mark.parametrize(("text", "ms"), [("90s", 90_000), ("1h30m", 5_400_000), ("500ms", 500), ("2d", 172_800_000)])
def test_spans(text: str, ms: int) -> None:
    assert span_ms(text) == ms


@pytest.mark.parametrize("text", ["", "90", "m", "1h30", "1x", "-1s"])
def test_no_span(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError):
        span_ms(text)


@pytest.mark.parametrize(("text", "ms"), [("5000", 5_000), ("5s", 5_000), ("1m30s", 90_000), ("0", 0)])
def test_a_flag_in_milliseconds_takes_a_span_with_its_unit(text: str, ms: int) -> None:
    assert milliseconds(text) == ms


@pytest.mark.parametrize("text", ["", "5x", "-1", "1.5", "five", "²"])
def test_no_milliseconds(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="5s"):
        milliseconds(text)


@pytest.mark.parametrize(
    ("text", "size"),
    [("512", 512), ("64KiB", 65_536), ("64k", 65_536), ("10M", 10 << 20), ("1GiB", 1 << 30), ("2T", 2 << 40)],
)
def test_sizes(text: str, size: int) -> None:
    assert size_bytes(text) == size


@pytest.mark.parametrize("text", ["", "K", "1KB", "-1", "1.5G", "1 GiB", "²", "9" * 30])
def test_no_size(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="1GiB"):
        size_bytes(text)


def test_options_of_topics_take_units_and_the_broker_judges_the_rest() -> None:
    """Regression: `-c retention_ms=1h` was refused, though `describe` prints `(7d)`."""
    given = [
        "retention_ms=1h",
        "segment.bytes=1GiB",
        "segment_ms=5000",
        "retention_bytes=-1",
        "cleanup_policy=delete",
        "odd=1h",
        "max_message_bytes=many",
    ]
    assert options_of(given, "--config") == {
        "retention_ms": "3600000",
        "segment.bytes": "1073741824",
        "segment_ms": "5000",
        "retention_bytes": "-1",
        "cleanup_policy": "delete",
        "odd": "1h",
        "max_message_bytes": "many",
    }
    with pytest.raises(UsageError, match="retention_ms: '1 hour' is not a span of time"):
        options_of(["retention_ms=1 hour"], "--config")
    with pytest.raises(UsageError, match="segment_bytes: '1h' is not a size"):
        options_of(["segment_bytes=1h"], "--config")


def test_settings() -> None:
    assert settings_of(["a=1", "b=2=3"], "--set") == {"a": "1", "b": "2=3"}
    for wrong in (["a"], ["=1"], ["a=1", "a=2"]):
        with pytest.raises(UsageError):
            settings_of(wrong, "--set")


def test_regular_expressions_match_whole_names() -> None:
    assert matching(["a.*", "c"], ["abc", "bac", "c", "cc"]) == ["abc", "c"]
    with pytest.raises(UsageError):
        matching(["("], ["a"])


def test_nobody_to_ask_is_a_no(monkeypatch: pytest.MonkeyPatch) -> None:
    confirm("Delete?", yes=True)
    monkeypatch.setattr("sys.stdin", io.StringIO("y\n"))
    with pytest.raises(UsageError, match=r"^Delete\? There is no terminal to ask at: give --yes if you are sure$"):
        confirm("Delete?", yes=False)


def test_a_transactions_number() -> None:
    assert [txn_no_of(text) for text in ("1", str((1 << 63) - 1))] == [1, (1 << 63) - 1]
    for text in ("0", "-1", "x", str(1 << 63)):
        with pytest.raises(argparse.ArgumentTypeError):
            txn_no_of(text)
