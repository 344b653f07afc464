"""What a batch becomes: byte for byte the same, smaller, empty, or a part of a gap."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from oncelog.core.batch.batch import decode_arrow, decode_batch, iter_batches, row_at, row_offsets
from oncelog.core.batch.control import control_of
from oncelog.core.batch.header import COMPACTED, check_body, read_header, stamp_prefix
from oncelog_partition_leader.core.compaction.key_offsets import KeyOffsets
from oncelog_partition_leader.core.compaction.plan import NEVER_MS
from oncelog_partition_leader.core.compaction.replayed_state import ReplayedState
from oncelog_partition_leader.core.compaction.rewriting import (
    Batch,
    PassRules,
    Rewriter,
    Skipped,
    Tally,
    add_keys,
    from_offset_on,
    is_gap,
)
from tests.unit.partition_leader.compaction_helpers import keyed
from tests.unit.partition_leader.log_helpers import NOW_MS, marker


def stamped(*batches: bytes, epochs: tuple[int, ...] = ()) -> list[Batch]:
    """Batches as a log holds them, one behind the other."""
    found: list[Batch] = []
    offset = 0
    for number, data in enumerate(batches):
        epoch = epochs[number] if epochs else 1
        whole = stamp_prefix(offset, len(data), epoch, NOW_MS + number) + data[36:]
        header = read_header(whole)
        found.append(Batch(header, memoryview(whole)))
        offset = header.next_offset
    return found


def rewritten(batches: list[Batch], bound: int = 1 << 40) -> list[bytes]:
    """One pass over these batches."""
    return passed(batches, bound)[0]


def passed(
    batches: list[Batch], bound: int = 1 << 40, held: int = 0, now_ms: int = NOW_MS
) -> tuple[list[bytes], Tally]:
    """The same, with what it says of itself."""
    keys, state, skipped = KeyOffsets(1 << 20, 1 << 30), ReplayedState(), Skipped([])
    add_keys(batches, skipped, keys)
    for header, data in batches:
        state.see(header, control_of(data) if header.is_control else None)
    rules = PassRules(now_ms=now_ms, delete_retention_ms=1_000, bound=bound, held_everywhere=held)
    rewriter = Rewriter(rules, keys, skipped, state, frozenset())
    out = [bytes(part) for part in [*rewriter.take(batches), *rewriter.end()]]
    for part in out:
        check_body(part, read_header(part))
    return out, rewriter.tally


def test_a_batch_of_which_nothing_goes_is_the_same_bytes() -> None:
    batches = stamped(keyed((b"a", b"1"), (b"b", b"2")), keyed((b"c", b"3")))
    assert rewritten(batches) == [bytes(batch.data) for batch in batches]


@pytest.mark.parametrize("codec", [0, 1, 2])
@pytest.mark.parametrize("with_headers", [False, True])
def test_what_is_left_keeps_offsets_times_headers_and_codec(codec: int, with_headers: bool) -> None:
    pairs = [(b"k%d" % (n % 3), b"value" * 20 + b"%d" % n) for n in range(40)]
    data = keyed(*pairs, codec=codec, with_headers=with_headers, producer=(7, 2, 5), txn=(9, 4))
    batches = stamped(keyed((b"x", b"y")), data, keyed((b"k0", b"newer")))
    (_, left, _) = rewritten(batches)
    header, before = read_header(left), batches[1].header
    assert header.is_compacted
    assert header.attributes == before.attributes | COMPACTED
    same = (
        "base_offset",
        "last_offset_delta",
        "producer_id",
        "producer_epoch",
        "base_sequence",
        "txn_no",
        "leader_epoch",
    )
    assert [getattr(header, name) for name in same] == [getattr(before, name) for name in same]
    whole = decode_batch(batches[1].data)
    assert decode_batch(left) == [whole[n] for n in (38, 37)][::-1]
    assert header.record_count == 2
    rows = decode_arrow(left)
    assert row_offsets(rows, header) == [38, 39]
    assert [row_at(rows, header, offset) for offset in (0, 38, 39, 40)] == [0, 0, 1, 2]


def test_neighbours_that_go_become_one_gap_per_leader_epoch() -> None:
    batches = stamped(*(keyed((b"a", b"%d" % n), (b"a", b"")) for n in range(6)), epochs=(1, 1, 2, 2, 2, 2))
    headers = [read_header(part) for part in rewritten(batches)]
    assert [(h.base_offset, h.next_offset, h.leader_epoch, h.record_count) for h in headers] == [
        (0, 4, 1, 0),
        (4, 10, 2, 0),
        (10, 12, 2, 1),
    ]
    assert [is_gap(header) for header in headers] == [True, True, False]
    assert headers[1].append_timestamp_ms == NOW_MS + 4, "the log's time never goes back"
    again = [Batch(read_header(part), memoryview(part)) for part in rewritten(batches)]
    assert rewritten(again) == rewritten(batches), "a second pass finds nothing to do"


def test_a_gap_is_cut_for_a_follower_whose_log_ends_within_it() -> None:
    batches = stamped(*(keyed((b"a", b"%d" % n)) for n in range(6)))
    data = b"".join(rewritten(batches))
    assert from_offset_on(data, 0) is data
    cut = bytes(from_offset_on(data, 3))
    assert [(h.base_offset, h.next_offset) for h, _ in iter_batches(cut)] == [(3, 5), (5, 6)]
    check_body(cut[:120], read_header(cut))
    whole = bytes(stamped(keyed((b"a", b"1"), (b"b", b"2")))[0].data)
    assert from_offset_on(whole, 1) == whole, "a batch with records is never divided"


def test_tombstones_above_the_bound_get_no_horizon() -> None:
    batches = stamped(keyed((b"a", None)), keyed((b"b", None)))
    found = [read_header(part).delete_horizon_ms for part in rewritten(batches, bound=1)]
    assert found == [NOW_MS + 1_000, -1]


def test_offsets_are_found_in_columns() -> None:
    keys = KeyOffsets(10, 1 << 20)
    add_keys(stamped(keyed((b"a", b"1"), (None, b"2"), (b"a", b"3"))), Skipped([]), keys)
    assert keys.newest(pa.array([b"a"], pa.binary())).tolist() == [2]
    assert isinstance(keys.newest(pa.array([], pa.binary())), np.ndarray)


def read_again(parts: list[bytes]) -> list[Batch]:
    return [Batch(read_header(part), memoryview(part)) for part in parts]


def test_what_not_every_replica_holds_stays_though_its_time_is_over_and_says_up_to_where_it_waits() -> None:
    """Both kinds: two tombstones at 0 and 1, and at 2 and 3 markers, of which the last one of its id stays anyway."""
    markers = [marker((50, 1)), marker((50, 2))]
    written, tally = passed(stamped(keyed((b"a", None)), keyed((b"b", None)), *markers), held=1)
    assert (tally.horizon_ms, tally.held_back_ms, tally.held_back_to) == (NOW_MS + 1_000, NOW_MS + 1_000, 4)
    later = NOW_MS + 1_000
    written, tally = passed(read_again(written), held=1, now_ms=later)
    assert [is_gap(read_header(part)) for part in written] == [True, False, False, False]
    assert (tally.horizon_ms, tally.held_back_ms, tally.held_back_to) == (NEVER_MS, later, 4)
    written, tally = passed(read_again(written), held=3, now_ms=later)
    assert [read_header(part).base_offset for part in written] == [0, 3], "one gap, and the last marker"
    assert tally.held_back_to == 4
    _, tally = passed(read_again(written), held=4, now_ms=later + 1)
    assert (tally.horizon_ms, tally.held_back_ms, tally.held_back_to) == (NEVER_MS, NEVER_MS, 0), "it asks for nothing"
    assert not tally.changed
