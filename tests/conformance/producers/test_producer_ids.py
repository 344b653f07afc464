"""Cases A of the conformance list: producer ids and sessions."""

from __future__ import annotations

import pytest

from oncelog import errors
from oncelog.v1 import coordinator_pb2 as co
from oncelog.v1 import pid_allocator_pb2 as al
from oncelog.wire import methods
from oncelog_runtime.metadata import cluster_keys as keys
from tests.conformance.script import COMMITTED, Script


async def allocate(s: Script, count: int, timeout_ms: int = 10_000) -> list[int]:
    """Producer ids straight from the service."""
    request = al.AllocateProducerIdsRequest(count=count, requester="script")
    reply = await s.call("allocator-0", methods.ALLOCATE_PRODUCER_IDS, request, timeout_ms=timeout_ms)
    return [number for item in reply.ranges for number in range(item.first, item.first + item.count)]


async def test_a_used_up_block_is_a_retriable_error_and_no_id_comes_twice(s: Script) -> None:
    given = await allocate(s, 950)
    s.cut_from_etcd("allocator-0")
    refused = False
    while not refused:
        try:
            given += await allocate(s, 900)
        except errors.CoordinatorLoadInProgressError:
            refused = True
        assert len(given) < 5_000
    s.heal_etcd("allocator-0")
    given += await s.retry(lambda: allocate(s, 1_000))
    assert len(given) == len(set(given))


async def test_many_askers_cause_one_request_for_a_block(s: Script) -> None:
    writes = s.count_etcd_writes("allocator-0", keys.PRODUCER_ID_BLOCK_KEY)
    asking = [s.start(allocate(s, 10)) for _ in range(60)]
    given = [number for task in asking for number in await task]
    await s.sleep(0.5)
    assert len(set(given)) == 600
    assert writes() <= 1


async def test_a_failed_request_for_a_block_is_not_repeated_at_once(s: Script) -> None:
    writes = s.count_etcd_writes("allocator-0", keys.PRODUCER_ID_BLOCK_KEY)
    s.lose_etcd_answers("allocator-0", keys.PRODUCER_ID_BLOCK_KEY, count=3)
    began, given = s.now_ms, []
    for _ in range(3):
        given += await allocate(s, 900)
    assert s.now_ms - began >= 150, "each of three failures is followed by its back-off"
    assert writes() <= 3, "and what a lost answer won is burnt"
    assert len(given) == len(set(given))


async def test_a_block_of_a_dead_allocator_is_never_handed_out_again(s: Script) -> None:
    given = await allocate(s, 10)
    s.kill("allocator-0")
    s.restart("allocator-0")
    await s.until(lambda: "allocator-0" in s.cluster.services)
    again = await s.retry(lambda: allocate(s, 1_000))
    assert min(again) > max(given)
    assert len({number // 1_000 for number in given} & {number // 1_000 for number in again}) == 0


async def test_without_a_transactional_id_every_session_is_another_producer(s: Script) -> None:
    first, second = await s.producer(), await s.producer()
    assert first.producer_id != second.producer_id
    assert (first.epoch, second.epoch) == (0, 0)


async def test_an_empty_transactional_id_takes_no_transaction(s: Script) -> None:
    request = co.InitProducerIdRequest(transactional_id="", transaction_timeout_ms=1_000)
    with pytest.raises(errors.InvalidRequestError):
        await s.ask("any", methods.INIT_PRODUCER_ID, request)


@pytest.mark.parametrize("timeout_ms", [0, -1, 900_001])
async def test_a_bad_time_out_is_refused(s: Script, timeout_ms: int) -> None:
    with pytest.raises(errors.InvalidTransactionTimeoutError):
        await s.session("t", timeout_ms=timeout_ms)


async def test_a_new_id_is_answered_when_it_is_in_the_log(s: Script) -> None:
    held = s.hold(methods.PRODUCE, source=s.owner("t"))
    asking = s.start(s.session("t"))
    await held.caught()
    await s.sleep(0.3)
    assert not asking.done()
    held.release()
    writer = await asking
    assert (writer.epoch, writer.txn_no) == (0, 1)


async def test_an_unknown_id_ignores_what_the_client_expects(s: Script) -> None:
    writer = await s.session("t", expected_producer_id=4711, expected_producer_epoch=3)
    assert writer.producer_id != 4711
    assert writer.epoch == 0


async def test_a_new_session_raises_the_epoch_and_goes_on_with_the_numbers(s: Script) -> None:
    first = await s.session("t")  # its 1 is closed by the next session, as the number after each session's last one is
    second = await s.session("t")
    await s.end(second)  # committed
    third = await s.session("t")
    await s.end(third, commit=False)  # aborted
    fourth = await s.session("t")
    sessions = [first, second, third, fourth]
    assert len({writer.producer_id for writer in sessions}) == 1
    assert [writer.epoch for writer in sessions] == [0, 1, 2, 3]
    assert [writer.txn_no for writer in sessions] == [1, 2, 4, 6]


async def test_the_expected_session_goes_on_and_a_repeat_gets_the_same_answer(s: Script) -> None:
    first = await s.session("t")
    expected = {"expected_producer_id": first.producer_id, "expected_producer_epoch": first.epoch}
    second = await s.session("t", nonce="b", **expected)
    again = await s.session("t", nonce="b", **expected)
    assert second.epoch == first.epoch + 1
    assert again == second


async def test_a_session_that_was_overtaken_is_fenced(s: Script) -> None:
    first = await s.session("t")
    await s.session("t")
    with pytest.raises(errors.ProducerFencedError):
        await s.session("t", expected_producer_id=first.producer_id, expected_producer_epoch=first.epoch)


async def test_an_id_with_another_producer_id_is_fenced(s: Script) -> None:
    first = await s.session("t")
    with pytest.raises(errors.ProducerFencedError):
        await s.session("t", expected_producer_id=first.producer_id + 1, expected_producer_epoch=first.epoch)


async def test_a_new_session_aborts_what_is_open_and_is_given_at_once(s: Script) -> None:
    place = await s.place()
    old = await s.session("t")
    await s.write(place, old, "x")
    new = await s.session("t")
    assert (new.epoch, new.txn_no) == (old.epoch + 1, old.txn_no + 2), (
        "the old one could tell its next number by itself"
    )
    await s.write(place, new, "y")
    await s.end(new, counts={place: 1}, visible=True)
    await s.stable(place)
    assert await s.read(place) == ["y"]


async def test_a_new_session_does_not_wait_for_markers(s: Script) -> None:
    place = await s.place()
    old = await s.session("t")
    await s.write(place, old, "x")
    markers = s.hold(methods.WRITE_TXN_MARKERS)
    assert (await s.end(old, counts={place: 1})).outcome == COMMITTED
    new = await s.session("t")
    assert (new.epoch, new.txn_no) == (old.epoch + 1, old.txn_no + 2), "what follows the commit was the old session's"
    await markers.caught()
    markers.release()
    await s.stable(place)
    assert await s.read(place) == ["x"], "the decision stands, whoever comes next"


async def test_an_outage_of_the_log_does_not_burn_epochs(s: Script) -> None:
    first = await s.session("t")
    held = s.lose_answers(methods.PRODUCE, source=s.owner("t"))
    asking = s.start(s.session("t", nonce="b"))
    await held.caught(3)
    held.close()
    assert (await asking).epoch == first.epoch + 1


async def test_who_does_not_own_the_shard_says_so(s: Script) -> None:
    owner = s.owner("t")
    other = next(name for name in ("coordinator-0", "coordinator-1") if name != owner)
    request = co.InitProducerIdRequest(transactional_id="t", transaction_timeout_ms=1_000)
    with pytest.raises(errors.NotCoordinatorError):
        await s.call(other, methods.INIT_PRODUCER_ID, request)
    held = s.hold(methods.PRODUCE, source=other)  # the new owner's epoch record is on its way
    s.kill(owner)
    await s.until(lambda: s.runs_shard(other, "t"))
    with pytest.raises(errors.CoordinatorLoadInProgressError):
        await s.call(other, methods.INIT_PRODUCER_ID, request)
    held.release()
    await s.session("t")
