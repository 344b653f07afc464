"""Where a follower's log is cut: KIP-101, KIP-279; holes 2, 24. A naive model of two logs is the oracle."""

from __future__ import annotations

from random import Random

from oncelog_partition_leader.core.log.leader_epochs import LeaderEpochs
from oncelog_partition_leader.core.replication.sessions import FollowerEnd, Reset, Stream, Truncate, next_step

Log = list[int]
"""The leader epoch that wrote each offset."""


def table(log: Log) -> LeaderEpochs:
    epochs = LeaderEpochs()
    for offset, epoch in enumerate(log):
        epochs.assign(epoch, offset, offset + 1)
    return epochs


def told(log: Log) -> FollowerEnd:
    epochs = table(log)
    return FollowerEnd(len(log), epochs.last_epoch, epochs.last_epoch_start)


def agree(leader: Log, follower: Log) -> tuple[Log, int]:
    """Runs the handshake; the follower's log after it, and how many steps it took."""
    follower = list(follower)
    epochs = table(leader)
    for steps in range(100):
        step = next_step(told(follower), epochs.end_offset_for, 0, len(leader))
        if isinstance(step, Stream):
            assert step.next_offset == len(follower)
            return follower, steps
        assert isinstance(step, Truncate), step
        assert step.to < len(follower), "each step cuts something"
        del follower[step.to :]
    raise AssertionError("the handshake does not end")


def test_equal_logs_and_shorter_ones_stream_at_once() -> None:
    assert agree([1, 1, 2], [1, 1, 2]) == ([1, 1, 2], 0)
    assert agree([1, 1, 2], [1]) == ([1], 0)
    assert agree([1, 1, 2], []) == ([], 0)


def test_a_tail_of_an_epoch_that_the_leader_cut_short_goes() -> None:
    assert agree([1, 1, 3], [1, 1, 1, 1]) == ([1, 1], 1)


def test_epochs_that_the_leader_never_saw_go_whole() -> None:
    assert agree([1, 1, 4], [1, 2, 3, 3]) == ([1], 2)


def test_a_follower_below_the_leaders_start_begins_anew() -> None:
    epochs = LeaderEpochs()
    epochs.assign(3, 100, 110)
    assert next_step(FollowerEnd(50, 2, 40), epochs.end_offset_for, 100, 110) == Reset(100)
    assert next_step(FollowerEnd(105, 2, 40), epochs.end_offset_for, 100, 110) == Reset(100)


def test_a_log_that_was_emptied_has_nothing_to_cut_whoever_wrote_its_last_record() -> None:
    """The leader began anew at 12, so it knows no older epoch, or its own records of an older one go further."""
    began_anew = LeaderEpochs(12)
    began_anew.assign(5, 12, 14)
    assert next_step(FollowerEnd(12, 4, 12), began_anew.end_offset_for, 12, 14) == Stream(12)
    assert next_step(FollowerEnd(14, 4, 13), began_anew.end_offset_for, 12, 14) == Truncate(12)
    goes_further = table([3] * 13 + [5])
    assert next_step(FollowerEnd(12, 4, 12), goes_further.end_offset_for, 0, 14) == Stream(12)
    assert next_step(FollowerEnd(12, 4, 12), table([3] * 9).end_offset_for, 0, 9) == Truncate(9)


def test_random_histories_keep_what_is_committed_and_always_agree() -> None:
    random = Random(7)
    for _ in range(300):
        _history(random)


def _history(random: Random) -> None:
    """Leaders come from the ISR; whoever is out keeps its stale tail until its next session."""
    logs: list[list[tuple[int, int]]] = [[], [], []]  # (epoch, a number of its own) per offset
    isr, committed, number = [0, 1, 2], 0, 0
    for epoch in range(1, 9):
        leader = random.choice(isr)
        members = [leader]
        for other in range(3):
            if other == leader or random.random() < 0.4:
                continue
            kept, _ = agree([e for e, _ in logs[leader]], [e for e, _ in logs[other]])
            if other in isr:
                assert len(kept) >= committed, "what is committed is never cut"
            del logs[other][len(kept) :]
            assert logs[other] == logs[leader][: len(kept)], "after the handshake the logs agree byte by byte"
            logs[other] = list(logs[leader])
            members.append(other)
        isr = members
        for _ in range(random.randint(0, 4)):
            number += 1
            logs[leader].append((epoch, number))
            for other in isr[1:]:
                if random.random() < 0.7:
                    logs[other].extend(logs[leader][len(logs[other]) :])
        committed = max(committed, min(len(logs[member]) for member in isr))
