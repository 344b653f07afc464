"""Where a query begins, how far a micro-batch goes, and what is named as lost."""

from __future__ import annotations

import pytest

from oncelog.errors import ConfigError
from pyspark_oncelog.options.offsets import (
    PartitionPosition,
    Position,
    StartingOffsets,
    TopicPosition,
    parse_offsets_option,
)
from pyspark_oncelog.source.positions import (
    PartitionView,
    TopicView,
    View,
    begin_of,
    capped,
    clamp,
    fallen,
    held,
    inverted,
    latest,
    next_end,
    ranges,
    resolve,
    times,
    to_check,
)


def view(*partitions: tuple[int, int], topic_id: str = "id", epoch: int = 1) -> View:
    return {"t": TopicView(topic_id, {i: PartitionView(a, b, epoch) for i, (a, b) in enumerate(partitions)})}


def position(*offsets: int, topic_id: str = "id", epoch: int = 1) -> Position:
    return Position({"t": TopicPosition(topic_id, {i: PartitionPosition(o, epoch) for i, o in enumerate(offsets)})})


def read(start: Position, end: Position, now: View) -> list[tuple[int, int, int]]:
    return [(r.partition, r.start, r.end) for r in ranges(start, end, now)[0]]


def losses(start: Position, end: Position, now: View) -> str:
    return "; ".join(ranges(start, end, now)[1])


def test_a_query_begins_where_its_options_say() -> None:
    now = view((3, 9), (4, 8), (5, 7))
    assert resolve(StartingOffsets("earliest"), now) == position(3, 4, 5)
    assert resolve(parse_offsets_option('{"t":{"0":6,"1":-1}}'), now) == position(6, 8, 5)


def test_an_offset_for_a_partition_that_is_not_there_is_refused() -> None:
    with pytest.raises(ConfigError, match="not read"):
        resolve(parse_offsets_option('{"t":{"7":6}}'), view((0, 1)))


def test_a_new_leader_epoch_alone_is_no_micro_batch() -> None:
    start, now = position(9, 8, epoch=1), view((0, 9), (0, 9), epoch=2)
    end = next_end(start, latest(now), now, None)
    assert end.topics["t"].partitions == {0: PartitionPosition(9, 1), 1: PartitionPosition(9, 2)}


def test_a_limit_leaves_the_rest_for_later() -> None:
    now = view((0, 100), (0, 300))
    end = next_end(position(0, 0), latest(now), now, 40)
    assert read(position(0, 0), end, now) == [(0, 0, 10), (1, 0, 30)]


def test_a_limit_counts_a_new_partition_from_what_is_there() -> None:
    now = view((0, 10), (1000, 1010))
    end = next_end(position(10), latest(now), now, 5)
    assert end.topics["t"].partitions[1].offset == 1005


def test_a_new_partition_is_read_from_its_first_record() -> None:
    assert read(position(5), position(5, 3), view((0, 5), (0, 3))) == [(1, 0, 3)]


def test_nothing_to_read_is_no_loss() -> None:
    assert ranges(position(5), position(5), view((9, 9))) == ([], [])


def test_records_deleted_unread_are_named() -> None:
    start, end, now = position(5), position(20), view((8, 30))
    assert "begins at offset 8" in losses(start, end, now)
    assert read(start, end, now) == [(0, 8, 20)]


def test_a_log_that_became_shorter_is_named() -> None:
    assert "was cut to offset 3, below 5" in losses(position(5), position(3), view((0, 3)))
    assert read(position(5), position(3), view((0, 3))) == []


def test_a_topic_created_again_is_named_and_read_from_its_start() -> None:
    start, end, now = position(5, topic_id="old"), position(3), view((0, 3))
    assert "created again" in losses(start, end, now)
    assert read(start, end, now) == [(0, 0, 3)]


def test_a_deleted_topic_is_named() -> None:
    assert "was deleted before" in losses(position(1), position(3), {})
    assert "was deleted before" in losses(position(1), position(3), view((0, 3), topic_id="new"))
    assert "topic t is no longer read, or was deleted" in losses(position(1), Position({}), {})


def test_a_log_that_was_cut_and_grew_again_is_named_and_read_from_the_cut() -> None:
    start, end, now = position(50, epoch=1), position(70, epoch=2), view((0, 70), epoch=2)
    assert to_check(start, end, now) == {("t", 0): 1}
    assert ranges(start, end, now, {("t", 0): 50})[1] == []
    found, lost = ranges(start, end, now, {("t", 0): 40})
    assert [(r.start, r.end) for r in found] == [(40, 70)]
    assert "was cut to offset 40, below 50" in lost[0]


def test_an_epoch_that_the_log_has_forgotten_is_no_loss() -> None:
    start, end, now = position(50, epoch=1), position(70, epoch=2), view((45, 70), epoch=2)
    assert ranges(start, end, now, {("t", 0): -1})[1] == []


def test_what_was_written_after_a_cut_is_read_also_below_the_start() -> None:
    start, end, now = position(50, epoch=1), position(45, epoch=2), view((0, 45), epoch=2)
    assert to_check(start, end, now) == {("t", 0): 1}
    found, lost = ranges(start, end, now, {("t", 0): 40})
    assert [(r.start, r.end) for r in found] == [(40, 45)]
    assert "was cut to offset 40, below 50" in lost[0]


def test_nothing_is_asked_about_the_same_epoch_or_nothing_to_read() -> None:
    assert to_check(position(5, epoch=2), position(7, epoch=2), view((0, 7), epoch=2)) == {}
    assert to_check(position(7, epoch=1), position(7, epoch=1), view((0, 7), epoch=2)) == {}
    assert to_check(position(5, epoch=-1), position(7, epoch=2), view((0, 7), epoch=2)) == {}


def test_a_time_stands_for_the_first_record_at_or_after_it() -> None:
    now = view((0, 9), (0, 8))
    by_time = StartingOffsets("earliest", times_ms={"t": {1: 500}})
    assert times(by_time, now) == {("t", 1): 500}
    assert resolve(by_time, now, {("t", 1): 6}) == position(0, 6)


def test_a_time_after_the_last_record_is_an_error_or_the_end() -> None:
    now = view((0, 9))
    with pytest.raises(ConfigError, match="startingOffsetsByTimestampStrategy=latest"):
        resolve(StartingOffsets("earliest", time_ms=500), now, {("t", 0): None})
    lenient = StartingOffsets("earliest", time_ms=500, latest_if_none=True)
    assert resolve(lenient, now, {("t", 0): None}) == position(9)


def test_a_run_that_ends_by_itself_never_goes_beyond_its_target() -> None:
    target = position(5, 5)
    assert capped(position(9, 3), target) == position(5, 3)
    assert capped(position(9, topic_id="new"), target) == Position({})


def test_an_end_beyond_the_log_is_named() -> None:
    end, beyond = clamp(position(3, 12), view((0, 9), (0, 9)))
    assert end == position(3, 9)
    assert beyond == ["partition 1 of topic t ends at offset 9, below the 12 asked for"]


def test_a_plan_looks_only_at_its_arguments_and_at_what_is_lost() -> None:
    start, end = position(5, 6), position(20, 6)
    assert ranges(start, end, view((0, 20), (0, 6))) == ranges(start, end, view((5, 900), (6, 900), epoch=7))


def test_a_partition_that_a_late_broker_does_not_know_keeps_its_place() -> None:
    """Else the next broker that knows it would have it read again from its beginning."""
    start, late, now = position(100, 50), view((0, 120)), view((0, 130), (0, 60))
    end = next_end(start, latest(late), late, None)
    assert {p: at.offset for p, at in end.topics["t"].partitions.items()} == {0: 120, 1: 50}
    assert read(start, end, late) == [(0, 100, 120)]
    assert losses(start, end, late) == ""
    assert read(end, next_end(end, latest(now), now, None), now) == [(0, 120, 130), (1, 50, 60)]


# ------------------------------------------------------------ the first micro-batch, and ends that are seen lower


def test_the_first_end_says_where_its_micro_batch_began_and_the_second_does_not() -> None:
    start, now = position(5, 7).as_origin(), view((0, 9), (0, 7))
    first = next_end(start, latest(now), now, None)
    assert (first.topics, first.origin) == (position(9, 7).topics, position(5, 7).topics)
    later = view((0, 12), (0, 7))
    assert next_end(first, latest(later), later, None) == position(12, 7)
    assert next_end(first, latest(now), now, None) is first, "nothing moved: not another end"


def test_a_first_micro_batch_without_rows_says_so_too() -> None:
    start, now = position(9).as_origin(), view((0, 9))
    assert next_end(start, latest(now), now, None).origin == position(9).topics


def test_a_first_micro_batch_begins_again_where_it_began() -> None:
    first = Position(position(9).topics, position(5).topics)
    asked_anew = position(30).as_origin()
    assert begin_of(asked_anew, first) == position(5)
    assert begin_of(first, position(12)) is first
    assert begin_of(asked_anew, position(9)) is asked_anew, "an older version wrote the checkpoint"


def test_an_end_that_is_seen_below_the_start_waits_there() -> None:
    start, now = position(9, 4), view((0, 6), (0, 8))
    assert fallen(start, latest(now)) == {}
    assert held(start, latest(now), now) == position(9, 8)
    assert held(position(9, 4, topic_id="old"), latest(now), now) == latest(now)


def test_under_another_leader_an_end_goes_back_only_if_the_log_was_cut() -> None:
    start, now = position(9, epoch=1), view((0, 6), epoch=2)
    assert fallen(start, latest(now)) == {("t", 0): 1}
    assert held(start, latest(now), now, {("t", 0): 9}) == start
    assert held(start, latest(now), now, {("t", 0): 6}) == position(6, epoch=2)


def test_after_a_cut_a_position_goes_back_to_the_cut_and_not_below() -> None:
    """What lies below the cut was read, and is still there: the new leader does not give it out yet."""
    start, now = position(9, epoch=1), view((0, 6), epoch=2)
    end = held(start, latest(now), now, {("t", 0): 8})
    assert end == position(8, epoch=2)
    found, lost = ranges(start, end, now, {("t", 0): 8})
    assert (found, len(lost)) == ([], 1)
    grown = view((0, 12), epoch=2)
    assert read(end, held(end, latest(grown), grown), grown) == [(0, 8, 12)]


def test_a_topic_that_came_after_the_target_of_a_run_stays_at_its_start() -> None:
    start, now = position(3), view((0, 8))
    assert held(start, capped(latest(now), Position({})), now) == start
    assert held(start, Position({}), {}) == Position({}), "it is read no more"


def test_a_topic_that_is_missing_stays_at_its_start_without_a_word_of_its_own() -> None:
    start = position(3)
    assert held(start, Position({}), {}, missing={"t"}) == start
    assert ranges(start, start, {}) == ([], [])


def test_a_read_that_ends_before_it_begins_is_named() -> None:
    now = view((0, 9), (0, 9))
    assert inverted(position(5, 5), position(3, 5), now) == ["partition 0 of topic t would be read from offset 5 to 3"]
    assert inverted(position(5, 5), position(9, 5), now) == []


def test_an_end_below_what_is_left_of_a_log_is_lost_data_and_no_mistake() -> None:
    start, end, now = position(8), position(5), view((8, 20))
    assert inverted(start, end, now) == []
    assert ranges(start, end, now) == ([], ["partition 0 of topic t begins at offset 8: those below 5 were deleted"])
