"""What a leader has written is what the next one begins with."""

from __future__ import annotations

from oncelog_partition_leader.core.channels.settlement import Settlement, Taken, Verdict
from oncelog_partition_leader.core.channels.stored_state import Retried, Stored, StoredPending, Write
from oncelog_partition_leader.core.producers.transactions import TxnName
from tests.unit.partition_leader.core.channels.channel_rig import NOW, channel, say, write


def test_a_write_read_as_the_stored_state_loses_nothing() -> None:
    old = channel(Stored(0, write_no=4))
    old.take("ann", 6, NOW)
    old.settle("ann", Settlement(0, 1, 1), NOW)
    say(old, Verdict.ACK, 4)
    say(old, Verdict.NACK, 3, delay_ms=200)
    made = write(old, NOW + 50)
    assert made == Write(5, 2, ((4, 4),), (Retried(3, 1, 150),))
    new = channel(Stored(made.settled_before, made.write_no, 0, made.settled, made.retried))
    assert new.take("bob", 10, NOW) == [Taken(2, 2, 1), Taken(5, 9, 1)], "in flight comes again, settled does not"
    assert new.take("bob", 10, NOW + 149) == []
    assert new.take("bob", 10, NOW + 150) == [Taken(3, 3, 2)]
    new.check()


def test_its_end_lies_behind_all_that_is_remembered() -> None:
    assert Stored(4).end == 4
    assert Stored(4, settled=((6, 9),)).end == 10
    assert Stored(4, settled=((6, 9),), retried=(Retried(12, 1, 0),)).end == 13
    assert Stored(4, pending=(StoredPending(TxnName(7, 1), ((20, 21), (5, 6))),)).end == 22
