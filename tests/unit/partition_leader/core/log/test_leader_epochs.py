"""The epoch table (KIP-101, KIP-320; cases F135, F136; S17)."""

from __future__ import annotations

import struct

import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from oncelog.errors import CorruptMessageError
from oncelog_partition_leader.core.log.leader_epochs import LeaderEpochs


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
def test_end_of_the_largest_epoch_at_or_below(asked: int, answer: tuple[int, int]) -> None:
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
    assert (table.last_epoch, table.last_epoch_start, table.entries) == (9, 20, [(9, 20)])
    table.assign(9, 20, 22)
    table.assign(10, 22, 23)
    table.truncate_tail(20)
    table.check()
    assert table.entries == [(9, 20)], "what was written since and lost is forgotten"
    table.truncate_tail(19)
    table.check()
    assert (table.last_epoch, table.end_offset_for(99)) == (-1, (-1, 19))


def test_an_epoch_whose_records_were_cut_is_not_kept_for_the_one_that_was_deleted() -> None:
    table = _five()
    table.truncate_head(12)
    table.truncate_tail(12)
    table.check()
    assert (table.last_epoch, table.entries) == (7, [(7, 12)]), "9 wrote nothing of what is there"
    table.assign(9, 12, 13)
    table.truncate_head(13)
    assert table.end_offset_for(8) == (-1, 13), "who wrote the record before that one is of no use any more"


def test_a_log_that_begins_anew_knows_nobody_who_wrote_before() -> None:
    table = _five()
    table.reset(100)
    table.assign(11, 100, 102)
    table.truncate_tail(100)
    table.check()
    assert (table.last_epoch, table.entries) == (-1, [])


@pytest.mark.parametrize(
    ("start", "entries"),
    [
        (0, [(0, 0), (3, 4), (4, 6), (7, 9), (9, 12)]),
        (5, [(3, 5), (4, 6), (7, 9), (9, 12)]),
        (9, [(4, 9), (7, 9), (9, 12)]),
        (12, [(7, 12), (9, 12)]),
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


@pytest.mark.parametrize(
    ("pairs", "end", "entries", "last_epoch_when_cut"),
    [
        ([(3, 0), (4, 10)], 12, [(3, 0), (4, 10)], -1),
        ([(4, 12)], 12, [(4, 12)], 4),
        ([(4, 12), (5, 12)], 14, [(4, 12), (5, 12)], 4),
        ([(4, 12)], 14, [(4, 12)], -1),
        ([], 12, [], -1),
    ],
)
def test_a_table_of_an_older_version_is_understood(
    pairs: list[tuple[int, int]], end: int, entries: list[tuple[int, int]], last_epoch_when_cut: int
) -> None:
    """It did not mark who had written the record before the log start: that is the first one, if nothing of it is left."""
    table = LeaderEpochs.load(_bytes(pairs), end)
    table.check()
    assert table.entries == entries
    table.truncate_tail(pairs[0][1] if pairs else end)
    assert table.last_epoch == last_epoch_when_cut


@pytest.mark.parametrize("start", [0, 5, 9, 12, 20])
def test_an_older_version_understands_this_ones_table(start: int) -> None:
    """It takes each pair whose epoch is greater than the last one's, from -1 on."""
    table = _five()
    table.truncate_head(start)
    taken, last = [], -1
    for epoch, at in struct.iter_unpack("<iq", table.dump()[16:]):
        if epoch > last:
            taken.append((epoch, at))
            last = epoch
    assert taken == table.entries


def _bytes(pairs: list[tuple[int, int]]) -> bytes:
    body = b"".join(struct.pack("<iq", *pair) for pair in pairs)
    return struct.pack("<IqI", 0x4F4C4531, len(pairs), crc32c(body)) + body


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
    with pytest.raises(CorruptMessageError):
        LeaderEpochs.load(_bytes([(-1, 7)]), 7)
    data = bytearray(_five().dump())
    data[-1] ^= 1
    with pytest.raises(CorruptMessageError):
        LeaderEpochs.load(bytes(data), 20)
