"""Only the owner of a delivery settles it; what is refused changes nothing."""

from __future__ import annotations

import pytest

from oncelog.core.work import deadlines
from oncelog_partition_leader.core.channels.settlement import Claim, Refused, Settlement, Taken, Verdict
from oncelog_partition_leader.core.channels.settling import sure_ms
from oncelog_partition_leader.core.channels.stored_state import Retried, Stored
from tests.unit.partition_leader.core.channels.channel_rig import NOW, WAIT, channel, ordered, say, write

LATER = 1_000
"""After so long a worker asks before it hands a record out."""


@pytest.mark.parametrize("verdict", list(Verdict))
@pytest.mark.parametrize(("worker", "number"), [("bob", 1), ("ann", 2)])
def test_another_worker_or_delivery_is_refused_and_changes_nothing(verdict: Verdict, worker: str, number: int) -> None:
    delivery = channel()
    delivery.take("ann", 1, NOW)
    before = (delivery.describe(NOW), delivery.pending(NOW, 10))
    assert say(delivery, verdict, 0, number, worker) == [Refused(0, 0, False)]
    assert (delivery.describe(NOW), delivery.pending(NOW, 10)) == before
    assert delivery.next_write(NOW) is None


def test_what_is_not_held_is_told_in_ranges() -> None:
    delivery = channel(Stored(0, settled=((3, 4),)))
    delivery.take("ann", 2, NOW)
    assert delivery.settle("ann", Settlement(0, 12, 1), NOW) == [
        Refused(2, 2, False),
        Refused(3, 4, True),
        Refused(5, 12, False),
    ]
    assert delivery.describe(NOW).acknowledged == 2
    assert write(delivery).settled_before == 2
    assert delivery.settle("bob", Settlement(0, 0, 1), NOW) == [Refused(0, 0, True)]


def test_a_repeated_acknowledgement_succeeds_before_and_after_it_is_durable() -> None:
    delivery = channel()
    delivery.take("ann", 2, NOW)
    for _ in range(2):
        assert say(delivery, Verdict.ACK, 1) == []
    write(delivery)
    assert say(delivery, Verdict.ACK, 1) == []
    assert say(delivery, Verdict.ACK, 1, worker="bob") == [Refused(1, 1, True)]
    assert say(delivery, Verdict.NACK, 1) == [Refused(1, 1, True)]
    assert delivery.describe(NOW).acknowledged == 1


def test_a_repeated_rejection_succeeds_while_the_letter_is_written() -> None:
    delivery = channel(dead_letter_topic="letters")
    delivery.take("ann", 1, NOW)
    for _ in range(2):
        assert say(delivery, Verdict.REJECT, 0, reason="poison") == []
    assert delivery.describe(NOW).dead == 1


def test_a_late_acknowledgement_counts_until_the_deadline_was_looked_at() -> None:
    delivery = channel()
    delivery.take("ann", 2, NOW)
    assert say(delivery, Verdict.ACK, 0, now_ms=NOW + WAIT) == []
    delivery.tick(NOW + WAIT)
    assert say(delivery, Verdict.ACK, 1, now_ms=NOW + WAIT) == [Refused(1, 1, False)]


@pytest.mark.parametrize(("delay_ms", "due_ms"), [(0, 0), (70, 70), (-1, 500)])
def test_a_record_comes_again_after_the_pause_of_its_nack(delay_ms: int, due_ms: int) -> None:
    delivery = channel(records=1, retry_backoff_ms=500)
    delivery.take("ann", 1, NOW)
    say(delivery, Verdict.NACK, 0, delay_ms=delay_ms)
    assert delivery.pending(NOW, 9)[0].due_ms == due_ms
    if due_ms:
        assert delivery.take("bob", 1, NOW + due_ms - 1) == []
    assert delivery.take("bob", 1, NOW + due_ms) == [Taken(0, 0, 2)]
    delivery.check()


def test_a_touched_record_has_a_new_deadline() -> None:
    delivery = channel(records=2)
    delivery.take("ann", 2, NOW)
    say(delivery, Verdict.TOUCH, 0, now_ms=NOW + 10)
    assert delivery.take("bob", 9, NOW + WAIT) == [Taken(1, 1, 2)]
    assert delivery.take("bob", 9, NOW + WAIT + 9) == []
    assert delivery.take("bob", 9, NOW + WAIT + 10) == [Taken(0, 0, 2)]


def test_a_released_delivery_does_not_count() -> None:
    delivery = channel(records=1)
    delivery.take("ann", 1, NOW)
    say(delivery, Verdict.RELEASE, 0)
    assert delivery.take("bob", 1, NOW) == [Taken(0, 0, 1)]


# ---------------------------------------------------------------- taking


def test_neighbours_of_the_same_delivery_are_one() -> None:
    delivery = channel(Stored(0, retried=(Retried(2, 1, 0), Retried(3, 1, 0), Retried(5, 4, 0))), records=7)
    assert delivery.take("ann", 9, NOW) == [
        Taken(0, 1, 1),
        Taken(2, 3, 2),
        Taken(4, 4, 1),
        Taken(5, 5, 5),
        Taken(6, 6, 1),
    ]


def test_a_record_that_fails_always_keeps_no_other_waiting() -> None:
    delivery = channel(Stored(0, retried=(Retried(0, 1, 0), Retried(1, 1, 0))), records=4)
    order = []
    for number in range(2, 6):
        taken = delivery.take("ann", 1, NOW)[0]
        order.append(taken.first)
        if taken.first == 0:
            say(delivery, Verdict.NACK, 0, number)
    assert sorted(order) == [0, 1, 2, 3]


def test_half_of_a_share_is_new_and_the_rest_when_there_is_no_more() -> None:
    stored = Stored(0, retried=tuple(Retried(offset, 1, 0) for offset in range(6)))
    delivery = channel(stored, records=10)
    assert delivery.take("ann", 4, NOW) == [Taken(0, 1, 2), Taken(6, 7, 1)]
    assert delivery.take("ann", 6, NOW) == [Taken(2, 5, 2), Taken(8, 9, 1)]


# ---------------------------------------------------------------- claiming


def test_a_claim_is_a_new_delivery_of_another_worker() -> None:
    delivery = channel(records=2)
    delivery.take("ann", 2, NOW)
    assert delivery.claim("bob", Claim((1, 99)), NOW + LATER) == [Taken(1, 1, 2)]
    assert say(delivery, Verdict.ACK, 1) == [Refused(1, 1, False)]
    assert delivery.in_flight_of("ann") == delivery.in_flight_of("bob") == 1
    assert write(delivery).retried == ((1, 1, 0),), "the count is durable"


def test_only_what_was_idle_is_claimed() -> None:
    delivery = channel(records=4)
    delivery.take("ann", 2, NOW)
    delivery.take("ann", 2, NOW + 50)
    assert delivery.claim("bob", Claim(min_idle_ms=2_000, from_offset=1), NOW + 2_000) == [Taken(1, 1, 2)]
    assert delivery.claim("bob", Claim(most=1), NOW + 2_000) == [Taken(0, 0, 2)]


@pytest.mark.parametrize("offsets", [(), (0, 1)])
def test_what_another_worker_was_given_or_has_touched_a_moment_ago_is_not_claimed(offsets: tuple[int, ...]) -> None:
    """It may hand it out without asking, when the claimer has acknowledged it by then."""
    delivery = channel(records=2)
    delivery.take("ann", 2, NOW)
    say(delivery, Verdict.TOUCH, 1, now_ms=NOW + 500)
    assert delivery.claim("bob", Claim(offsets), NOW + LATER - 1) == []
    assert delivery.claim("bob", Claim(offsets), NOW + LATER) == [Taken(0, 0, 2)]
    assert delivery.claim("bob", Claim(offsets), NOW + LATER + 499) == [Taken(0, 0, 3)], "its own, whenever it likes"
    assert delivery.claim("ann", Claim((0,)), NOW + LATER + 500) == [], "the claim was a delivery"
    assert delivery.claim("bob", Claim((1,)), NOW + LATER + 500) == [Taken(1, 1, 2)]
    delivery.check()


def test_a_claim_waits_as_long_as_a_worker_may_be_sure() -> None:
    assert LATER > deadlines.SURE_MS
    for ack_wait_ms in (500, 1_000, 2_000, WAIT):
        assert sure_ms(ack_wait_ms) == min(LATER, deadlines.sure_for_ms(LATER // 2, ack_wait_ms))


def test_a_claim_takes_a_record_that_waits_and_none_that_was_never_delivered() -> None:
    delivery = channel(records=2)
    delivery.take("ann", 1, NOW)
    say(delivery, Verdict.NACK, 0, delay_ms=60_000)
    assert delivery.claim("bob", Claim((0, 1)), NOW) == [Taken(0, 0, 2)]
    delivery.check()


def test_a_claim_goes_not_beyond_the_last_delivery() -> None:
    delivery = channel(records=1, max_deliveries=1)
    delivery.take("ann", 1, NOW)
    assert delivery.claim("bob", Claim((0,)), NOW) == []
    assert delivery.in_flight_of("ann") == 1


def test_a_claim_does_not_overtake() -> None:
    delivery = ordered([5, 5], Stored(0, retried=(Retried(1, 1, 0),)))
    assert delivery.claim("bob", Claim((1,)), NOW) == []
