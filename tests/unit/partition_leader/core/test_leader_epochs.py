"""The epoch table (semantics F 135, 136; S17)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog.errors import CorruptMessageError
from oncelog_partition_leader.core.leader_epochs import LeaderEpochs


def _table(*batches: tuple[int, int, int]) -> LeaderEpochs:
    table = LeaderEpochs()
    for epoch, start, end in batches:
        table.assign(epoch, start, end)
        table.check()
    return table


def _five() -> LeaderEpochs:
    return _table((0, 0, 4), (3, 4, 6), (4, 6, 8), (4, 8, 9), (7, 9, 12), (9, 12, 20))


@pytest.mark.parametrize(
    ("asked", "answer"),
    [
        (0, (0, 4)),
        (2, (0, 4)),
        (3, (3, 6)),
        (4, (4, 9)),
        (5, (4, 9)),
        (8, (7, 12)),
        (9, (9, 20)),
        (11, (9, 20)),
        (-1, (-1, 0)),
    ],
)
def test_135_end_of_the_largest_epoch_at_or_below(asked: int, answer: tuple[int, int]) -> None:
    assert _five().end_offset_for(asked) == answer


def test_an_empty_table_knows_no_epoch() -> None:
    table = LeaderEpochs(7)
    assert (table.last_epoch, table.last_epoch_start, table.end_offset_for(5)) == (-1, 7, (-1, 7))


def test_only_the_first_batch_of_an_epoch_makes_an_entry() -> None:
    table = _five()
    assert table.entries == [(0, 0), (3, 4), (4, 6), (7, 9), (9, 12)]
    assert (table.last_epoch, table.last_epoch_start) == (9, 12)


def test_epochs_never_fall() -> None:
    table = _five()
    with pytest.raises(CorruptMessageError):
        table.assign(8, 20, 21)
    assert table.end_offset_for(9) == (9, 20)


@pytest.mark.parametrize(("offset", "epoch"), [(0, 0), (3, 0), (4, 3), (11, 7), (19, 9), (-1, -1)])
def test_epoch_of_an_offset(offset: int, epoch: int) -> None:
    assert _five().epoch_of(offset) == epoch


@pytest.mark.parametrize(
    ("end", "entries"),
    [(20, 5), (12, 4), (13, 5), (9, 3), (1, 1), (0, 0)],
)
def test_truncating_the_tail(end: int, entries: int) -> None:
    table = _five()
    table.truncate_tail(end)
    table.check()
    assert len(table.entries) == entries
    assert table.end_offset_for(99)[1] == end


def test_a_log_that_was_emptied_remembers_who_wrote_its_last_record() -> None:
    table = _five()
    table.truncate_head(20)
    last = table.last_epoch
    table.truncate_tail(20, emptied_at=20)
    table.check()
    assert table.entries == [(last, 20)]
    table.assign(last + 1, 20, 21)
    table.truncate_tail(20, emptied_at=20)
    assert table.entries == [(last, 20)], "what was written since and lost is forgotten"
    table.truncate_tail(20)
    assert table.entries == []


@pytest.mark.parametrize(
    ("start", "entries"),
    [
        (0, [(0, 0), (3, 4), (4, 6), (7, 9), (9, 12)]),
        (5, [(3, 5), (4, 6), (7, 9), (9, 12)]),
        (12, [(9, 12)]),
        (20, [(9, 20)]),
    ],
)
def test_truncating_the_head(start: int, entries: list[tuple[int, int]]) -> None:
    table = _five()
    table.truncate_head(start)
    table.check()
    assert table.entries == entries


_STEPS = st.lists(st.tuples(st.integers(0, 3), st.integers(1, 5)), max_size=20)


@given(_STEPS)
def test_the_table_survives_its_bytes(steps: list[tuple[int, int]]) -> None:
    table, epoch, offset = LeaderEpochs(), 0, 0
    for more, length in steps:
        epoch += more
        table.assign(epoch, offset, offset + length)
        offset += length
    again = LeaderEpochs.load(table.dump(), offset)
    assert again.entries == table.entries
    assert again.end_offset_for(epoch) == table.end_offset_for(epoch)


@given(_STEPS, _STEPS)
def test_two_replicas_find_where_they_part(mine: list[tuple[int, int]], theirs: list[tuple[int, int]]) -> None:
    """KIP-101: with a common beginning, asking for the last epoch until it agrees never keeps what differs."""
    logs = []
    for steps, parity in ((mine, 0), (theirs, 1)):
        epochs = [0, 0, 0]
        epoch = 0
        for more, length in steps:
            epoch += 2 * more + (parity if epoch == 0 else 0)
            epochs += [max(epoch, 2 + parity)] * length
        logs.append(sorted(epochs))
    leader, follower = logs
    leader_table = _table(*[(epoch, n, n + 1) for n, epoch in enumerate(leader)])
    while follower:
        epoch, end = leader_table.end_offset_for(follower[-1])
        if epoch == follower[-1] and len(follower) <= end:
            break
        kept = [e for e in follower[:end] if e <= epoch]
        assert len(kept) < len(follower) or epoch == follower[-1]
        follower = kept
        if epoch == (follower[-1] if follower else -1):
            break
    assert leader[: len(follower)] == follower
    assert len(follower) >= 3


@pytest.mark.parametrize("damage", [b"", b"\0" * 16, b"\0" * 40])
def test_damaged_bytes_are_refused(damage: bytes) -> None:
    with pytest.raises(CorruptMessageError):
        LeaderEpochs.load(damage, 0)
    data = bytearray(_five().dump())
    data[-1] ^= 1
    with pytest.raises(CorruptMessageError):
        LeaderEpochs.load(bytes(data), 20)
