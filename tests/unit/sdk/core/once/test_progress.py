"""Reading goes on where the database says, and a gap in the log is no reason to look back."""

from __future__ import annotations

from oncelog.core.once.progress import Begin, Impossible, Progress, Seek, Skip
from oncelog.types import TopicPartition

P = TopicPartition("orders", 0)


def test_the_record_at_the_position_is_next() -> None:
    assert Progress().met(P, 5, 5, is_done=False) == Begin()


def test_a_gap_behind_what_was_done_here_may_be_another_workers() -> None:
    """Regression: the partition may have gone to a worker whose record failed, and come back behind it."""
    progress = Progress()
    progress.reached(P, 6)
    assert progress.met(P, 9, 6, is_done=False) == Seek(6)
    progress.sought(P, 6)
    assert progress.met(P, 9, 6, is_done=False) == Begin(), "6 to 8 are markers"


def test_a_record_beyond_the_position_leads_back_once() -> None:
    progress = Progress()
    assert progress.met(P, 9, 5, is_done=False) == Seek(5)
    progress.sought(P, 5)
    assert progress.met(P, 7, 5, is_done=False) == Begin(), "5 and 6 are markers"


def test_a_record_that_was_done_leads_forward() -> None:
    assert Progress().met(P, 2, 50, is_done=True) == Seek(50)
    assert Progress().met(P, 49, 50, is_done=True) == Skip()


def test_a_partition_that_comes_back_is_led_again() -> None:
    progress = Progress()
    progress.reached(P, 50)
    assert progress.met(P, 2, 50, is_done=True) == Seek(50)


def test_a_log_that_never_reaches_the_position_is_another_one() -> None:
    progress = Progress()
    assert [progress.met(P, 0, 50, is_done=True) for _ in range(4)] == [Seek(50)] * 3 + [Impossible()]


def test_seeks_count_in_a_row_only() -> None:
    progress = Progress()
    for _ in range(3):
        assert progress.met(P, 0, 50, is_done=True) == Seek(50)
        assert progress.met(P, 50, 50, is_done=False) == Begin()
        progress.reached(P, 51)
        assert progress.met(P, 0, 51, is_done=True) == Seek(51)
        assert progress.met(P, 51, 51, is_done=False) == Begin()


def test_another_worker_that_is_faster_all_the_time_is_no_other_log() -> None:
    """Regression: a member that did not know yet that its partition was another's raised that the topic was created again."""
    progress = Progress()
    for position in range(50, 90, 4):
        assert progress.met(P, position - 4, position, is_done=True) == Seek(position)
        progress.sought(P, position)
    assert [progress.met(P, 0, 90, is_done=True) for _ in range(3)] == [Seek(90), Seek(90), Impossible()]
