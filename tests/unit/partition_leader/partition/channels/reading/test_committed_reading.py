"""What a channel reads: committed records below the last stable offset, nothing of aborted transactions, no marker."""

from __future__ import annotations

from oncelog.core.batch.batch import decode_arrow
from oncelog.core.batch.header import read_header
from oncelog.errors import TransactionDataLossError
from oncelog_partition_leader.partition.channels.reading.batch_cutting import cut
from oncelog_partition_leader.partition.channels.reading.committed_reading import (
    read_committed,
    read_one,
    records_between,
    visible_end,
)
from oncelog_partition_leader.partition.partition import LocalPartition
from tests.unit.partition_leader.channel_world import ChannelWorld, play
from tests.unit.partition_leader.log_helpers import batch, marker

TAG_OF = {"tag": 0}


def _tagged(partition: LocalPartition) -> dict[str, int]:
    return {"tag": partition.tag}


async def _marked(world: ChannelWorld, *, commit: bool = True, lost: bool = False) -> LocalPartition:
    """Offsets 0: plain, 1-2: of a transaction, 3: its marker, 4: plain."""
    partition = await world.lead()
    await world.send(b"a")
    world.write(batch(5, 0, 2, txn=(5, 1), tag=partition.tag))
    end = marker((5, 1), commit=commit, lost=lost, expected=3 if lost else -1)
    world.write(_for(partition, end))
    await world.send(b"b")
    return partition


def _for(partition: LocalPartition, data: bytes) -> bytes:
    from oncelog.core.batch.header import read_header, rewritten

    return rewritten(read_header(data)._replace(partition_tag=partition.tag), data[120:])


def _unsettled(first: int, last: int) -> int:
    """Nothing is settled."""
    return max(last - first + 1, 0)


def test_markers_are_left_out() -> None:
    async def scenario(world: ChannelWorld) -> None:
        partition = await _marked(world)
        found = read_committed(partition, 0, 1 << 20)
        assert [header.base_offset for header, _ in found.batches] == [0, 1, 4]
        assert (found.next_offset, found.loss) == (5, None)
        assert records_between(partition, 0, 5, _unsettled) == 4
        assert records_between(partition, 2, 5, _unsettled) == 2

    play(scenario)


def test_no_fewer_records_are_counted_than_a_compacted_batch_may_have() -> None:
    async def scenario(world: ChannelWorld) -> None:
        partition = await world.lead()
        await world.send(*(b"%d" % n for n in range(6)))
        data = bytes(partition.log.read(0, 1 << 20, 6))
        left = cut(decode_arrow(data), read_header(data), [(0, 0), (4, 5)])
        partition.log.read = lambda *_args: left  # type: ignore[method-assign]
        assert [records_between(partition, offset, 6, _unsettled) for offset in range(6)] == [3, 3, 3, 3, 2, 1]

    play(scenario)


def test_aborted_records_are_left_out() -> None:
    async def scenario(world: ChannelWorld) -> None:
        partition = await _marked(world, commit=False)
        found = read_committed(partition, 0, 1 << 20)
        assert [header.base_offset for header, _ in found.batches] == [0, 4]
        assert found.next_offset == 5

    play(scenario)


def test_an_open_transaction_ends_what_is_visible() -> None:
    async def scenario(world: ChannelWorld) -> None:
        partition = await world.lead()
        await world.send(b"a")
        world.write(batch(5, 0, 2, txn=(5, 1), tag=partition.tag))
        await world.send(b"b")
        assert visible_end(partition) == 1
        assert read_committed(partition, 0, 1 << 20).next_offset == 1
        assert read_committed(partition, 1, 1 << 20) == ([], 1, None)

    play(scenario)


def test_a_transaction_that_lost_records_is_named_and_not_passed() -> None:
    async def scenario(world: ChannelWorld) -> None:
        partition = await _marked(world, lost=True)
        found = read_committed(partition, 0, 1 << 20)
        assert ([header.base_offset for header, _ in found.batches], found.next_offset) == ([0], 1)
        stopped = read_committed(partition, 1, 1 << 20)
        assert (stopped.batches, stopped.next_offset) == ([], 1)
        assert isinstance(stopped.loss, TransactionDataLossError)
        assert [header.base_offset for header, _ in read_committed(partition, 4, 1 << 20).batches] == [4]

    play(scenario)


def test_what_is_left_of_a_lost_transaction_can_be_left_out_alone() -> None:
    async def scenario(world: ChannelWorld) -> None:
        partition = await _marked(world, lost=True)
        found = read_committed(partition, 0, 1 << 20, skips_lost=True)
        assert [header.base_offset for header, _ in found.batches] == [0, 4]
        assert (found.next_offset, found.loss) == (5, None)

    play(scenario)


def test_what_retention_has_deleted_is_passed_over() -> None:
    async def scenario(world: ChannelWorld) -> None:
        partition = await world.lead()
        for _ in range(3):
            await world.send(b"a")
        await partition.delete_before(2)
        found = read_committed(partition, 0, 1 << 20)
        assert ([header.base_offset for header, _ in found.batches], found.next_offset) == ([2], 3)
        assert read_one(partition, 1) is None
        one = read_one(partition, 2)
        assert one is not None
        assert one[0].base_offset == 2

    play(scenario)
