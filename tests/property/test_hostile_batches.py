"""Any bytes against the door of a leader and its core: a named error or an append, never anything else, never a trace."""

from __future__ import annotations

import struct

from crc32c import crc32c
from hypothesis import example, given, settings
from hypothesis import strategies as st

from oncelog.core.batch.header import HEADER_BYTES, PREFIX_BYTES, stamp_prefix
from oncelog.errors import OncelogError
from oncelog_partition_leader.core.log.batch_check import BatchLimits, check_question, read_client_batch
from oncelog_partition_leader.core.log.segment import SegmentIndex, SegmentLimits, run_that_fits
from oncelog_partition_leader.core.producers.decisions import APPEND, Origin
from oncelog_partition_leader.core.producers.producer_state import ProducerStates
from oncelog_partition_leader.core.producers.transactions import TxnSession
from oncelog_partition_leader.log.batch_stamping import stamp
from tests.unit.partition_leader.log_helpers import NOW_MS, TAG, TOPIC_ID, States, batch, fence, marker

FIELDS = {
    "codec": (41, "B"),
    "attributes": (42, "H"),
    "schema_id": (44, "i"),
    "record_count": (48, "i"),
    "last_offset_delta": (52, "i"),
    "producer_id": (56, "q"),
    "producer_epoch": (64, "i"),
    "base_sequence": (68, "i"),
    "txn_producer_id": (72, "q"),
    "txn_no": (80, "q"),
    "base_timestamp_ms": (88, "q"),
    "max_timestamp_ms": (96, "q"),
    "uncompressed_length": (104, "i"),
    "partition_tag": (108, "I"),
    "txn_shard": (112, "H"),
}
"""Where each field of the body lies."""
LIMITS = SegmentLimits(segment_bytes=1 << 20, segment_ms=1 << 40, index_bytes=1 << 20)
EDGES = [-1, 0, 1, 2, 5, 7, 15, 16, 49, 50, 1 << 15, (1 << 16) - 1, 1 << 16, (1 << 31) - 2, (1 << 31) - 1, 1 << 31]
EDGES += [(1 << 32) - 1, 1 << 40, NOW_MS, (1 << 63) - (1 << 34), (1 << 63) - 1, -(1 << 31), -(1 << 63)]

mutations = st.dictionaries(
    st.sampled_from(sorted(FIELDS)),
    st.one_of(st.sampled_from(EDGES), st.integers(-(1 << 63), (1 << 63) - 1)),
    max_size=5,
)
originals = st.sampled_from(
    [
        batch(1, 0, payload=bytes(64)),
        batch(1, 2, 2, payload=bytes(64)),
        batch(-1, -1, epoch=-1, payload=bytes(64)),
        batch(2, 0, txn=(7, 2), payload=bytes(64)),
        batch(7, 1, txn=(7, 1), payload=bytes(64)),
        batch(1, 2, codec=2, uncompressed_length=1 << 20),
    ]
)


def mutated(data: bytes, changes: dict[str, int], length: int | None = None) -> bytes:
    """With other fields, as far as they fit, and sound checksums: what a hostile client would build."""
    changed = bytearray(data)
    for name, value in changes.items():
        position, kind = FIELDS[name]
        bits = 8 * struct.calcsize(kind)
        low = value & ((1 << bits) - 1)
        signed = low - (1 << bits) if kind.islower() and low >> (bits - 1) else low
        struct.pack_into(f"<{kind}", changed, position, signed)
    struct.pack_into("<I", changed, PREFIX_BYTES, crc32c(bytes(changed[40:])))
    return stamp_prefix(0, len(changed) if length is None else length, -1, -1) + bytes(changed[PREFIX_BYTES:])


def used_states() -> States:
    """A partition with a history: producers, a fence, an open transaction, an ended one."""
    states = States()
    for data in (batch(1, 0, 2), batch(7, 0, txn=(7, 1)), batch(3, 0), fence(3, 5), batch(8, 0, txn=(8, 1))):
        states.apply(data)
    states.apply(marker((8, 1)))
    return states


def offered(states: ProducerStates, data: bytes, verified: frozenset[TxnSession]) -> bool:
    """As a leader does: check, decide, stamp. True when the batch would be appended."""
    header = read_client_batch(data, BatchLimits(now_ms=NOW_MS), TOPIC_ID, 3)
    if states.decide(header, Origin.CLIENT, verified) is not APPEND:
        return False
    (appended,) = stamp([(header, data)], TAG, states.end_offset, 1, NOW_MS)
    index = SegmentIndex(0)
    index.next_offset = states.end_offset
    assert run_that_fits(index, [appended.header], LIMITS) == 1
    index.add(appended.header, 0)
    index.check()
    states.apply(appended.header, appended.base_offset, None)
    states.check()
    ProducerStates.restore(states.snapshot()).check()
    return True


@settings(max_examples=400, deadline=None)
@given(originals, mutations, st.booleans())
@example(batch(1, 2, 2, payload=bytes(64)), {"record_count": (1 << 31) - 1, "last_offset_delta": (1 << 31) - 2}, True)
@example(batch(1, 0, payload=bytes(64)), {"producer_epoch": (1 << 31) - 1}, True)
def test_a_mutated_header_is_refused_by_name_or_appended_soundly(
    data: bytes, changes: dict[str, int], verify: bool
) -> None:
    states = used_states().states
    before = states.snapshot()
    hostile = mutated(data, changes)
    verified = frozenset({TxnSession(t, n, e) for t in range(9) for n in range(4) for e in range(3)} if verify else ())
    try:
        appended = offered(states, hostile, verified)
    except OncelogError:
        appended = False
    assert appended or states.snapshot() == before, "a refused batch leaves no trace"


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=HEADER_BYTES + 64), st.integers(-(1 << 31), (1 << 31) - 1))
def test_any_bytes_with_any_length_are_refused_by_name(data: bytes, length: int) -> None:
    whole = data.ljust(HEADER_BYTES, b"\0")
    for hostile in (data, mutated(whole, {}, length), mutated(whole, {"partition_tag": TAG})):
        states = used_states().states
        before = states.snapshot()
        try:
            offered(states, hostile, frozenset())
        except OncelogError:
            assert states.snapshot() == before


@settings(max_examples=200, deadline=None)
@given(*[st.one_of(st.sampled_from(EDGES), st.integers(-(1 << 40), 1 << 40))] * 4)
def test_any_question_about_a_batch_is_answered_or_refused_by_name(
    producer_id: int, epoch: int, first: int, last: int
) -> None:
    states = used_states().states
    before = states.snapshot()
    try:
        check_question(producer_id, epoch, first, last)
        states.written(producer_id, epoch, first, last)
        assert epoch < states.fence_epoch(producer_id, epoch) < 1 << 31 or epoch < 5
    except OncelogError:
        pass
    assert states.snapshot() == before
