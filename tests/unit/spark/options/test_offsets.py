"""Offsets in options and in checkpoints: what is read back, and what another source wrote."""

from __future__ import annotations

import pytest

from oncelog.errors import ConfigError
from pyspark_oncelog.options.offsets import (
    EARLIEST,
    LATEST,
    PartitionPosition,
    Position,
    StartingOffsets,
    TopicPosition,
    parse_assignment,
    parse_offsets_option,
    parse_times,
)


def test_offsets_may_be_given_per_partition() -> None:
    starting = parse_offsets_option('{"t":{"0":23,"1":-1}}')
    assert [starting.at("t", p) for p in range(3)] == [23, LATEST, EARLIEST]


def test_a_position_survives_the_checkpoint() -> None:
    position = Position({"t": TopicPosition("ab", {0: PartitionPosition(5, 2), 10: PartitionPosition(7)})})
    assert Position.from_json(position.to_json()) == position
    assert "from" not in position.to_json()
    assert Position.from_json(position.as_origin().to_json()) == position.as_origin()


@pytest.mark.parametrize(
    "data",
    [
        {},
        {"v": 2, "topics": {}},
        {"v": 1, "topics": {"t": {"p": {}}}},
        {"v": 1, "topics": []},
        {"v": 1, "topics": {}, "from": 7},
    ],
)
def test_a_foreign_checkpoint_is_refused(data: dict[str, object]) -> None:
    with pytest.raises(ConfigError):
        Position.from_json(data)


@pytest.mark.parametrize("word", ["earliest", " Latest "])
def test_a_word_is_for_all_partitions(word: str) -> None:
    starting = parse_offsets_option(word)
    assert starting == StartingOffsets(word.strip().lower())
    assert starting.at("t", 7) == (EARLIEST if "earliest" in word else LATEST)


@pytest.mark.parametrize("text", ["soon", "7", "[1]", '{"t": 7}', '{"t": {"a": 7}}', '{"t": {"0": "x"}}', ""])
def test_what_is_no_offsets_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(ConfigError, match="earliest, latest, or JSON such as"):
        parse_offsets_option(text)


@pytest.mark.parametrize("number", ["1.9", "1.0", "true", "1e400", "NaN", "[" * 100_000, "9" * 5_000])
def test_what_is_no_whole_number_is_refused_and_not_cut(number: str) -> None:
    """A query began at offset 1 when 1.9 was given, and 1e400 was an OverflowError."""
    with pytest.raises(ConfigError, match="earliest, latest, or JSON such as"):
        parse_offsets_option(f'{{"t":{{"0":{number}}}}}')
    with pytest.raises(ConfigError, match="option assign is JSON"):
        parse_assignment(f'{{"t":[{number}]}}')


@pytest.mark.parametrize("time", [-1, -2, -3, 1 << 63])
def test_a_time_is_one_of_the_clock(time: int) -> None:
    """A leader takes -1 for "the end": a read that was to begin by time began there, and left all records out."""
    with pytest.raises(ConfigError, match="times of option startingOffsetsByTimestamp are ms since 1970"):
        parse_times(f'{{"t":{{"0":{time}}}}}', "startingOffsetsByTimestamp")
    assert parse_times('{"t":{"0":0}}', "startingOffsetsByTimestamp") == {"t": {0: 0}}


@pytest.mark.parametrize(("offset", "fine"), [(-3, False), (-2, True), (-1, True), (0, True)])
def test_an_offset_is_0_and_up_or_one_of_two_names(offset: int, fine: bool) -> None:
    text = f'{{"t":{{"0":{offset}}}}}'
    if fine:
        assert parse_offsets_option(text).at("t", 0) == offset
        return
    with pytest.raises(ConfigError, match="0 and up"):
        parse_offsets_option(text)


def test_a_partition_without_a_name_is_read_from_or_to_what_it_was_said() -> None:
    assert parse_offsets_option('{"t":{"0":3}}', unnamed="latest").at("t", 1) == LATEST
    assert parse_offsets_option('{"t":{"0":3}}').at("u", 0) == EARLIEST


@pytest.mark.parametrize(
    ("starting", "special", "expected"),
    [
        (StartingOffsets("latest"), LATEST, True),
        (StartingOffsets("earliest"), LATEST, False),
        (StartingOffsets("earliest", {"t": {0: LATEST}}), LATEST, True),
        (StartingOffsets("latest", {"t": {0: 5}}), LATEST, False),
        (StartingOffsets("latest", time_ms=5), LATEST, False),
        (StartingOffsets("latest", times_ms={"t": {0: 5}}), LATEST, False),
    ],
)
def test_whether_anything_is_read_from_one_end(starting: StartingOffsets, special: int, expected: bool) -> None:
    assert starting.names(special) is expected


def test_what_was_said_of_a_topic_can_be_left_out() -> None:
    said = StartingOffsets("earliest", {"t": {0: 1}, "u": {0: 2}}, times_ms={"t": {0: 3}})
    assert said.without(["t"]) == StartingOffsets("earliest", {"u": {0: 2}})


@pytest.mark.parametrize(
    "text", ["", "t", "[]", "{}", '{"t": []}', '{"t": [-1]}', '{"t": ["a"]}', '{"t": 7}', '{"t": "12"}']
)
def test_what_assigns_no_partition_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="option assign is JSON"):
        parse_assignment(text)


def test_partitions_are_assigned_once_and_in_order() -> None:
    assert parse_assignment('{"t":[2,0,2],"u":["1"]}') == {"t": (0, 2), "u": (1,)}


def test_a_query_begins_where_its_position_is_its_own_origin() -> None:
    at = Position({"t": TopicPosition("ab", {0: PartitionPosition(5)})})
    assert not at.is_origin
    assert at.as_origin().is_origin
    assert not Position({}, at.topics).is_origin
