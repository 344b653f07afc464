"""One channel on one partition: window, writes, dead letters, operators."""

from __future__ import annotations

import pytest

from oncelog_partition_leader.core.channels import delivery as module
from oncelog_partition_leader.core.channels.delivery import Delivery
from oncelog_partition_leader.core.channels.settlement import Claim, Dead, Settlement, Taken, Verdict
from oncelog_partition_leader.core.channels.stored_state import Retried, Stored
from oncelog_partition_leader.core.producers.transactions import TxnName
from oncelog_runtime.metadata.channel_values import ChannelOptions
from tests.unit.partition_leader.core.channels.channel_rig import NOW, WAIT, channel, ordered, say, write

# ---------------------------------------------------------------- the window


def test_it_looks_no_further_than_its_window() -> None:
    delivery = channel(records=10, max_unsettled=4)
    assert (delivery.next_offset, delivery.wants(NOW)) == (4, 0)
    delivery.take("ann", 4, NOW)
    say(delivery, Verdict.ACK, 0)
    assert delivery.wants(NOW) == 0, "it is not durable"
    write(delivery)
    assert delivery.wants(NOW) == 1
    delivery.supply(0, 10, [(0, 9)])
    assert delivery.next_offset == 5


def test_it_wants_more_when_half_of_enough_is_gone() -> None:
    delivery = channel(records=0)
    assert delivery.wants(NOW) == module.ENOUGH
    delivery.supply(0, module.ENOUGH, [(0, module.ENOUGH - 1)])
    assert delivery.wants(NOW) == 0
    delivery.take("ann", module.ENOUGH // 2, NOW)
    assert delivery.wants(NOW) == module.ENOUGH // 2


def test_records_that_retention_has_deleted_are_counted_and_never_come() -> None:
    delivery = channel(Stored(0, settled=((2, 3),)))
    delivery.take("ann", 3, NOW)
    say(delivery, Verdict.ACK, 1)
    delivery.log_begins_at(12)
    assert delivery.describe(NOW).expired == 9, "not 1 (acknowledged), 2 and 3 (settled)"
    assert (delivery.settled_before, delivery.next_offset) == (12, 12)
    assert delivery.take("ann", 9, NOW) == []
    assert say(delivery, Verdict.ACK, 0)[0].settled
    write(delivery)
    delivery.log_begins_at(5)
    assert delivery.settled_before == 12


def test_a_share_ends_at_its_deadline() -> None:
    delivery = channel()
    assert delivery.next_deadline_ms() is None
    assert delivery.take("ann", 3, NOW) == [Taken(0, 2, 1)]
    assert delivery.next_deadline_ms() == NOW + WAIT
    assert delivery.available(NOW + WAIT - 1) == 7
    assert delivery.available(NOW + WAIT) == 10
    assert delivery.take("bob", 10, NOW + WAIT) == [Taken(0, 2, 2), Taken(3, 9, 1)]
    assert delivery.describe(NOW + WAIT).redelivered == 3
    assert write(delivery).retried == tuple(Retried(offset, 1, 0) for offset in range(3))
    delivery.check()


def test_a_worker_that_left_holds_nothing() -> None:
    delivery = channel(retry_backoff_ms=100)
    delivery.take("ann", 2, NOW)
    delivery.worker_left("bob", NOW)
    delivery.worker_left("ann", NOW)
    assert delivery.in_flight_of("ann") == 0
    assert delivery.describe(NOW).waiting == 2
    assert delivery.next_write(NOW) is not None


def test_a_worker_that_says_so_leaves_no_trace() -> None:
    delivery = channel(retry_backoff_ms=100)
    delivery.take("ann", 2, NOW)
    delivery.worker_left("ann", NOW, released=True)
    assert delivery.take("bob", 1, NOW) == [Taken(0, 0, 1)]
    assert delivery.next_write(NOW) is None


def test_times_out_of_date_do_not_pile_up() -> None:
    delivery = channel(records=1)
    delivery.take("ann", 1, NOW)
    for now_ms in range(NOW, NOW + 9_000):
        say(delivery, Verdict.TOUCH, 0, now_ms=now_ms)
        delivery.tick(now_ms)
    assert delivery._records.deadlines.offsets < 5_000


# ---------------------------------------------------------------- order by key


def test_nothing_overtakes_an_earlier_record_of_its_key() -> None:
    delivery = ordered([5, 5, 6, -1, -1])
    assert delivery.take("ann", 9, NOW) == [Taken(0, 0, 1), Taken(2, 4, 1)]
    say(delivery, Verdict.NACK, 0, delay_ms=50)
    assert delivery.available(NOW) == 0
    assert delivery.take("bob", 9, NOW + 50) == [Taken(0, 0, 2)]
    say(delivery, Verdict.ACK, 0, 2, "bob")
    assert delivery.available(NOW) == 0, "a fail-over might bring it again"
    write(delivery)
    assert delivery.take("bob", 9, NOW + 50) == [Taken(1, 1, 1)]
    delivery.check()


def test_a_dead_record_holds_up_its_key_until_its_letter_is_durable() -> None:
    delivery = ordered([5, 5], dead_letter_topic="letters")
    delivery.take("ann", 1, NOW)
    say(delivery, Verdict.REJECT, 0)
    delivery.buried(delivery.to_bury()[0].offset)
    assert delivery.available(NOW) == 0
    write(delivery)
    assert delivery.available(NOW) == 1


# ---------------------------------------------------------------- writing


def test_what_was_settled_is_durable_with_the_number_that_was_told() -> None:
    delivery = channel(Stored(0, write_no=8))
    assert delivery.written_with == delivery.confirmed_write_no == 8
    delivery.take("ann", 5, NOW)
    delivery.settle("ann", Settlement(0, 1, 1), NOW)
    assert delivery.written_with == 9
    made = delivery.next_write(NOW)
    assert made == (9, 2, (), (), False)
    assert delivery.settled_before == 0, "not before it is confirmed"
    say(delivery, Verdict.ACK, 3)
    assert delivery.written_with == 10
    assert delivery.next_write(NOW) is None
    delivery.written(8)
    assert delivery.confirmed_write_no == 8
    delivery.written(9)
    assert (delivery.settled_before, delivery.confirmed_write_no) == (2, 9)
    assert write(delivery) == (10, 2, ((3, 3),), (), False)


def test_a_write_passes_over_what_is_settled_already() -> None:
    delivery = channel(Stored(0, settled=((1, 1), (3, 4))))
    delivery.take("ann", 2, NOW)
    say(delivery, Verdict.ACK, 0)
    say(delivery, Verdict.ACK, 2)
    assert write(delivery) == (1, 5, (), (), False)


def test_the_newest_count_is_written_and_none_of_a_settled_record() -> None:
    delivery = channel(records=3)
    delivery.take("ann", 3, NOW)
    for offset in (0, 1, 2):
        say(delivery, Verdict.NACK, offset, delay_ms=0)
    delivery.take("bob", 3, NOW)
    say(delivery, Verdict.NACK, 0, 2, "bob", delay_ms=80)
    say(delivery, Verdict.ACK, 1, 2, "bob")
    made = write(delivery, NOW + 20)
    assert made.retried == (Retried(0, 2, 60), Retried(2, 1, 0))
    assert made.settled == ((1, 1),)


def test_settled_before_is_written_alone_when_it_has_moved_by_a_block() -> None:
    delivery = channel(records=0)
    delivery.supply(0, module.IDLE_ADVANCE - 1, [])
    assert delivery.next_write(NOW) is None
    delivery.supply(module.IDLE_ADVANCE - 1, module.IDLE_ADVANCE, [])
    assert write(delivery) == (1, module.IDLE_ADVANCE, (), (), False)
    assert delivery.next_write(NOW) is None


# ---------------------------------------------------------------- dead letters


def test_a_dead_record_is_settled_when_its_letter_is_written() -> None:
    delivery = channel(records=2, dead_letter_topic="letters", max_deliveries=1)
    delivery.take("ann", 2, NOW)
    say(delivery, Verdict.REJECT, 0, reason="poison")
    delivery.tick(NOW + WAIT)
    assert delivery.to_bury() == [Dead(0, 1, "poison"), Dead(1, 1, "max_deliveries")]
    assert delivery.to_bury() == []
    delivery.bury_later(1, 500, NOW, "")
    delivery.buried(0)
    assert delivery.next_deadline_ms() == NOW + 500
    delivery.tick(NOW + 500)
    assert delivery.to_bury() == [Dead(1, 1, "max_deliveries")]
    assert write(delivery).settled_before == 1
    delivery.buried(1)
    delivery.buried(1)
    delivery.bury_later(1, 5, NOW, "")
    assert write(delivery).settled_before == 2
    assert delivery.describe(NOW).dead == 2


def test_a_record_that_was_delivered_often_enough_is_not_delivered() -> None:
    delivery = channel(Stored(0, retried=(Retried(0, 3, 0),)), records=2, max_deliveries=3)
    assert delivery.take("ann", 5, NOW) == [Taken(1, 1, 1)]
    assert delivery.describe(NOW).dead == 1
    assert write(delivery).settled_before == 1


def test_without_a_topic_any_more_dead_records_are_dropped() -> None:
    delivery = channel(records=1, dead_letter_topic="letters")
    delivery.take("ann", 1, NOW)
    say(delivery, Verdict.REJECT, 0)
    delivery.configure(ChannelOptions())
    assert delivery.to_bury() == []
    assert write(delivery).settled_before == 1


# ---------------------------------------------------------------- operators


def test_a_seek_goes_on_elsewhere_and_forgets_the_rest() -> None:
    delivery = channel(Stored(5, seeks=2), records=0, dead_letter_topic="letters")
    delivery.supply(5, 10, [(5, 9)])
    delivery.take("ann", 4, NOW)
    say(delivery, Verdict.ACK, 5)
    outstanding = delivery.next_write(NOW)
    say(delivery, Verdict.ACK, 6)
    say(delivery, Verdict.REJECT, 7)
    delivery.seek(6)
    delivery.seek(3)
    assert delivery.seeks == 3, "one write for both"
    assert (delivery.next_offset, delivery.settled_before) == (3, 3)
    assert say(delivery, Verdict.ACK, 8)[0].settled is False
    assert delivery.to_bury() == []
    delivery.written(outstanding.write_no)  # type: ignore[union-attr]
    assert delivery.settled_before == 3
    assert write(delivery) == (2, 3, (), (), True)
    delivery.supply(5, 10, [(5, 9)])
    assert delivery.next_offset == 3, "this call began elsewhere"
    delivery.supply(3, 10, [(3, 9)])
    assert delivery.take("bob", 10, NOW) == [Taken(3, 9, 1)]
    delivery.check()


def test_a_paused_channel_delivers_nothing_and_settles() -> None:
    delivery = channel()
    delivery.take("ann", 1, NOW)
    delivery.pause(True)
    assert (delivery.available(NOW), delivery.wants(NOW), delivery.take("bob", 5, NOW)) == (0, 0, [])
    assert say(delivery, Verdict.ACK, 0) == []
    delivery.pause(False)
    assert delivery.take("bob", 1, NOW) == [Taken(1, 1, 1)]


def test_other_options_count_from_then_on() -> None:
    delivery = channel()
    delivery.take("ann", 1, NOW)
    delivery.configure(ChannelOptions(ack_wait_ms=100))
    delivery.take("ann", 1, NOW)
    delivery.tick(NOW + 100)
    assert [record.offset for record in delivery.pending(NOW + 100, 9, worker_id="ann")] == [0]
    with pytest.raises(AssertionError, match="cannot be changed"):
        delivery.configure(ChannelOptions(order_by_key=True))


def test_a_shorter_wait_takes_nothing_from_workers_that_were_told_the_longer_one() -> None:
    delivery = channel()
    delivery.take("ann", 1, NOW)
    delivery.configure(ChannelOptions(ack_wait_ms=100))
    delivery.take("ann", 1, NOW)
    for offset in range(2):
        say(delivery, Verdict.TOUCH, offset, now_ms=NOW + 50)
    delivery.tick(NOW + 50 + WAIT - 1)
    assert [record.offset for record in delivery.pending(NOW, 9, worker_id="ann")] == [0]
    delivery.check()
    delivery.tick(NOW + 50 + WAIT)
    assert delivery.take("bob", 9, NOW + 50 + WAIT)[0] == Taken(0, 1, 2)


def test_what_a_transaction_gives_back_has_the_wait_of_its_delivery() -> None:
    delivery = channel()
    delivery.take("ann", 1, NOW)
    delivery.configure(ChannelOptions(ack_wait_ms=100))
    delivery.take("ann", 1, NOW)
    delivery.enter_transaction("ann", TxnName(1, 1), [Settlement(0, 1, 1)], NOW)
    delivery.left_transaction(TxnName(1, 1), [(0, 1)], NOW + 10)
    delivery.tick(NOW + 110)
    assert [record.offset for record in delivery.pending(NOW, 9, worker_id="ann")] == [0]
    delivery.check()


def test_hashes_belong_to_an_order() -> None:
    with pytest.raises(AssertionError, match="hashes"):
        channel(records=0).supply(0, 1, [(0, 0)], [5])


def test_questions_change_nothing() -> None:
    delivery = channel()
    delivery.take("ann", 3, NOW)
    before = delivery.describe(NOW)
    delivery.pending(NOW, 10)
    delivery.claim("bob", Claim((9,)), NOW)
    delivery.open_transactions()
    delivery.left_transaction(TxnName(1, 1), [(0, 9)], NOW)
    assert delivery.describe(NOW) == before
    assert delivery.next_write(NOW) is None


@pytest.mark.parametrize("records", [1_000, 100_000])
def test_a_backlog_costs_a_range(records: int) -> None:
    delivery: Delivery = channel(records=records)
    delivery.take("ann", 10, NOW)
    assert (len(delivery._records.fresh), len(delivery._records.entries)) == (1, 10)
