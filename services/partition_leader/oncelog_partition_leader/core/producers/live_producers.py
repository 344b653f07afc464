"""The producers that are known with the offsets of their newest batches, least recently seen first.

Rule 1: the newest `OBJECTS_MAX` are objects, all before them bytes, which are a tenth as large and cost no garbage collection.
Rule 2: the bytes of a producer are what a snapshot holds of it, and they are never changed, only replaced. So a snapshot takes
        references to them, and to the objects (`packed_entry`, rule 2), and encodes nothing while others wait.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from typing import Final

from oncelog_partition_leader.core.producers.packed_entry import ProducerEntry, last_seen_of, pack_entry, unpack_entry

OBJECTS_MAX: Final = 4_096
_READ_MAX: Final = 256


class LiveProducers:
    """Producer id -> `ProducerEntry`. An entry that `get` returned may be changed only after it was `put` back."""

    __slots__ = ("_objects", "_packed", "_read")

    def __init__(self) -> None:
        self._objects: OrderedDict[int, ProducerEntry] = OrderedDict()
        self._packed: OrderedDict[int, bytes] = OrderedDict()
        self._read: dict[int, ProducerEntry] = {}
        """Some of the packed ones, as objects: who judges a batch reads the entry that the batch then changes."""

    def __len__(self) -> int:
        return len(self._objects) + len(self._packed)

    def __contains__(self, producer_id: int) -> bool:
        return producer_id in self._objects or producer_id in self._packed

    def __iter__(self) -> Iterator[int]:
        yield from self._packed
        yield from self._objects

    def __getitem__(self, producer_id: int) -> ProducerEntry:
        entry = self.get(producer_id)
        if entry is None:
            raise KeyError(producer_id)
        return entry

    def items(self) -> Iterator[tuple[int, ProducerEntry]]:
        """Yields all of them, least recently seen first."""
        for producer_id, record in self._packed.items():
            yield producer_id, unpack_entry(record)
        yield from self._objects.items()

    def get(self, producer_id: int) -> ProducerEntry | None:
        """Returns the entry of a producer, None when it is not here."""
        entry = self._objects.get(producer_id)
        return self._unpacked(producer_id) if entry is None and self._packed else entry

    def _unpacked(self, producer_id: int) -> ProducerEntry | None:
        entry = self._read.get(producer_id)
        if entry is None:
            record = self._packed.get(producer_id)
            if record is None:
                return None
            if len(self._read) >= _READ_MAX:
                self._read.clear()
            entry = self._read[producer_id] = unpack_entry(record)
        return entry

    def put(self, producer_id: int, entry: ProducerEntry) -> None:
        """Makes this the producer that was seen last, with this entry, which may be changed until the next `put`."""
        objects = self._objects
        if producer_id in objects:
            objects[producer_id] = entry
            objects.move_to_end(producer_id)
            return
        objects[producer_id] = entry
        if self._packed.pop(producer_id, None) is not None:
            self._read.pop(producer_id, None)
        if len(objects) > OBJECTS_MAX:
            oldest, old = objects.popitem(last=False)
            self._packed[oldest] = pack_entry(oldest, old)

    def put_packed(self, producer_id: int, record: bytes) -> None:
        """Adds a record of a snapshot, as the newest one."""
        assert not self._objects, "a snapshot is loaded into an empty table"
        self._packed[producer_id] = record

    def oldest_seen_ms(self) -> int | None:
        """Returns when the least recently seen producer was seen; None without any."""
        for record in self._packed.values():
            return last_seen_of(record)
        for entry in self._objects.values():
            return entry.last_seen_ms
        return None

    def pop_oldest(self) -> tuple[int, ProducerEntry]:
        """Removes the least recently seen producer, and returns it."""
        if not self._packed:
            return self._objects.popitem(last=False)
        producer_id, record = self._packed.popitem(last=False)
        self._read.pop(producer_id, None)
        return producer_id, unpack_entry(record)

    def frozen(self) -> FrozenProducers:
        """Returns all of them as they are now. The caller sees to it that no object of now is changed (`generation`)."""
        # The view of `dict` itself has the same order, and spares a look-up for each entry.
        return FrozenProducers(list(dict.values(self._packed)), list(self._objects.items()))

    def check(self) -> None:
        """Asserts the invariants."""
        assert len(self._objects) <= OBJECTS_MAX
        assert self._packed.keys().isdisjoint(self._objects), "an object or bytes, not both"
        assert self._read.keys() <= self._packed.keys()
        assert list(dict.values(self._packed)) == list(self._packed.values()), "both views have the order of insertion"
        for producer_id, record in self._packed.items():
            assert pack_entry(producer_id, unpack_entry(record)) == record
            unpack_entry(record).window.check()
        for entry in self._objects.values():
            entry.window.check()


class FrozenProducers:
    """Producers of one moment."""

    __slots__ = ("_objects", "_packed")

    def __init__(self, packed: list[bytes], objects: list[tuple[int, ProducerEntry]]) -> None:
        self._packed = packed
        self._objects = objects

    def __len__(self) -> int:
        return len(self._packed) + len(self._objects)

    def records(self) -> Iterator[bytes]:
        """Yields the bytes of each, least recently seen first."""
        yield from self._packed
        for producer_id, entry in self._objects:
            yield pack_entry(producer_id, entry)
