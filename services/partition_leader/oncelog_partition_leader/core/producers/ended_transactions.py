"""The ended numbers, markers and newest session of each txn_producer_id, without limit of time (holes 12, 15).

Rule 1: nothing is forgotten here. The `OBJECTS_MAX` ids that were used last are objects, all others are packed bytes, 60 to 470
        each, outside of what the garbage collector looks through.
Rule 2: an object is packed when others were used since; it may have older bytes too, which do not count while it is an object.
Rule 3: a snapshot is of the moment at which `freeze` was called: an object of before is copied before it is changed.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Final

from oncelog.errors import CorruptMessageError
from oncelog_partition_leader.core.producers.packed_records import Leaf, PackedRecords
from oncelog_partition_leader.core.producers.txn_producer import (
    TxnProducer,
    pack_txn_producer,
    session_epoch_of,
    unpack_txn_producer,
)

OBJECTS_MAX: Final = 1_024
_LOADED_AT_ONCE: Final = 96
"""Records of a leaf that was loaded: it has room for some more."""


class EndedTransactions(Mapping[int, TxnProducer]):
    """txn_producer_id -> `TxnProducer`. Only what `to_change` returns may be changed, and only until its next call."""

    __slots__ = ("_count", "_generation", "_objects", "_packed")

    def __init__(self) -> None:
        self._objects: OrderedDict[int, TxnProducer] = OrderedDict()
        self._packed = PackedRecords()
        self._count = 0
        self._generation = 0

    @classmethod
    def load(cls, records: Iterator[tuple[int, bytes]]) -> EndedTransactions:
        """Takes over the records of a snapshot. Raises `CorruptMessageError` unless their ids ascend."""
        made, before = cls(), -1 << 63
        while some := list(islice(records, _LOADED_AT_ONCE)):
            ids = [one for one, _ in some]
            if ids[0] < before or any(one >= two for one, two in zip(ids, ids[1:], strict=False)):
                raise CorruptMessageError("the producer snapshot has transactional ids out of order")
            before = ids[-1] + 1
            made._packed.extend(some)
        made._count = len(made._packed)
        return made

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[int]:
        return (one for one, _ in sorted({**dict(self._packed.items()), **self._objects}.items()))

    def __getitem__(self, txn_producer_id: int) -> TxnProducer:
        known = self._objects.get(txn_producer_id)
        if known is not None:
            return known
        record = self._packed.get(txn_producer_id)
        if record is None:
            raise KeyError(txn_producer_id)
        return unpack_txn_producer(record)

    def __contains__(self, txn_producer_id: object) -> bool:
        if txn_producer_id in self._objects:
            return True
        return isinstance(txn_producer_id, int) and self._packed.get(txn_producer_id) is not None

    def session_epoch(self, txn_producer_id: int) -> int:
        """Returns the newest session epoch of an id; -1 = nothing is known of it."""
        known = self._objects.get(txn_producer_id)
        if known is not None:
            return known.session_epoch
        record = self._packed.get(txn_producer_id)
        return -1 if record is None else session_epoch_of(record)

    def to_change(self, txn_producer_id: int) -> TxnProducer:
        """Returns the state of an id, which may be changed; makes it when the id is new."""
        known = self._objects.get(txn_producer_id)
        if known is None:
            known = self._unpacked(txn_producer_id)
        elif known.generation != self._generation:
            known = known.copied(self._generation)
        self._objects[txn_producer_id] = known
        self._objects.move_to_end(txn_producer_id)
        if len(self._objects) > OBJECTS_MAX:
            oldest, old = self._objects.popitem(last=False)
            self._packed.put(oldest, pack_txn_producer(oldest, old))
        return known

    def _unpacked(self, txn_producer_id: int) -> TxnProducer:
        record = self._packed.get(txn_producer_id)
        self._count += record is None
        known = TxnProducer() if record is None else unpack_txn_producer(record)
        known.generation = self._generation
        return known

    def freeze(self) -> FrozenEnded:
        """Returns all of them as they are now, for a snapshot: from now on each object is copied before it is changed."""
        self._generation += 1
        return FrozenEnded(self._count, self._packed.leaves(), dict(self._objects))

    def check(self) -> None:
        """Asserts the invariants."""
        assert len(self._objects) <= OBJECTS_MAX
        assert self._count == len(dict(self._packed.items()).keys() | self._objects.keys())
        self._packed.check()
        for known in self.values():
            known.check()


class FrozenEnded:
    """The txn_producer_ids of one moment."""

    __slots__ = ("_count", "_leaves", "_objects")

    def __init__(self, count: int, leaves: list[Leaf], objects: dict[int, TxnProducer]) -> None:
        self._count = count
        self._leaves = leaves
        self._objects = objects

    def __len__(self) -> int:
        return self._count

    def parts(self) -> Iterator[bytes]:
        """Yields the bytes of all of them, by ascending id."""
        newer = [(one, pack_txn_producer(one, self._objects[one])) for one in sorted(self._objects)]
        at = 0
        for leaf in self._leaves:
            begin = at
            while at < len(newer) and newer[at][0] <= leaf.ids[-1]:
                at += 1
            yield leaf.data if begin == at else _merged(leaf, newer[begin:at])
        yield b"".join(record for _, record in newer[at:])


def _merged(leaf: Leaf, newer: list[tuple[int, bytes]]) -> bytes:
    return b"".join(record for _, record in sorted({**dict(leaf.records()), **dict(newer)}.items()))
