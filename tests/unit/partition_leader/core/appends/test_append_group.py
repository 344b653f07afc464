"""A group holds each producer and each transaction once."""

from __future__ import annotations

from oncelog_partition_leader.core.appends.append_group import AppendGroup
from oncelog_partition_leader.core.appends.commands import AppendBatch
from tests.unit.partition_leader.core.appends.a_reply import command


def test_a_command_of_the_same_producer_or_transaction_depends_on_the_group() -> None:
    group = AppendGroup()
    first = command(20, txn=(7, 1))
    assert not group.touches(first)
    group.add(first, first.header, first.data)
    assert group.touches(command(20, 1))
    assert group.touches(command(21, txn=(7, 2)))
    assert group.touches(command(7))
    assert not group.touches(command(22))


def test_batches_without_a_producer_depend_on_nothing() -> None:
    group = AppendGroup()
    commands: list[AppendBatch] = [command(-1) for _ in range(3)]
    for one in commands:
        assert not group.touches(one)
        group.add(one, one.header, one.data)
    assert group.commands == commands
    assert [data for _, data in group.batches] == [one.data for one in commands]
